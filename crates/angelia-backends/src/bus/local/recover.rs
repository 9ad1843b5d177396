//! Reads the log at start: finds the messages that must still be delivered, and the position at
//! which writing continues.
//!
//! Each segment counts up to its first incomplete record. In the last segment that is where a
//! killed process stopped writing; nothing behind that record was ever accepted.

use std::{collections::HashMap, io, os::unix::fs::FileExt as _, path::Path};

use angelia_core::model::{
    EndpointName,
    bus::{BusMessage, Destination},
};

use super::{
    record::{self, DecodedMessage, DecodedRecord},
    segment::{self, ActiveSegment, SEGMENT_HEADER_BYTES, SegmentFile},
};
use crate::bus::index::{BusIndex, DeadEntry, LogLocation, QueueEntry};

/// A segment that is not written to any more.
#[derive(Debug)]
pub(super) struct SealedSegment {
    pub(super) number: u64,
    pub(super) size: u64,
    /// The time at which its last message was accepted, in Unix milliseconds.
    pub(super) last_accepted_at_ms: i64,
}

#[derive(Debug)]
pub(super) struct RecoveredLog {
    /// Oldest first.
    pub(super) sealed: Vec<SealedSegment>,
    /// `None`: the last segment is complete, or there is none.
    pub(super) active: Option<ActiveSegment>,
    pub(super) next_segment: u64,
    pub(super) next_position: u64,
    /// Messages accepted since the given time, so that repeats of them are recognised.
    pub(super) recent: Vec<(BusMessage, i64)>,
}

struct RecoveredMessage {
    to: EndpointName,
    accepted_at_ms: i64,
    size: usize,
    location: LogLocation,
    dead: Option<(i64, String)>,
}

#[derive(Default)]
struct LogScan {
    messages: HashMap<u64, RecoveredMessage>,
    highest_position: u64,
    recent: Vec<(BusMessage, i64)>,
}

/// Reads all segments and fills the index. `since` is the start of the dedupe window, in Unix
/// milliseconds.
pub(super) fn recover(folder: &Path, index: &mut BusIndex, since: i64) -> io::Result<RecoveredLog> {
    let mut log = LogScan::default();
    let mut sealed: Vec<(SegmentScan, SegmentFile)> = Vec::new();
    let mut next_segment = 1;
    for number in segment::list(folder)? {
        next_segment = number + 1;
        let Some(made) = segment::open(folder, number)? else {
            std::fs::remove_file(segment::path(folder, number))?;
            continue;
        };
        let scanned = scan_segment(&made, &mut log, since)?;
        if scanned.is_empty {
            // The segment was made in advance and never written to.
            std::fs::remove_file(segment::path(folder, number))?;
            continue;
        }
        if let Some((before, made)) = sealed.last()
            && !before.has_end
        {
            tracing::error!(
                "{} is damaged: everything after byte {} is lost",
                segment::path(folder, made.number).display(),
                before.end_offset
            );
        }
        sealed.push((scanned, made));
    }
    let active = sealed.pop_if(|(scanned, _)| !scanned.has_end);
    let LogScan { messages: wanted, highest_position: highest, recent } = log;
    fill_index(index, wanted);
    let sealed = sealed.into_iter().map(|(scanned, made)| SealedSegment {
        number: made.number,
        size: made.size,
        last_accepted_at_ms: scanned.last_accepted_at_ms,
    });
    Ok(RecoveredLog {
        sealed: sealed.collect(),
        active: active
            .map(|(scanned, made)| ActiveSegment::new(made, scanned.end_offset, scanned.link)),
        next_segment,
        next_position: highest + 1,
        recent,
    })
}

struct SegmentScan {
    is_empty: bool,
    has_end: bool,
    end_offset: u64,
    link: u32,
    last_accepted_at_ms: i64,
}

fn scan_segment(made: &SegmentFile, log: &mut LogScan, since: i64) -> io::Result<SegmentScan> {
    let mut bytes = vec![0; usize::try_from(made.size).unwrap_or(0)];
    made.file.read_exact_at(&mut bytes, 0)?;
    let mut scanned = SegmentScan {
        is_empty: true,
        has_end: false,
        end_offset: SEGMENT_HEADER_BYTES as u64,
        link: 0,
        last_accepted_at_ms: 0,
    };
    while let Some((record, length, link)) = bytes_from(&bytes, scanned.end_offset)
        .and_then(|rest| record::decode(rest, made.seed, Some(scanned.link)))
    {
        let place = LogLocation { segment: made.number, offset: scanned.end_offset };
        scanned.is_empty = false;
        scanned.end_offset += length as u64;
        scanned.link = link;
        match record {
            DecodedRecord::End => {
                scanned.has_end = true;
                break;
            }
            DecodedRecord::Message(message) => {
                scanned.last_accepted_at_ms =
                    scanned.last_accepted_at_ms.max(message.accepted_at_ms);
                log.add_message(&message, place, since);
            }
            DecodedRecord::Done(positions) => {
                for position in positions {
                    log.highest_position = log.highest_position.max(position);
                    log.messages.remove(&position);
                }
            }
            DecodedRecord::Dead { position, at, reason } => {
                if let Some(wanted) = log.messages.get_mut(&position) {
                    wanted.dead = Some((at, reason.to_owned()));
                }
            }
        }
    }
    Ok(scanned)
}

fn bytes_from(bytes: &[u8], offset: u64) -> Option<&[u8]> {
    bytes.get(usize::try_from(offset).ok()?..)
}

impl LogScan {
    fn add_message(&mut self, message: &DecodedMessage<'_>, place: LogLocation, since: i64) {
        if message.accepted_at_ms >= since {
            let to = message.to.first().copied().unwrap_or_default();
            self.recent.extend(restore_message(message, to).map(|m| (m, message.accepted_at_ms)));
        }
        for (position, to) in (message.first_position..).zip(&message.to) {
            self.highest_position = self.highest_position.max(position);
            let Ok(to) = EndpointName::new(to) else {
                continue;
            };
            let wanted = RecoveredMessage {
                to,
                accepted_at_ms: message.accepted_at_ms,
                size: message.envelope.len(),
                location: place,
                // A copy of an earlier record stays a dead letter if the original was one.
                dead: self.messages.remove(&position).and_then(|old| old.dead),
            };
            self.messages.insert(position, wanted);
        }
    }
}

fn fill_index(index: &mut BusIndex, wanted: HashMap<u64, RecoveredMessage>) {
    let mut wanted: Vec<_> = wanted.into_iter().collect();
    wanted.sort_unstable_by_key(|(position, _)| *position);
    for (position, wanted) in wanted {
        let RecoveredMessage { to, accepted_at_ms: at, size, location: place, dead } = wanted;
        if let Some((at, reason)) = dead {
            let dead = DeadEntry {
                to,
                reason,
                died_at_ms: at,
                size,
                location: Some(place),
                message: None,
            };
            index.insert_dead_letter(position, dead);
            continue;
        }
        let slot = index.slot_or_insert(&to);
        let entry = QueueEntry {
            position,
            accepted_at_ms: at,
            size,
            location: Some(place),
            message: None,
            watch: None,
            // The message may have been delivered, and its acknowledgement lost in a crash.
            redelivered: true,
            is_written: false,
        };
        index.enqueue(slot, entry, None);
    }
}

/// Returns the message as it was accepted, for one of its receivers.
pub(super) fn restore_message(read: &DecodedMessage<'_>, to: &str) -> Option<BusMessage> {
    let to = if read.is_broadcast {
        Destination::Everyone
    } else {
        Destination::Endpoint(EndpointName::new(to).ok()?)
    };
    Some(BusMessage {
        id: read.id.into(),
        from: read.from.map(Into::into),
        verified: read.is_verified,
        to,
        envelope: bytes::Bytes::copy_from_slice(read.envelope),
    })
}

/// Reads messages at the given locations. Leaves out messages that are damaged or have gone.
pub(super) fn read_messages(
    folder: &Path,
    places: &[(u64, LogLocation)],
) -> io::Result<Vec<(u64, BusMessage)>> {
    let mut open: Option<SegmentFile> = None;
    let mut messages = Vec::with_capacity(places.len());
    for (position, place) in places {
        if open.as_ref().is_none_or(|made| made.number != place.segment) {
            open = match segment::open(folder, place.segment) {
                Ok(made) => made,
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(error),
            };
        }
        let Some(made) = &open else { continue };
        let mut bytes = vec![0; record::RECORD_HEADER_BYTES];
        if made.file.read_exact_at(&mut bytes, place.offset).is_err() {
            continue;
        }
        let Some(length) =
            record::record_length(&bytes).filter(|length| *length as u64 <= made.size)
        else {
            continue;
        };
        bytes.resize(length, 0);
        if made.file.read_exact_at(&mut bytes, place.offset).is_err() {
            continue;
        }
        let Some((DecodedRecord::Message(read), _, _)) = record::decode(&bytes, made.seed, None)
        else {
            continue;
        };
        let name = position
            .checked_sub(read.first_position)
            .and_then(|index| read.to.get(usize::try_from(index).ok()?));
        messages.extend(name.and_then(|to| Some((*position, restore_message(&read, to)?))));
    }
    Ok(messages)
}

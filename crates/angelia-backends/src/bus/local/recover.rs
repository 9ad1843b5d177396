//! Reads the log at start: finds the messages that must still be delivered, and where writing
//! continues.
//!
//! Each segment counts up to its first incomplete record. In the last segment that is where a
//! killed process stopped writing; nothing behind that record was ever accepted.

use std::{collections::HashMap, io, os::unix::fs::FileExt as _, path::Path};

use angelia_core::model::{
    EndpointName,
    bus::{Destination, Message},
};

use super::{
    record::{self, Read, ReadRecord},
    segment::{self, HEADER, Made, Segment},
};
use crate::bus::index::{Dead, Entry, Index, Place};

/// A segment that is not written to any more.
#[derive(Debug)]
pub(super) struct Sealed {
    pub(super) number: u64,
    pub(super) size: u64,
    /// When its last message was accepted, in Unix milliseconds.
    pub(super) last_at: i64,
}

#[derive(Debug)]
pub(super) struct Recovered {
    /// Oldest first.
    pub(super) sealed: Vec<Sealed>,
    /// `None`: the last segment is complete, or there is none.
    pub(super) active: Option<Segment>,
    pub(super) next_segment: u64,
    pub(super) next_position: u64,
    /// Messages accepted since the given time, so that repeats of them are recognised.
    pub(super) recent: Vec<(Message, i64)>,
}

struct Wanted {
    to: EndpointName,
    at: i64,
    size: usize,
    place: Place,
    dead: Option<(i64, String)>,
}

#[derive(Default)]
struct Log {
    wanted: HashMap<u64, Wanted>,
    highest: u64,
    recent: Vec<(Message, i64)>,
}

/// Reads all segments and fills the index. `since` is the start of the dedupe window, in Unix
/// milliseconds.
pub(super) fn recover(folder: &Path, index: &mut Index, since: i64) -> io::Result<Recovered> {
    let mut log = Log::default();
    let mut sealed: Vec<(Scanned, Made)> = Vec::new();
    let mut next_segment = 1;
    for number in segment::list(folder)? {
        next_segment = number + 1;
        let Some(made) = segment::open(folder, number)? else {
            std::fs::remove_file(segment::path(folder, number))?;
            continue;
        };
        let scanned = scan(&made, &mut log, since)?;
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
                before.end
            );
        }
        sealed.push((scanned, made));
    }
    let active = sealed.pop_if(|(scanned, _)| !scanned.has_end);
    let Log { wanted, highest, recent } = log;
    fill(index, wanted);
    let sealed = sealed.into_iter().map(|(scanned, made)| Sealed {
        number: made.number,
        size: made.size,
        last_at: scanned.last_at,
    });
    Ok(Recovered {
        sealed: sealed.collect(),
        active: active.map(|(scanned, made)| Segment::new(made, scanned.end, scanned.link)),
        next_segment,
        next_position: highest + 1,
        recent,
    })
}

struct Scanned {
    is_empty: bool,
    has_end: bool,
    end: u64,
    link: u32,
    last_at: i64,
}

fn scan(made: &Made, log: &mut Log, since: i64) -> io::Result<Scanned> {
    let mut bytes = vec![0; usize::try_from(made.size).unwrap_or(0)];
    made.file.read_exact_at(&mut bytes, 0)?;
    let mut scanned =
        Scanned { is_empty: true, has_end: false, end: HEADER as u64, link: 0, last_at: 0 };
    while let Some((record, length, link)) = rest(&bytes, scanned.end)
        .and_then(|rest| record::decode(rest, made.seed, Some(scanned.link)))
    {
        let place = Place { segment: made.number, offset: scanned.end };
        scanned.is_empty = false;
        scanned.end += length as u64;
        scanned.link = link;
        match record {
            ReadRecord::End => {
                scanned.has_end = true;
                break;
            }
            ReadRecord::Message(message) => {
                scanned.last_at = scanned.last_at.max(message.at);
                log.message(&message, place, since);
            }
            ReadRecord::Done(positions) => {
                for position in positions {
                    log.highest = log.highest.max(position);
                    log.wanted.remove(&position);
                }
            }
            ReadRecord::Dead { position, at, reason } => {
                if let Some(wanted) = log.wanted.get_mut(&position) {
                    wanted.dead = Some((at, reason.to_owned()));
                }
            }
        }
    }
    Ok(scanned)
}

fn rest(bytes: &[u8], offset: u64) -> Option<&[u8]> {
    bytes.get(usize::try_from(offset).ok()?..)
}

impl Log {
    fn message(&mut self, message: &Read<'_>, place: Place, since: i64) {
        if message.at >= since {
            let to = message.to.first().copied().unwrap_or_default();
            self.recent.extend(restore(message, to).map(|m| (m, message.at)));
        }
        for (position, to) in (message.first..).zip(&message.to) {
            self.highest = self.highest.max(position);
            let Ok(to) = EndpointName::new(to) else {
                continue;
            };
            let wanted = Wanted {
                to,
                at: message.at,
                size: message.envelope.len(),
                place,
                // A copy of an earlier record stays a dead letter if the original was one.
                dead: self.wanted.remove(&position).and_then(|old| old.dead),
            };
            self.wanted.insert(position, wanted);
        }
    }
}

fn fill(index: &mut Index, wanted: HashMap<u64, Wanted>) {
    let mut wanted: Vec<_> = wanted.into_iter().collect();
    wanted.sort_unstable_by_key(|(position, _)| *position);
    for (position, wanted) in wanted {
        let Wanted { to, at, size, place, dead } = wanted;
        if let Some((at, reason)) = dead {
            let dead = Dead { to, reason, at, size, place: Some(place), message: None };
            index.enter_dead(position, dead);
            continue;
        }
        let slot = index.slot(&to);
        let entry = Entry {
            position,
            at,
            size,
            place: Some(place),
            message: None,
            watch: None,
            // The message may have been delivered, and its acknowledgement lost in a crash.
            again: true,
            handed: false,
        };
        index.enter(slot, entry, None);
    }
}

/// Returns the message as it was accepted, for one of its receivers.
pub(super) fn restore(read: &Read<'_>, to: &str) -> Option<Message> {
    let to = if read.is_broadcast {
        Destination::Everyone
    } else {
        Destination::Endpoint(EndpointName::new(to).ok()?)
    };
    Some(Message {
        id: read.id.into(),
        from: read.from.map(Into::into),
        verified: read.is_verified,
        to,
        envelope: bytes::Bytes::copy_from_slice(read.envelope),
    })
}

/// Reads messages at the given locations. Leaves out messages that are damaged or have gone.
pub(super) fn read_at(folder: &Path, places: &[(u64, Place)]) -> io::Result<Vec<(u64, Message)>> {
    let mut open: Option<Made> = None;
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
        let mut bytes = vec![0; record::HEAD];
        if made.file.read_exact_at(&mut bytes, place.offset).is_err() {
            continue;
        }
        let Some(length) = record::length(&bytes).filter(|length| *length as u64 <= made.size)
        else {
            continue;
        };
        bytes.resize(length, 0);
        if made.file.read_exact_at(&mut bytes, place.offset).is_err() {
            continue;
        }
        let Some((ReadRecord::Message(read), _, _)) = record::decode(&bytes, made.seed, None)
        else {
            continue;
        };
        let name = position
            .checked_sub(read.first)
            .and_then(|index| read.to.get(usize::try_from(index).ok()?));
        messages.extend(name.and_then(|to| Some((*position, restore(&read, to)?))));
    }
    Ok(messages)
}

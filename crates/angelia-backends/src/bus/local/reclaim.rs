//! Frees disk space. Only the oldest segment is ever removed, so that an acknowledgement never
//! disappears before its message. A few old messages that still wait do not hold up the whole log:
//! they are copied to its end, in small steps between commits.

use std::{
    io,
    os::unix::fs::FileExt as _,
    time::{Duration, Instant},
};

use angelia_core::model::EndpointName;

use super::{
    record::{self, DecodedRecord, MessageRecord},
    segment::{self, SEGMENT_HEADER_BYTES},
    writer::LogWriter,
};
use crate::bus::index::LogLocation;

/// In a log smaller than this nothing is copied.
const MIN_COPY_LOG_BYTES: u64 = 16 * 1024 * 1024;

/// Segments that are only needed to recognise repeats after a restart are kept up to this size of
/// the log.
const MAX_DEDUPE_LOG_BYTES: u64 = 128 * 1024 * 1024;

/// The number of bytes of a segment that are scanned between two commits.
const SCAN_STEP_BYTES: usize = 64 * 1024;

/// The pause after a failed copy, for example on a full disk. It doubles with each failure, up to
/// the longest.
const FIRST_RETRY_PAUSE: Duration = Duration::from_secs(2);
const MAX_RETRY_PAUSE: Duration = Duration::from_mins(5);

#[derive(Debug, Default)]
pub(super) struct ReclaimState {
    copying: Option<SegmentCopy>,
    /// A segment has just been copied, so that it can be removed, and the next one may follow.
    has_copied: bool,
    /// Set after a failed copy, until a segment has been copied.
    retry: Option<CopyRetry>,
}

/// The time and the pause of the next attempt.
#[derive(Debug)]
struct CopyRetry {
    pause: Duration,
    at: Instant,
}

/// A segment whose remaining messages are being copied to the end of the log.
#[derive(Debug)]
struct SegmentCopy {
    number: u64,
    seed: u64,
    bytes: Vec<u8>,
    offset: usize,
    link: u32,
}

impl ReclaimState {
    pub(super) fn is_busy(&self) -> bool {
        self.copying.is_some() || self.has_copied
    }

    fn may_copy(&self) -> bool {
        self.retry.as_ref().is_none_or(|retry| Instant::now() >= retry.at)
    }

    /// Reports only the first of several failures: the owner learns nothing from the others.
    fn note_failure(&mut self, error: &io::Error) {
        let pause = match &self.retry {
            None => {
                tracing::error!(%error, "old messages cannot be copied, so the bus's log keeps its size");
                FIRST_RETRY_PAUSE
            }
            Some(retry) => (retry.pause * 2).min(MAX_RETRY_PAUSE),
        };
        self.retry = Some(CopyRetry { pause, at: Instant::now() + pause });
    }
}

impl LogWriter {
    /// Does one step: continues a copy, removes the oldest segments that are no longer needed, or
    /// starts to copy out of the oldest one.
    pub(super) fn reclaim(&mut self) {
        if let Some(copying) = self.reclaim_state.copying.take() {
            match self.copy_step(copying) {
                Ok(()) if self.reclaim_state.copying.is_none() => {
                    self.reclaim_state.has_copied = true;
                    self.reclaim_state.retry = None;
                }
                Ok(()) => {}
                Err(error) => {
                    // The next attempt copies the same messages again.
                    self.log.discard_unwritten();
                    self.reclaim_state.note_failure(&error);
                }
            }
            return;
        }
        self.reclaim_state.has_copied = false;
        let now = self.clock.now().as_millisecond();
        let window = i64::try_from(self.limits.dedupe_window.as_millis()).unwrap_or(i64::MAX);
        while let Some(oldest) = self.log.sealed.front() {
            let is_recent = now.saturating_sub(oldest.last_accepted_at_ms) < window;
            if is_recent && self.log.size() < MAX_DEDUPE_LOG_BYTES {
                return;
            }
            let index = self.index.lock();
            let used = index.segment_usage.get(&oldest.number).copied().unwrap_or_default();
            let wanted: usize = index.segment_usage.values().map(|used| used.bytes).sum();
            drop(index);
            if used.messages > 0 {
                let is_sparse = (wanted as u64).saturating_mul(2) < self.log.size();
                if self.log.size() > MIN_COPY_LOG_BYTES
                    && is_sparse
                    && self.reclaim_state.may_copy()
                {
                    match self.start_copying(oldest.number) {
                        Ok(copying) => self.reclaim_state.copying = copying,
                        Err(error) => self.reclaim_state.note_failure(&error),
                    }
                }
                return;
            }
            self.index.lock().segment_usage.remove(&oldest.number);
            self.log.retire_oldest();
        }
    }

    fn start_copying(&self, number: u64) -> io::Result<Option<SegmentCopy>> {
        let Some(made) = segment::open(self.log.folder(), number)? else {
            return Ok(None);
        };
        let mut bytes = vec![0; usize::try_from(made.size).unwrap_or(0)];
        made.file.read_exact_at(&mut bytes, 0)?;
        Ok(Some(SegmentCopy {
            number,
            seed: made.seed,
            bytes,
            offset: SEGMENT_HEADER_BYTES,
            link: 0,
        }))
    }

    /// Copies some messages. The index uses the copies only after they are synced, and the
    /// originals until then.
    fn copy_step(&mut self, mut copying: SegmentCopy) -> io::Result<()> {
        let until = copying.offset + SCAN_STEP_BYTES;
        let mut moved: Vec<(EndpointName, u64, LogLocation)> = Vec::new();
        let mut is_over = true;
        while let Some((record, length, link)) = copying
            .bytes
            .get(copying.offset..)
            .and_then(|rest| record::decode(rest, copying.seed, Some(copying.link)))
        {
            if let DecodedRecord::Message(message) = record {
                for (position, to) in (message.first_position..).zip(&message.to) {
                    let Ok(to) = EndpointName::new(to) else {
                        continue;
                    };
                    let at = LogLocation { segment: copying.number, offset: copying.offset as u64 };
                    let is_wanted = self.index.lock().location_of(&to, position) == Some(at);
                    if is_wanted {
                        let place = self.copy_message(&message, &to, position)?;
                        moved.push((to, position, place));
                    }
                }
            }
            copying.offset += length;
            copying.link = link;
            if copying.offset >= until {
                is_over = false;
                break;
            }
        }
        if !moved.is_empty() {
            self.log.sync()?;
            let mut index = self.index.lock();
            for (to, position, place) in moved {
                index.set_location(&to, position, place);
            }
        }
        if !is_over {
            self.reclaim_state.copying = Some(copying);
        }
        Ok(())
    }

    fn copy_message(
        &mut self,
        message: &record::DecodedMessage<'_>,
        to: &EndpointName,
        position: u64,
    ) -> io::Result<LogLocation> {
        let place = self.log.append_message(MessageRecord {
            first_position: position,
            accepted_at_ms: message.accepted_at_ms,
            is_verified: message.is_verified,
            is_broadcast: message.is_broadcast,
            from: message.from,
            id: message.id,
            to: vec![to],
            envelope: message.envelope,
        })?;
        // The record that made the message a dead letter may be removed with its segment.
        let dead = self.index.lock().dead_letter(position).cloned();
        if let Some(dead) = dead {
            self.log.append_dead(position, dead.died_at_ms, &dead.reason)?;
        }
        Ok(place)
    }
}

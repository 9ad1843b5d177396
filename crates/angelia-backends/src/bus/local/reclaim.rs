//! Frees disk space. Only the oldest segment is ever removed, so that an acknowledgement never
//! disappears before its message. A few old messages that still wait do not hold up the whole log:
//! they are copied to its end, in small steps between commits.

use std::{io, os::unix::fs::FileExt as _};

use angelia_core::model::EndpointName;

use super::{
    record::{self, ReadRecord, Stored},
    segment::{self, HEADER},
    writer::Writer,
};
use crate::bus::{index::Place, shared::lock};

/// In a log smaller than this nothing is copied.
const SMALL: u64 = 16 * 1024 * 1024;

/// Segments that are only needed to recognise repeats after a restart are kept up to this size of
/// the log.
const FOR_REPEATS: u64 = 128 * 1024 * 1024;

/// How much of a segment is scanned between two commits.
const STEP: usize = 64 * 1024;

#[derive(Debug, Default)]
pub(super) struct Reclaim {
    copying: Option<Copying>,
    /// Copying has failed and is not tried again before the next start.
    has_failed: bool,
}

/// A segment whose remaining messages are being copied to the end of the log.
#[derive(Debug)]
struct Copying {
    number: u64,
    seed: u64,
    bytes: Vec<u8>,
    offset: usize,
    link: u32,
}

impl Reclaim {
    pub(super) fn is_busy(&self) -> bool {
        self.copying.is_some()
    }
}

impl Writer {
    /// Does one step: continues a copy, or removes the oldest segments that nothing needs, or
    /// starts to copy out of the oldest one.
    pub(super) fn reclaim(&mut self) {
        if let Some(copying) = self.reclaim.copying.take() {
            if let Err(error) = self.step(copying) {
                tracing::error!(%error, "old messages could not be copied");
                self.reclaim.has_failed = true;
            }
            return;
        }
        let now = self.clock.now().as_millisecond();
        let window = i64::try_from(self.limits.dedupe_window.as_millis()).unwrap_or(i64::MAX);
        while let Some(oldest) = self.log.sealed.front() {
            let is_recent = now.saturating_sub(oldest.last_at) < window;
            if is_recent && self.log.size() < FOR_REPEATS {
                return;
            }
            let index = lock(&self.index);
            let used = index.used.get(&oldest.number).copied().unwrap_or_default();
            let wanted: usize = index.used.values().map(|used| used.bytes).sum();
            drop(index);
            if used.messages > 0 {
                let is_sparse = (wanted as u64).saturating_mul(2) < self.log.size();
                if self.log.size() > SMALL && is_sparse && !self.reclaim.has_failed {
                    let number = oldest.number;
                    self.reclaim.copying = self.start_copying(number);
                }
                return;
            }
            lock(&self.index).used.remove(&oldest.number);
            self.log.retire_oldest();
        }
    }

    fn start_copying(&self, number: u64) -> Option<Copying> {
        let read = || -> io::Result<Option<Copying>> {
            let Some(made) = segment::open(self.log.folder(), number)? else {
                return Ok(None);
            };
            let mut bytes = vec![0; usize::try_from(made.size).unwrap_or(0)];
            made.file.read_exact_at(&mut bytes, 0)?;
            Ok(Some(Copying { number, seed: made.seed, bytes, offset: HEADER, link: 0 }))
        };
        match read() {
            Ok(copying) => copying,
            Err(error) => {
                tracing::error!(%error, "an old segment of the bus's log cannot be read");
                None
            }
        }
    }

    /// Copies some messages. The index uses the copies only after they are synced, and the
    /// originals until then.
    fn step(&mut self, mut copying: Copying) -> io::Result<()> {
        let until = copying.offset + STEP;
        let mut moved: Vec<(EndpointName, u64, Place)> = Vec::new();
        let mut is_over = true;
        while let Some((record, length, link)) = copying
            .bytes
            .get(copying.offset..)
            .and_then(|rest| record::decode(rest, copying.seed, Some(copying.link)))
        {
            if let ReadRecord::Message(message) = record {
                for (position, to) in (message.first..).zip(&message.to) {
                    let Ok(to) = EndpointName::new(to) else {
                        continue;
                    };
                    let at = Place { segment: copying.number, offset: copying.offset as u64 };
                    let is_wanted = lock(&self.index).place_of(&to, position) == Some(at);
                    if is_wanted {
                        let place = self.copy(&message, &to, position)?;
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
            let mut index = lock(&self.index);
            for (to, position, place) in moved {
                index.moved(&to, position, place);
            }
        }
        if !is_over {
            self.reclaim.copying = Some(copying);
        }
        Ok(())
    }

    fn copy(
        &mut self,
        message: &record::Read<'_>,
        to: &EndpointName,
        position: u64,
    ) -> io::Result<Place> {
        let place = self.log.message(Stored {
            first: position,
            at: message.at,
            is_verified: message.is_verified,
            is_broadcast: message.is_broadcast,
            from: message.from,
            id: message.id,
            to: vec![to],
            envelope: message.envelope,
        })?;
        // The record that made the message a dead letter may be removed with its segment.
        let dead = lock(&self.index).dead(position).cloned();
        if let Some(dead) = dead {
            self.log.dead(position, dead.at, &dead.reason)?;
        }
        Ok(place)
    }
}

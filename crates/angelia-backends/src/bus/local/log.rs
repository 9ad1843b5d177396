//! The log as the writer sees it: records are appended at one end, and whole segments are removed
//! at the other.

use std::{
    collections::VecDeque,
    io,
    path::{Path, PathBuf},
};

use super::{
    record::{MessageRecord, RECORD_HEADER_BYTES, Record},
    recover::{RecoveredLog, SealedSegment},
    segment::{ActiveSegment, LARGE_SEGMENT_BYTES, SEGMENT_HEADER_BYTES, SMALL_SEGMENT_BYTES},
    segment_allocator::SegmentAllocator,
};
use crate::bus::index::LogLocation;

#[derive(Debug)]
pub(super) struct MessageLog {
    folder: PathBuf,
    pub(super) sealed: VecDeque<SealedSegment>,
    active: ActiveSegment,
    allocator: SegmentAllocator,
    last_accepted_at_ms: i64,
    /// A sync of the active segment has failed: its content on disk is unknown, so nothing more is
    /// written to it.
    sync_failed: bool,
}

impl MessageLog {
    pub(super) fn open(folder: &Path, recovered: RecoveredLog) -> io::Result<Self> {
        let mut supply = SegmentAllocator::new(folder, recovered.next_segment);
        let active = match recovered.active {
            Some(active) => active,
            None => ActiveSegment::new(supply.allocate_first()?, SEGMENT_HEADER_BYTES as u64, 0),
        };
        Ok(Self {
            folder: folder.to_path_buf(),
            sealed: recovered.sealed.into(),
            active,
            allocator: supply,
            last_accepted_at_ms: 0,
            sync_failed: false,
        })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Bytes on disk.
    pub(super) fn size(&self) -> u64 {
        self.sealed.iter().map(|one| one.size).sum::<u64>() + self.active.size
    }

    pub(super) fn append_message(&mut self, message: MessageRecord<'_>) -> io::Result<LogLocation> {
        let names: usize = message.to.iter().map(|name| name.as_str().len() + 2).sum();
        let texts = message.id.len() + message.from.map_or(0, str::len);
        self.make_room(RECORD_HEADER_BYTES + 64 + names + texts + message.envelope.len())?;
        let place = LogLocation { segment: self.active.number, offset: self.active.next_offset() };
        self.last_accepted_at_ms = self.last_accepted_at_ms.max(message.accepted_at_ms);
        self.active.push(&Record::Message(message));
        Ok(place)
    }

    pub(super) fn append_done(&mut self, mut positions: Vec<u64>) -> io::Result<()> {
        positions.sort_unstable();
        for part in positions.chunks(10_000) {
            self.make_room(RECORD_HEADER_BYTES + 1 + part.len() * 10)?;
            self.active.push(&Record::Done(part.to_vec()));
        }
        Ok(())
    }

    pub(super) fn append_dead(&mut self, position: u64, at: i64, reason: &str) -> io::Result<()> {
        self.make_room(RECORD_HEADER_BYTES + 32 + reason.len())?;
        self.active.push(&Record::Dead { position, at, reason });
        Ok(())
    }

    /// Starts a new segment if the active one has no room for this many bytes.
    fn make_room(&mut self, bytes: usize) -> io::Result<()> {
        if self.active.has_room(bytes) && !self.sync_failed {
            return Ok(());
        }
        // Before the active segment is sealed: if no file can be made, that one stays in use.
        let made = self
            .allocator
            .allocate((SEGMENT_HEADER_BYTES + bytes + 2 * RECORD_HEADER_BYTES) as u64)?;
        if !self.sync_failed {
            self.active.push(&Record::End);
            self.active.sync()?;
        }
        let full = std::mem::replace(
            &mut self.active,
            ActiveSegment::new(made, SEGMENT_HEADER_BYTES as u64, 0),
        );
        self.sync_failed = false;
        self.sealed.push_back(SealedSegment {
            number: full.number,
            size: full.size,
            last_accepted_at_ms: self.last_accepted_at_ms,
        });
        Ok(())
    }

    /// Hands the records to the operating system: they survive the death of this process.
    pub(super) fn write(&mut self) -> io::Result<()> {
        self.active.write()
    }

    /// Forgets the records that were not handed to the operating system yet.
    pub(super) fn discard_unwritten(&mut self) {
        self.active.discard_unwritten();
    }

    /// Syncs the records to the disk: they survive a power failure.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        let synced = self.active.sync();
        self.sync_failed |= synced.is_err();
        synced
    }

    /// Removes the oldest segment.
    pub(super) fn retire_oldest(&mut self) {
        if let Some(oldest) = self.sealed.pop_front() {
            let is_busy = self.active.is_busy();
            self.allocator.retire(oldest.number, oldest.size, is_busy);
        }
    }

    /// Has the next segment made before it is needed. Returns at once, so that no commit waits.
    pub(super) fn prepare_next_segment(&mut self) {
        let is_busy = self.active.is_busy();
        // A large segment takes long to make, and at this rate it is needed soon.
        if self.active.is_half_full() || is_busy && self.active.size >= LARGE_SEGMENT_BYTES {
            self.allocator.prepare(if is_busy { LARGE_SEGMENT_BYTES } else { SMALL_SEGMENT_BYTES });
        }
    }

    /// Removes spare files while the bus is quiet, because it may never need them.
    pub(super) fn remove_spares(&mut self) {
        if !self.active.is_busy() {
            self.allocator.remove_spares();
        }
    }
}

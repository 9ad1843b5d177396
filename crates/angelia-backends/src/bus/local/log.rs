//! The log as the writer sees it: records are appended at one end, and whole segments are removed
//! at the other.

use std::{
    collections::VecDeque,
    io,
    path::{Path, PathBuf},
};

use super::{
    record::{HEAD, Record, Stored},
    recover::{Recovered, Sealed},
    segment::{HEADER, LARGE, SMALL, Segment},
    supply::Supply,
};
use crate::bus::index::Place;

#[derive(Debug)]
pub(super) struct Log {
    folder: PathBuf,
    pub(super) sealed: VecDeque<Sealed>,
    active: Segment,
    supply: Supply,
    last_at: i64,
    /// A sync of the active segment has failed: its content on disk is unknown, so nothing more is
    /// written to it.
    is_doubtful: bool,
}

impl Log {
    pub(super) fn open(folder: &Path, recovered: Recovered) -> io::Result<Self> {
        let mut supply = Supply::new(folder, recovered.next_segment);
        let active = match recovered.active {
            Some(active) => active,
            None => Segment::new(supply.first()?, HEADER as u64, 0),
        };
        Ok(Self {
            folder: folder.to_path_buf(),
            sealed: recovered.sealed.into(),
            active,
            supply,
            last_at: 0,
            is_doubtful: false,
        })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Bytes on disk.
    pub(super) fn size(&self) -> u64 {
        self.sealed.iter().map(|one| one.size).sum::<u64>() + self.active.size
    }

    pub(super) fn message(&mut self, message: Stored<'_>) -> io::Result<Place> {
        let names: usize = message.to.iter().map(|name| name.as_str().len() + 2).sum();
        let texts = message.id.len() + message.from.map_or(0, str::len);
        self.make_room(HEAD + 64 + names + texts + message.envelope.len())?;
        let place = Place { segment: self.active.number, offset: self.active.next() };
        self.last_at = self.last_at.max(message.at);
        self.active.push(&Record::Message(message));
        Ok(place)
    }

    pub(super) fn done(&mut self, mut positions: Vec<u64>) -> io::Result<()> {
        positions.sort_unstable();
        for part in positions.chunks(10_000) {
            self.make_room(HEAD + 1 + part.len() * 10)?;
            self.active.push(&Record::Done(part.to_vec()));
        }
        Ok(())
    }

    pub(super) fn dead(&mut self, position: u64, at: i64, reason: &str) -> io::Result<()> {
        self.make_room(HEAD + 32 + reason.len())?;
        self.active.push(&Record::Dead { position, at, reason });
        Ok(())
    }

    /// Starts a new segment if the active one has no room for this many bytes.
    fn make_room(&mut self, bytes: usize) -> io::Result<()> {
        if self.active.has_room(bytes) && !self.is_doubtful {
            return Ok(());
        }
        // Before the active segment is sealed: if no file can be made, that one stays in use.
        let made = self.supply.next((HEADER + bytes + 2 * HEAD) as u64)?;
        if !self.is_doubtful {
            self.active.push(&Record::End);
            self.active.sync()?;
        }
        let full = std::mem::replace(&mut self.active, Segment::new(made, HEADER as u64, 0));
        self.is_doubtful = false;
        self.sealed.push_back(Sealed {
            number: full.number,
            size: full.size,
            last_at: self.last_at,
        });
        Ok(())
    }

    /// Hands the records to the operating system: they survive the death of this process.
    pub(super) fn write(&mut self) -> io::Result<()> {
        self.active.write()
    }

    /// Syncs the records to the disk: they survive a power failure.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        let synced = self.active.sync();
        self.is_doubtful |= synced.is_err();
        synced
    }

    /// Removes the oldest segment.
    pub(super) fn retire_oldest(&mut self) {
        if let Some(oldest) = self.sealed.pop_front() {
            let is_busy = self.active.is_busy();
            self.supply.retire(oldest.number, oldest.size, is_busy);
        }
    }

    /// Has the next segment made before it is needed. Returns at once, so that no commit waits.
    pub(super) fn prepare(&mut self) {
        let is_busy = self.active.is_busy();
        // A large segment takes long to make, and at this rate it is needed soon.
        if self.active.is_half_full() || is_busy && self.active.size >= LARGE {
            self.supply.prepare(if is_busy { LARGE } else { SMALL });
        }
    }

    /// Removes spare files while the bus is quiet, because it may never need them.
    pub(super) fn rest(&mut self) {
        if !self.active.is_busy() {
            self.supply.rest();
        }
    }
}

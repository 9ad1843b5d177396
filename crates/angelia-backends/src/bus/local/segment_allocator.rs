//! Makes the next segment on a thread of its own before the active one is full: filling a file with
//! zeros and renaming it takes as long as many commits. A quiet bus has small segments and no spare
//! files; a busy one has large segments. When messages arrive faster than segments are made, they
//! go into a file that is not filled instead of waiting.

use std::{
    io,
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread::JoinHandle,
};

use super::segment::{self, LARGE_SEGMENT_BYTES, SMALL_SEGMENT_BYTES, SegmentFile, SpareFile};

/// The number of files of retired segments that are kept for reuse while the bus is busy.
const MAX_RETIRED_FILES: usize = 2;

#[derive(Debug)]
pub(super) struct SegmentAllocator {
    folder: PathBuf,
    next_number: u64,
    thread: Option<AllocatorThread>,
    /// A segment was requested from the thread and has not arrived yet.
    is_requested: bool,
    ready: Option<SegmentFile>,
    /// The last request failed; the next one is made only after a segment was needed.
    has_failed: bool,
    retired: Vec<PathBuf>,
}

#[derive(Debug)]
struct AllocatorThread {
    requests: SyncSender<SegmentRequest>,
    results: Receiver<io::Result<SegmentFile>>,
    handle: JoinHandle<()>,
}

#[derive(Debug)]
struct SegmentRequest {
    number: u64,
    size: u64,
    /// The file of a retired segment to reuse, with its old content.
    reused_path: Option<PathBuf>,
}

impl SegmentAllocator {
    pub(super) fn new(folder: &Path, next: u64) -> Self {
        Self {
            folder: folder.to_path_buf(),
            next_number: next,
            thread: None,
            is_requested: false,
            ready: None,
            has_failed: false,
            retired: Vec::new(),
        }
    }

    /// Makes the very first segment of a log, small and filled with zeros.
    pub(super) fn allocate_first(&mut self) -> io::Result<SegmentFile> {
        let spare = SpareFile::zero_filled(&self.folder, SMALL_SEGMENT_BYTES)?;
        self.name_segment(spare)
    }

    /// Returns the next segment, with room for this many bytes. Makes one on the spot if none is
    /// ready.
    pub(super) fn allocate(&mut self, room: u64) -> io::Result<SegmentFile> {
        self.poll_thread();
        self.has_failed = false;
        if let Some(made) = self.ready.take() {
            if made.size >= room {
                self.next_number += 1;
                return Ok(made);
            }
            self.retire(made.number, made.size, true);
        }
        if self.is_requested {
            // The requested segment keeps its number; when it arrives it is too late and is
            // retired.
            self.next_number += 1;
        }
        let spare = SpareFile::sparse(&self.folder, room.max(LARGE_SEGMENT_BYTES))?;
        self.name_segment(spare)
    }

    fn name_segment(&mut self, spare: SpareFile) -> io::Result<SegmentFile> {
        let made = spare.become_segment(&self.folder, self.next_number)?;
        self.next_number += 1;
        Ok(made)
    }

    /// Receives the requested segment if it has arrived.
    fn poll_thread(&mut self) {
        let Some(maker) = self.thread.as_ref().filter(|_| self.is_requested) else {
            return;
        };
        let Ok(made) = maker.results.try_recv() else {
            return;
        };
        self.is_requested = false;
        match made {
            Ok(made) if made.number == self.next_number => self.ready = Some(made),
            // It came too late: a later segment has been used already.
            Ok(made) => self.retire(made.number, made.size, true),
            Err(error) => {
                tracing::warn!(%error, "the bus continues without a spare segment");
                self.has_failed = true;
            }
        }
    }

    fn remove_segment(&self, number: u64) {
        let path = segment::path(&self.folder, number);
        if let Err(error) = std::fs::remove_file(&path) {
            tracing::warn!(%error, "cannot remove {}", path.display());
        }
    }

    /// Requests the next segment from the thread, unless that was done already. Returns at once.
    pub(super) fn prepare(&mut self, size: u64) {
        self.poll_thread();
        if self.is_requested || self.has_failed || self.ready.is_some() {
            return;
        }
        if self.thread.is_none() {
            self.thread = start_thread(&self.folder).ok();
        }
        let Some(maker) = &self.thread else {
            return;
        };
        let wish = SegmentRequest {
            number: self.next_number,
            size,
            reused_path: if size == LARGE_SEGMENT_BYTES { self.retired.pop() } else { None },
        };
        self.is_requested = maker.requests.try_send(wish).is_ok();
    }

    /// Removes the spare files of a bus that has become quiet.
    pub(super) fn remove_spares(&mut self) {
        for path in self.retired.drain(..) {
            let _gone = std::fs::remove_file(path);
        }
        self.poll_thread();
        if let Some(made) = self.ready.take_if(|made| made.size > SMALL_SEGMENT_BYTES) {
            self.remove_segment(made.number);
        }
    }

    /// Removes a segment without needed messages, or keeps its file for reuse.
    pub(super) fn retire(&mut self, number: u64, size: u64, is_busy: bool) {
        if is_busy && size == LARGE_SEGMENT_BYTES && self.retired.len() < MAX_RETIRED_FILES {
            let path = segment::path(&self.folder, number);
            // A file with this extension is removed at the next start if it is not reused before.
            let aside = path.with_extension("new");
            if std::fs::rename(&path, &aside).is_ok() {
                self.retired.push(aside);
                return;
            }
        }
        self.remove_segment(number);
    }
}

fn start_thread(folder: &Path) -> io::Result<AllocatorThread> {
    let (wishes, asked) = sync_channel::<SegmentRequest>(1);
    let (made, taken) = sync_channel(1);
    let folder = folder.to_path_buf();
    let thread = std::thread::Builder::new().name("bus-segments".to_owned()).spawn(move || {
        for wish in asked {
            if made.send(make_segment(&folder, wish)).is_err() {
                return;
            }
        }
    })?;
    Ok(AllocatorThread { requests: wishes, results: taken, handle: thread })
}

fn make_segment(folder: &Path, wish: SegmentRequest) -> io::Result<SegmentFile> {
    let spare = match wish.reused_path {
        Some(old) => SpareFile::reuse(old, wish.size)?,
        None => SpareFile::zero_filled(folder, wish.size)?,
    };
    spare.become_segment(folder, wish.number)
}

impl Drop for SegmentAllocator {
    fn drop(&mut self) {
        if let Some(maker) = self.thread.take() {
            // Closing the channel ends the thread; a segment that it still made is removed.
            drop(maker.requests);
            let _panicked = maker.handle.join();
            let made = maker.results.try_iter().flatten().chain(self.ready.take());
            for made in made {
                let _gone = std::fs::remove_file(segment::path(&self.folder, made.number));
            }
        }
        for path in self.retired.drain(..) {
            let _gone = std::fs::remove_file(path);
        }
    }
}

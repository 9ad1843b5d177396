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

use super::segment::{self, LARGE, Made, SMALL, Spare};

/// How many files of retired segments are kept for reuse while the bus is busy.
const KEPT: usize = 2;

#[derive(Debug)]
pub(super) struct Supply {
    folder: PathBuf,
    next: u64,
    maker: Option<Maker>,
    /// A segment was requested from the thread and has not arrived yet.
    is_coming: bool,
    ready: Option<Made>,
    /// The last request failed; the next one is made only after a segment was needed.
    has_failed: bool,
    retired: Vec<PathBuf>,
}

#[derive(Debug)]
struct Maker {
    wishes: SyncSender<Wish>,
    made: Receiver<io::Result<Made>>,
    thread: JoinHandle<()>,
}

#[derive(Debug)]
struct Wish {
    number: u64,
    size: u64,
    /// The file of a retired segment to reuse, with its old content.
    old: Option<PathBuf>,
}

impl Supply {
    pub(super) fn new(folder: &Path, next: u64) -> Self {
        Self {
            folder: folder.to_path_buf(),
            next,
            maker: None,
            is_coming: false,
            ready: None,
            has_failed: false,
            retired: Vec::new(),
        }
    }

    /// Makes the very first segment of a log, small and filled with zeros.
    pub(super) fn first(&mut self) -> io::Result<Made> {
        let spare = Spare::filled(&self.folder, SMALL)?;
        self.name(spare)
    }

    /// Returns the next segment, with room for this many bytes. Makes one on the spot if none is
    /// ready.
    pub(super) fn next(&mut self, room: u64) -> io::Result<Made> {
        self.poll();
        self.has_failed = false;
        if let Some(made) = self.ready.take() {
            if made.size >= room {
                self.next += 1;
                return Ok(made);
            }
            self.retire(made.number, made.size, true);
        }
        if self.is_coming {
            // The requested segment keeps its number; when it arrives it is too late and is
            // retired.
            self.next += 1;
        }
        let spare = Spare::empty(&self.folder, room.max(LARGE))?;
        self.name(spare)
    }

    fn name(&mut self, spare: Spare) -> io::Result<Made> {
        let made = spare.become_segment(&self.folder, self.next)?;
        self.next += 1;
        Ok(made)
    }

    /// Receives the requested segment if it has arrived.
    fn poll(&mut self) {
        let Some(maker) = self.maker.as_ref().filter(|_| self.is_coming) else {
            return;
        };
        let Ok(made) = maker.made.try_recv() else {
            return;
        };
        self.is_coming = false;
        match made {
            Ok(made) if made.number == self.next => self.ready = Some(made),
            // It came too late: a later segment has been used already.
            Ok(made) => self.retire(made.number, made.size, true),
            Err(error) => {
                tracing::warn!(%error, "the bus continues without a spare segment");
                self.has_failed = true;
            }
        }
    }

    fn remove(&self, number: u64) {
        let path = segment::path(&self.folder, number);
        if let Err(error) = std::fs::remove_file(&path) {
            tracing::warn!(%error, "cannot remove {}", path.display());
        }
    }

    /// Requests the next segment from the thread, unless that was done already. Returns at once.
    pub(super) fn prepare(&mut self, size: u64) {
        self.poll();
        if self.is_coming || self.has_failed || self.ready.is_some() {
            return;
        }
        if self.maker.is_none() {
            self.maker = start(&self.folder).ok();
        }
        let Some(maker) = &self.maker else {
            return;
        };
        let wish = Wish {
            number: self.next,
            size,
            old: if size == LARGE { self.retired.pop() } else { None },
        };
        self.is_coming = maker.wishes.try_send(wish).is_ok();
    }

    /// Removes the spare files of a bus that has become quiet.
    pub(super) fn rest(&mut self) {
        for path in self.retired.drain(..) {
            let _gone = std::fs::remove_file(path);
        }
        self.poll();
        if let Some(made) = self.ready.take_if(|made| made.size > SMALL) {
            self.remove(made.number);
        }
    }

    /// Removes a segment without needed messages, or keeps its file for reuse.
    pub(super) fn retire(&mut self, number: u64, size: u64, is_busy: bool) {
        if is_busy && size == LARGE && self.retired.len() < KEPT {
            let path = segment::path(&self.folder, number);
            // A file with this extension is removed at the next start if it is not reused before.
            let aside = path.with_extension("new");
            if std::fs::rename(&path, &aside).is_ok() {
                self.retired.push(aside);
                return;
            }
        }
        self.remove(number);
    }
}

fn start(folder: &Path) -> io::Result<Maker> {
    let (wishes, asked) = sync_channel::<Wish>(1);
    let (made, taken) = sync_channel(1);
    let folder = folder.to_path_buf();
    let thread = std::thread::Builder::new().name("bus-segments".to_owned()).spawn(move || {
        for wish in asked {
            if made.send(make(&folder, wish)).is_err() {
                return;
            }
        }
    })?;
    Ok(Maker { wishes, made: taken, thread })
}

fn make(folder: &Path, wish: Wish) -> io::Result<Made> {
    let spare = match wish.old {
        Some(old) => Spare::used(old, wish.size)?,
        None => Spare::filled(folder, wish.size)?,
    };
    spare.become_segment(folder, wish.number)
}

impl Drop for Supply {
    fn drop(&mut self) {
        if let Some(maker) = self.maker.take() {
            // Closing the channel ends the thread; a segment that it still made is removed.
            drop(maker.wishes);
            let _panicked = maker.thread.join();
            let made = maker.made.try_iter().flatten().chain(self.ready.take());
            for made in made {
                let _gone = std::fs::remove_file(segment::path(&self.folder, made.number));
            }
        }
        for path in self.retired.drain(..) {
            let _gone = std::fs::remove_file(path);
        }
    }
}

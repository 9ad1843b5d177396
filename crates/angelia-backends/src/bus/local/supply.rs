//! The next segment, made by a thread of its own before the current one is full: filling one with
//! zeros and giving it its name takes as long as many commits. A quiet bus has small segments and
//! nothing in reserve; a busy one has large ones. When messages come faster than segments are
//! made, they go into a file that is not filled, rather than wait.

use std::{
    io,
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread::JoinHandle,
};

use super::segment::{self, LARGE, Made, SMALL, Spare};

/// Files kept for use again while the bus is busy.
const KEPT: usize = 2;

#[derive(Debug)]
pub(super) struct Supply {
    folder: PathBuf,
    /// The number of the next segment.
    next: u64,
    maker: Option<Maker>,
    /// One was asked for and has not come.
    is_coming: bool,
    ready: Option<Made>,
    /// The last one could not be made; there is no use in trying before the next is needed.
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
    /// Used again, as it is.
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

    /// The very first segment, small and filled.
    pub(super) fn first(&mut self) -> io::Result<Made> {
        let spare = Spare::filled(&self.folder, SMALL)?;
        self.name(spare)
    }

    /// The next segment, with room for so many bytes.
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
            // Its number is not given twice; when it comes, nobody wants it any more.
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

    /// Looks whether what was asked for has come.
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
            // Too late for its number.
            Ok(made) => self.retire(made.number, made.size, true),
            Err(error) => {
                tracing::warn!(%error, "the bus goes on without a spare segment");
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

    /// Has the next segment made, if it is not being made already. Returns at once.
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

    /// The bus is quiet: what is only in reserve goes.
    pub(super) fn rest(&mut self) {
        for path in self.retired.drain(..) {
            let _gone = std::fs::remove_file(path);
        }
        self.poll();
        if let Some(made) = self.ready.take_if(|made| made.size > SMALL) {
            self.remove(made.number);
        }
    }

    /// Nothing in this segment is wanted any more.
    pub(super) fn retire(&mut self, number: u64, size: u64, is_busy: bool) {
        if is_busy && size == LARGE && self.retired.len() < KEPT {
            let path = segment::path(&self.folder, number);
            // Under this ending a start removes it, if nobody has used it until then.
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

//! The next segments, made by a thread of its own while the current one fills: filling one with
//! zeros takes as long as many commits. When messages come faster than that, they go into files
//! that are not filled, rather than wait.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{Receiver, sync_channel},
    },
    thread::JoinHandle,
};

use super::segment::{self, Made, SEGMENT, Spare};

/// Files kept for use again.
const KEPT: usize = 2;

#[derive(Debug)]
pub(super) struct Supply {
    folder: PathBuf,
    next: u64,
    spares: Option<Receiver<Spare>>,
    thread: Option<JoinHandle<()>>,
    retired: Arc<Mutex<Vec<PathBuf>>>,
}

impl Supply {
    /// `next` is the number of the next segment.
    pub(super) fn new(folder: &Path, next: u64) -> Self {
        Self {
            folder: folder.to_path_buf(),
            next,
            spares: None,
            thread: None,
            retired: Arc::default(),
        }
    }

    /// The next segment, with room for so many bytes.
    pub(super) fn next(&mut self, room: u64) -> io::Result<Made> {
        let spare = self.spares.as_ref().map(Receiver::try_recv);
        let spare = match spare {
            _ if room > SEGMENT => Spare::empty(&self.folder, room)?,
            Some(Ok(spare)) => spare,
            Some(Err(_none_yet)) => Spare::empty(&self.folder, SEGMENT)?,
            None => {
                self.start();
                Spare::filled(&self.folder, None)?
            }
        };
        let made = spare.become_segment(&self.folder, self.next)?;
        self.next += 1;
        Ok(made)
    }

    fn start(&mut self) {
        let (sender, receiver) = sync_channel(1);
        let folder = self.folder.clone();
        let retired = Arc::clone(&self.retired);
        let thread = std::thread::Builder::new()
            .name("bus-segments".to_owned())
            .spawn(move || {
                loop {
                    let old = lock(&retired).pop();
                    match Spare::filled(&folder, old) {
                        Ok(spare) => {
                            if let Err(unwanted) = sender.send(spare) {
                                unwanted.0.remove();
                                return;
                            }
                        }
                        Err(error) => {
                            tracing::warn!(%error, "the bus goes on without spare segments");
                            return;
                        }
                    }
                }
            });
        if let Ok(thread) = thread {
            self.thread = Some(thread);
        }
        self.spares = Some(receiver);
    }

    /// Nothing in this segment is wanted any more.
    pub(super) fn retire(&mut self, number: u64, size: u64) {
        let path = segment::path(&self.folder, number);
        let mut retired = lock(&self.retired);
        if size == SEGMENT && retired.len() < KEPT {
            // Under this ending a start removes it, if nobody has used it until then.
            let aside = path.with_extension("new");
            if std::fs::rename(&path, &aside).is_ok() {
                retired.push(aside);
                return;
            }
        }
        if let Err(error) = std::fs::remove_file(&path) {
            tracing::warn!(%error, "cannot remove {}", path.display());
        }
    }
}

impl Drop for Supply {
    fn drop(&mut self) {
        if let Some(spares) = self.spares.take() {
            spares.try_iter().for_each(Spare::remove);
        }
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
        for path in lock(&self.retired).drain(..) {
            let _gone = std::fs::remove_file(path);
        }
    }
}

fn lock(retired: &Mutex<Vec<PathBuf>>) -> MutexGuard<'_, Vec<PathBuf>> {
    retired.lock().unwrap_or_else(PoisonError::into_inner)
}

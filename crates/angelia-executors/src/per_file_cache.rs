//! A cache of facts about programs (such as their version), keyed by path and valid until the file
//! changes.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

#[derive(Debug)]
pub(crate) struct PerFileCache<T> {
    entries: Mutex<HashMap<PathBuf, (FileStamp, Arc<T>)>>,
}

impl<T> Default for PerFileCache<T> {
    fn default() -> Self {
        Self { entries: Mutex::default() }
    }
}

/// File metadata that changes when the file is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileStamp {
    changed: Option<SystemTime>,
    bytes: u64,
}

impl FileStamp {
    fn of(path: &Path) -> Option<Self> {
        let metadata = path.metadata().ok()?;
        Some(Self { changed: metadata.modified().ok(), bytes: metadata.len() })
    }
}

impl<T> PerFileCache<T> {
    /// Returns the cached value for `path`, or the result of `ask`. Errors are not cached.
    pub(crate) async fn get<E>(
        &self,
        path: &Path,
        ask: impl Future<Output = Result<T, E>>,
    ) -> Result<Arc<T>, E> {
        // Read the stamp before awaiting `ask`: if the file is replaced meanwhile, the entry is
        // stale and the next call asks again.
        let stamp = FileStamp::of(path);
        if let Some(stamp) = stamp
            && let Some(known) = self.lookup(path, stamp)
        {
            return Ok(known);
        }
        let found = Arc::new(ask.await?);
        if let Some(stamp) = stamp {
            let mut known = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
            known.insert(path.to_owned(), (stamp, Arc::clone(&found)));
        }
        Ok(found)
    }

    fn lookup(&self, path: &Path, stamp: FileStamp) -> Option<Arc<T>> {
        let known = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let (seen, found) = known.get(path)?;
        (*seen == stamp).then(|| Arc::clone(found))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[tokio::test]
    async fn a_file_is_asked_again_only_when_it_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        let known = PerFileCache::default();
        let answer = |value: u32| async move { Ok::<_, ()>(value) };
        fs::write(&path, "one").unwrap();
        assert_eq!(*known.get(&path, answer(1)).await.unwrap(), 1);
        assert_eq!(*known.get(&path, answer(2)).await.unwrap(), 1);
        fs::write(&path, "another").unwrap();
        assert!(known.get(&path, async { Err::<u32, _>(()) }).await.is_err());
        assert_eq!(*known.get(&path, answer(3)).await.unwrap(), 3);
    }
}

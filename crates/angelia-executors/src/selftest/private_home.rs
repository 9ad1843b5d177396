//! A private home, working folder and environment for an agent. Only `PATH` comes from the owner.

use std::{
    ffi::OsString,
    fs, io,
    ops::Deref,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use uuid::Uuid;

/// How often to try removing a folder. A child that was just killed may still be writing, which
/// makes a removal fail halfway.
const REMOVAL_TRIES: u32 = 50;
const REMOVAL_PAUSE: Duration = Duration::from_millis(10);

/// The paths inside a private home.
#[derive(Clone, Debug)]
pub struct PrivateFolders {
    root: PathBuf,
}

/// A new folder that contains the [`PrivateFolders`]; removed on drop.
#[derive(Debug)]
pub struct PrivateHome {
    folders: PrivateFolders,
}

impl PrivateFolders {
    /// Returns the folder that contains all others.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the folder that `HOME` points to.
    pub fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// Returns an empty folder to start programs in.
    pub fn work_dir(&self) -> PathBuf {
        self.root.join("work")
    }

    pub fn runtime_dir(&self) -> PathBuf {
        self.root.join("run")
    }

    /// Returns the whole environment of a child: only `PATH`, the language, and the variables that
    /// keep every file inside these folders.
    pub fn environment(&self, path: OsString) -> Vec<(OsString, OsString)> {
        vec![
            ("HOME".into(), self.home().into()),
            ("TMPDIR".into(), self.root.join("tmp").into()),
            ("XDG_RUNTIME_DIR".into(), self.runtime_dir().into()),
            ("LANG".into(), "C.UTF-8".into()),
            ("PATH".into(), path),
        ]
    }
}

impl PrivateHome {
    /// Creates the folders in a new folder inside `parent` whose name begins with `prefix`. Only
    /// the owner can read them.
    pub fn create(parent: &Path, prefix: &str) -> io::Result<Self> {
        let root = parent.join(format!("{prefix}{}", Uuid::new_v4().simple()));
        let mut private = fs::DirBuilder::new();
        private.mode(0o700);
        private.create(&root)?;
        // Programs must see the real path, even if the parent is a link.
        let home = Self { folders: PrivateFolders { root: root.canonicalize()? } };
        for folder in ["home", "work", "tmp", "run"] {
            private.create(home.root().join(folder))?;
        }
        Ok(home)
    }
}

impl Deref for PrivateHome {
    type Target = PrivateFolders;

    fn deref(&self) -> &PrivateFolders {
        &self.folders
    }
}

impl Drop for PrivateHome {
    fn drop(&mut self) {
        remove_folder(&self.folders.root);
    }
}

/// Removes a folder in which a program that was just killed may still be writing.
pub fn remove_folder(path: &Path) {
    for _ in 0..REMOVAL_TRIES {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => thread::sleep(REMOVAL_PAUSE),
            _ => return,
        }
    }
}

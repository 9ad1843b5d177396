//! The configuration folder that an agent gets in model mode instead of the owner's. It is the
//! agent's home too, so that nothing from the owner's configuration reaches the caller's model
//! (`docs/design/0015-sealed-model-mode.md`).

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs, io,
    io::Write as _,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{DirBuilderExt as _, OpenOptionsExt as _, symlink},
    },
    path::{Path, PathBuf},
};

use angelia_core::model::{Failure, FailureKind};
use sha2::{Digest as _, Sha256};

use crate::{host::ExecutorHost, process::confinement::Confinement};

/// The working directory in model mode. Its path reveals nothing about the owner, and only root can
/// put files into it.
pub(crate) const WORK_FOLDER: &str = "/";

/// Variables that describe the owner, or give access to more than the agent needs.
const WITHHELD: [&str; 4] = ["USER", "LOGNAME", "SHELL", "SSH_AUTH_SOCK"];
const WITHHELD_PREFIX: &[u8] = b"XDG_";

#[derive(Clone, Debug)]
pub(crate) struct SealedFolder {
    path: PathBuf,
    /// A prefix for temporary file names that no other process uses.
    unique: String,
}

impl SealedFolder {
    /// Creates the folder for an agent. `owners` is the agent's usual folder, which holds the
    /// owner's login.
    pub(crate) fn create(host: &ExecutorHost, agent: &str, owners: &Path) -> Result<Self, Failure> {
        // Two logins never share a folder.
        let id: String = format!("{:x}", Sha256::digest(owners.as_os_str().as_bytes()))
            .chars()
            .take(12)
            .collect();
        let unique = host.clock.fresh_uuid().simple().to_string();
        let folder = Self { path: host.agents_dir().join(agent).join(id), unique };
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(folder.temporary_files()).map_err(|error| folder.failure(&error))?;
        Ok(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn temporary_files(&self) -> PathBuf {
        self.path.join("tmp")
    }

    /// Writes a file unless it already has this content. Readers see the old or the new content.
    pub(crate) fn write(&self, name: &str, content: &str) -> Result<(), Failure> {
        let path = self.path.join(name);
        if fs::read(&path).is_ok_and(|present| present == content.as_bytes()) {
            return Ok(());
        }
        let temporary = self.temporary_path(name);
        let mut options = fs::OpenOptions::new();
        let created = options.write(true).create_new(true).mode(0o600).open(&temporary);
        created
            .and_then(|mut file| file.write_all(content.as_bytes()))
            .and_then(|()| fs::rename(&temporary, &path))
            .map_err(|error| self.failure(&error))
    }

    /// Makes `name` a symbolic link to `target`, which need not exist.
    pub(crate) fn link(&self, name: &str, target: &Path) -> Result<(), Failure> {
        let path = self.path.join(name);
        if fs::read_link(&path).is_ok_and(|present| present == target) {
            return Ok(());
        }
        let temporary = self.temporary_path(name);
        symlink(target, &temporary)
            .and_then(|()| fs::rename(&temporary, &path))
            .map_err(|error| self.failure(&error))
    }

    fn temporary_path(&self, name: &str) -> PathBuf {
        self.temporary_files().join(format!("{}-{name}", self.unique))
    }

    /// Returns the environment with this folder as the home and without the variables that describe
    /// the owner.
    pub(crate) fn seal(
        &self,
        mut environment: BTreeMap<OsString, OsString>,
    ) -> BTreeMap<OsString, OsString> {
        environment.retain(|name, _| {
            !WITHHELD.iter().any(|withheld| name == OsStr::new(withheld))
                && !name.as_bytes().starts_with(WITHHELD_PREFIX)
        });
        let temporary = self.temporary_files();
        environment.insert("HOME".into(), self.path.clone().into());
        environment.insert("TMPDIR".into(), temporary.clone().into());
        environment.insert("XDG_RUNTIME_DIR".into(), temporary.into());
        environment
    }

    /// Returns the confinement of a process with this environment: it may open the system's
    /// folders, this folder, and the files that variables name, such as certificates.
    pub(crate) fn confinement(
        &self,
        owners_home: &Path,
        environment: &BTreeMap<OsString, OsString>,
    ) -> Confinement {
        let mut confinement = Confinement::outside_home(owners_home);
        for (name, value) in environment {
            let path = Path::new(value);
            let names_file = path.is_absolute() && path.is_file();
            if names_file || (name == "SSL_CERT_DIR" && path.is_absolute()) {
                confinement.allow_read(path);
            }
        }
        confinement.allow_write(&self.path);
        confinement
    }

    fn failure(&self, error: &io::Error) -> Failure {
        let message = format!("the folder {} cannot be written: {error}", self.path.display());
        Failure::new(FailureKind::Unavailable, message)
            .with_hint("check its permissions and the free space on the disk")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(path: &Path) -> SealedFolder {
        fs::create_dir_all(path.join("tmp")).unwrap();
        SealedFolder { path: path.to_owned(), unique: "1".into() }
    }

    #[test]
    fn files_and_links_are_replaced_as_a_whole() {
        let place = tempfile::tempdir().unwrap();
        let folder = folder(place.path());
        for content in ["one", "one", "two"] {
            folder.write("config.toml", content).unwrap();
            assert_eq!(fs::read_to_string(place.path().join("config.toml")).unwrap(), content);
        }
        for target in ["/first", "/first", "/second"] {
            folder.link("auth.json", Path::new(target)).unwrap();
            assert_eq!(fs::read_link(place.path().join("auth.json")).unwrap(), Path::new(target));
        }
        assert_eq!(fs::read_dir(place.path().join("tmp")).unwrap().count(), 0);
    }

    #[test]
    fn what_describes_the_owner_is_withheld() {
        let place = tempfile::tempdir().unwrap();
        let folder = folder(place.path());
        let names = ["USER", "LOGNAME", "SHELL", "SSH_AUTH_SOCK", "XDG_CONFIG_HOME", "HOME"];
        let owners: BTreeMap<OsString, OsString> = (names.iter().chain(&["PATH", "LANG", "KEY"]))
            .map(|name| ((*name).into(), "/home/owner".into()))
            .collect();
        let sealed = folder.seal(owners);
        let kept: Vec<_> = sealed.keys().map(|name| name.to_str().unwrap()).collect();
        assert_eq!(kept, ["HOME", "KEY", "LANG", "PATH", "TMPDIR", "XDG_RUNTIME_DIR"]);
        assert_eq!(sealed[OsStr::new("HOME")], place.path());
    }
}

//! Programs that npm installs: behind a launcher, which is a script, lies the native program that it would
//! start. One process less, and it starts faster.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

use angelia_core::model::{Failure, FailureKind, SessionSpec};

use crate::host::Host;

/// What is to be known of a program that may be installed so.
#[derive(Debug)]
pub(crate) struct Program {
    /// As people call it.
    pub(crate) title: &'static str,
    pub(crate) command: &'static str,
    /// The package that the launcher is in.
    pub(crate) package: &'static str,
    /// Where the native program can be, seen from that package; the best first.
    pub(crate) places: fn() -> Vec<PathBuf>,
    pub(crate) how_to_install: &'static str,
}

impl Program {
    /// The program of a specification: named by it, or found on the path of the child.
    pub(crate) fn locate(
        &self,
        host: &Host,
        spec: &SessionSpec,
        environment: &BTreeMap<OsString, OsString>,
    ) -> Result<PathBuf, Failure> {
        let name = spec.binary.as_deref().unwrap_or(Path::new(self.command));
        let found = if name.components().count() > 1 {
            Some(name.to_owned())
        } else {
            host.find_program(name, environment)
        };
        let path = found.ok_or_else(|| {
            let (title, name) = (self.title, name.display());
            let message = format!("{title} is not installed: no `{name}` on the PATH");
            Failure::new(FailureKind::Unavailable, message).with_hint(self.how_to_install)
        })?;
        Ok(self.native_behind(&path).unwrap_or(path))
    }

    /// `None`: `path` does not lead to a script of the package, or nothing better is there.
    pub(crate) fn native_behind(&self, path: &Path) -> Option<PathBuf> {
        let real = path.canonicalize().ok()?;
        let mut folders = real.ancestors();
        let package = folders.find(|folder| folder.ends_with(self.package))?;
        if is_native(&real) {
            return None;
        }
        let places = (self.places)().into_iter().map(|place| package.join(place));
        let found = places.into_iter().find(|program| is_native(program))?;
        Some(found.canonicalize().unwrap_or(found))
    }
}

/// An executable of this kind of system, and not a script.
fn is_native(path: &Path) -> bool {
    let mut head = [0; 4];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok()
        && matches!(
            head,
            [0x7f, b'E', b'L', b'F'] | [0xcf | 0xce, 0xfa, 0xed, 0xfe] | [0xca, 0xfe, 0xba, 0xbe]
        )
}

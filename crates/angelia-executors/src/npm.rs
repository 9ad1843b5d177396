//! Programs installed by npm. npm's launcher is a script that starts a native program. We start the
//! native program directly, which is faster and saves a process.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

use angelia_core::model::{Failure, FailureKind, SessionSpec};

use crate::host::ExecutorHost;

/// A program that npm may have installed.
#[derive(Debug)]
pub struct NpmProgram {
    /// The product name, for messages.
    pub(crate) title: &'static str,
    pub(crate) command: &'static str,
    /// The npm package that contains the launcher.
    pub(crate) package: &'static str,
    /// Candidate paths of the native program, relative to the package, best first.
    pub(crate) native_candidates: fn() -> Vec<PathBuf>,
    pub(crate) install_hint: &'static str,
}

/// The folder in which npm puts launchers.
const LAUNCHERS: &str = "node_modules/.bin";

impl NpmProgram {
    pub fn package(&self) -> &'static str {
        self.package
    }

    /// Returns the path of the launcher in a folder into which npm installed the package.
    /// `angelia agents install` installs a version into a folder named `NAME@VERSION`.
    pub fn launcher_in(&self, folder: &Path) -> PathBuf {
        folder.join(LAUNCHERS).join(self.command)
    }

    /// Returns a failure if `launcher` belongs to such a folder and that version is not installed.
    fn missing_version(&self, launcher: &Path) -> Option<Failure> {
        let folder = launcher.parent()?.to_str()?.strip_suffix(LAUNCHERS)?;
        let wanted = Path::new(folder).file_name()?.to_str()?;
        let (_, version) = wanted.split_once('@')?;
        if launcher.exists() {
            return None;
        }
        let message = format!("{} {version} is not installed", self.title);
        let hint = format!("run `angelia agents install {wanted}`");
        Some(Failure::new(FailureKind::Unavailable, message).with_hint(hint))
    }

    /// Returns the path of the program: the specification's `binary`, or `command` on `PATH`.
    pub(crate) fn locate(
        &self,
        host: &ExecutorHost,
        spec: &SessionSpec,
        environment: &BTreeMap<OsString, OsString>,
    ) -> Result<PathBuf, Failure> {
        let name = spec.binary.as_deref().unwrap_or(Path::new(self.command));
        if let Some(missing) = self.missing_version(name) {
            return Err(missing);
        }
        let found = if name.components().count() > 1 {
            Some(name.to_owned())
        } else {
            host.find_program(name, environment)
        };
        let path = found.ok_or_else(|| {
            let (title, name) = (self.title, name.display());
            let message = format!("{title} is not installed: no `{name}` on the PATH");
            Failure::new(FailureKind::Unavailable, message).with_hint(self.install_hint)
        })?;
        Ok(self.find_native(&path).unwrap_or(path))
    }

    /// Returns the native program behind the launcher at `path`. Returns `None` if `path` does not
    /// lead to a script of the package, or if the package has no native program.
    pub(crate) fn find_native(&self, path: &Path) -> Option<PathBuf> {
        let real = path.canonicalize().ok()?;
        let mut folders = real.ancestors();
        let package = folders.find(|folder| folder.ends_with(self.package))?;
        if is_native(&real) {
            return None;
        }
        let places = (self.native_candidates)().into_iter().map(|place| package.join(place));
        let found = places.into_iter().find(|program| is_native(program))?;
        Some(found.canonicalize().unwrap_or(found))
    }
}

/// Reports whether the file is a native executable (ELF or Mach-O) and not a script.
pub(crate) fn is_native(path: &Path) -> bool {
    let mut head = [0; 4];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok()
        && matches!(
            head,
            [0x7f, b'E', b'L', b'F'] | [0xcf | 0xce, 0xfa, 0xed, 0xfe] | [0xca, 0xfe, 0xba, 0xbe]
        )
}

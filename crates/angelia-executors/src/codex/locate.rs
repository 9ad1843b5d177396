//! Where the program is: named by the profile, or found on the path; and behind the launcher that
//! npm installs, the native program it would start.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
};

use angelia_core::model::{Failure, FailureKind, SessionSpec};

use crate::{claude::locate::is_native, host::Host};

pub(super) const HOW_TO_INSTALL: &str =
    "install it (`npm install -g @openai/codex`) or set `binary` to its full path";

/// The program of a specification.
pub(super) fn locate(
    host: &Host,
    spec: &SessionSpec,
    environment: &BTreeMap<OsString, OsString>,
) -> Result<PathBuf, Failure> {
    let name = spec.binary.as_deref().unwrap_or(Path::new("codex"));
    let found = if name.components().count() > 1 {
        Some(name.to_owned())
    } else {
        host.find_program(name, environment)
    };
    let path = found.ok_or_else(|| {
        let name = name.display();
        let message = format!("Codex is not installed: no `{name}` on the PATH");
        Failure::new(FailureKind::Unavailable, message).with_hint(HOW_TO_INSTALL)
    })?;
    Ok(native_behind(&path).unwrap_or(path))
}

/// The native program beside or inside the npm package, when `path` leads to a script of it: one
/// process and 41 MB less.
fn native_behind(path: &Path) -> Option<PathBuf> {
    let real = path.canonicalize().ok()?;
    let package = real
        .ancestors()
        .find(|folder| folder.ends_with("@openai/codex"))?;
    if is_native(&real) {
        return None;
    }
    let (platform, triple) = platform()?;
    let separate = format!("codex-{platform}");
    let places = [
        package.parent()?.join(&separate),
        package.join("node_modules/@openai").join(&separate),
        package.to_owned(),
    ];
    let programs = places.iter().flat_map(|place| {
        let vendor = place.join("vendor").join(triple);
        [vendor.join("bin/codex"), vendor.join("codex/codex")]
    });
    programs.into_iter().find(|program| is_native(program))
}

/// The vendor's names for what fits here: of the package, and of the folder in it.
fn platform() -> Option<(&'static str, &'static str)> {
    match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => Some(("linux-x64", "x86_64-unknown-linux-musl")),
        ("linux", "aarch64") => Some(("linux-arm64", "aarch64-unknown-linux-musl")),
        ("macos", "x86_64") => Some(("darwin-x64", "x86_64-apple-darwin")),
        ("macos", "aarch64") => Some(("darwin-arm64", "aarch64-apple-darwin")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_native_program_behind_an_npm_launcher_is_preferred() {
        let root = tempfile::tempdir().unwrap();
        let scope = root.path().join("lib/node_modules/@openai");
        let bin = scope.join("codex/bin");
        fs::create_dir_all(&bin).unwrap();
        let launcher = bin.join("codex.js");
        fs::write(&launcher, "#!/usr/bin/env node\n").unwrap();
        let link = root.path().join("codex");
        std::os::unix::fs::symlink(&launcher, &link).unwrap();
        assert_eq!(native_behind(&link), None, "nothing better is there");

        let (platform, triple) = platform().unwrap();
        for place in ["codex".to_owned(), format!("codex-{platform}")] {
            let folder = scope.join(place).join("vendor").join(triple).join("bin");
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("codex"), b"\x7fELF and so on").unwrap();
            let found = native_behind(&link).unwrap();
            assert_eq!(found, folder.join("codex").canonicalize().unwrap());
        }
        assert_eq!(native_behind(Path::new("/nowhere/codex")), None);
    }
}

//! Where the program is: named by the profile, or found on the path; and behind the launcher that
//! npm installs, the native program it would start.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

use angelia_core::model::{Failure, FailureKind, SessionSpec};

use crate::host::Host;

pub(crate) const HOW_TO_INSTALL: &str =
    "install it (https://code.claude.com/docs) or set `binary` to its full path";

/// The program of a specification.
pub(crate) fn locate(
    host: &Host,
    spec: &SessionSpec,
    environment: &BTreeMap<OsString, OsString>,
) -> Result<PathBuf, Failure> {
    let found = match &spec.binary {
        None => host.find_program("claude", environment),
        Some(path) if path.components().count() > 1 => Some(path.clone()),
        Some(name) => host.find_program(name, environment),
    };
    let path = found.ok_or_else(|| {
        let name = spec.binary.as_deref().unwrap_or(Path::new("claude"));
        Failure::new(
            FailureKind::Unavailable,
            format!(
                "Claude Code is not installed: no `{}` on the PATH",
                name.display()
            ),
        )
        .with_hint(HOW_TO_INSTALL)
    })?;
    Ok(native_behind(&path).unwrap_or(path))
}

/// The native program beside the npm package `@anthropic-ai/claude-code`, when `path` leads to a
/// script of that package: one process less, and it starts faster.
fn native_behind(path: &Path) -> Option<PathBuf> {
    let real = path.canonicalize().ok()?;
    let package = real
        .ancestors()
        .find(|folder| folder.ends_with("@anthropic-ai/claude-code"))?;
    if is_native(&real) {
        return None;
    }
    let scope = package.parent()?;
    platforms()
        .into_iter()
        .map(|platform| format!("claude-code-{platform}/claude"))
        .flat_map(|program| {
            [
                scope.join(&program),
                package.join("node_modules/@anthropic-ai").join(&program),
            ]
        })
        .find(|program| is_native(program))
}

/// The endings of the vendor's platform packages that fit here.
fn platforms() -> Vec<String> {
    let processor = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    if cfg!(target_os = "macos") {
        return vec![format!("darwin-{processor}")];
    }
    let system = std::env::consts::OS;
    vec![
        format!("{system}-{processor}"),
        format!("{system}-{processor}-musl"),
    ]
}

/// An executable of this kind of system, and not a script.
pub(crate) fn is_native(path: &Path) -> bool {
    let mut head = [0; 4];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok()
        && matches!(
            head,
            [0x7f, b'E', b'L', b'F'] | [0xcf | 0xce, 0xfa, 0xed, 0xfe] | [0xca, 0xfe, 0xba, 0xbe]
        )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_native_program_behind_an_npm_launcher_is_preferred() {
        let root = tempfile::tempdir().unwrap();
        let scope = root.path().join("lib/node_modules/@anthropic-ai");
        let bin = scope.join("claude-code/bin");
        fs::create_dir_all(&bin).unwrap();
        let launcher = bin.join("claude.exe");
        fs::write(&launcher, "#!/bin/sh\nexec node wrapper\n").unwrap();
        let link = root.path().join("claude");
        std::os::unix::fs::symlink(&launcher, &link).unwrap();
        assert_eq!(native_behind(&link), None, "nothing better is there");

        let platform = scope.join(format!("claude-code-{}", platforms()[0]));
        fs::create_dir_all(&platform).unwrap();
        fs::write(platform.join("claude"), b"\x7fELF and so on").unwrap();
        let found = native_behind(&link).unwrap();
        assert_eq!(found, platform.join("claude").canonicalize().unwrap());

        // Once its installer has run, the launcher is the native program itself.
        fs::write(&launcher, b"\x7fELF and so on").unwrap();
        assert_eq!(native_behind(&link), None);
        assert_eq!(native_behind(Path::new("/nowhere/claude")), None);
    }
}

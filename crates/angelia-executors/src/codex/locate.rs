//! Locates the Codex program, including the native program behind the npm launcher.

use std::path::PathBuf;

use crate::npm::NpmProgram;

pub(super) static PROGRAM: NpmProgram = NpmProgram {
    title: "Codex",
    command: "codex",
    package: "@openai/codex",
    native_candidates: places,
    install_hint: "install it (`npm install -g @openai/codex`) or set `binary` to its full path",
};

/// Returns the possible paths of the native program, relative to the npm package: in a sibling
/// package, in a nested package, or in the package itself.
fn places() -> Vec<PathBuf> {
    let Some((platform, triple)) = platform() else {
        return Vec::new();
    };
    let packages = [
        format!("../codex-{platform}"),
        format!("node_modules/@openai/codex-{platform}"),
        String::new(),
    ];
    let programs = packages.iter().flat_map(|package| {
        let vendor = PathBuf::from(package).join("vendor").join(triple);
        [vendor.join("bin/codex"), vendor.join("codex/codex")]
    });
    programs.collect()
}

/// Returns the vendor's names for this platform: the package's name, and that of the folder in it.
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
    use std::{fs, path::Path};

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
        let native_behind = |path| PROGRAM.find_native(path);
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

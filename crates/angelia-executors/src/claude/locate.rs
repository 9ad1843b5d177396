//! Locates Claude Code, including the native program behind the npm launcher.

use std::path::PathBuf;

use crate::npm::NpmProgram;

pub(crate) static CLAUDE_PROGRAM: NpmProgram = NpmProgram {
    title: "Claude Code",
    command: "claude",
    package: "@anthropic-ai/claude-code",
    native_candidates: native_paths,
    install_hint: "install it (https://code.claude.com/docs) or set `binary` to its full path",
};

/// Returns candidate paths of the vendor's package for this platform, either next to the main
/// package or inside it.
fn native_paths() -> Vec<PathBuf> {
    let programs = platforms().into_iter().map(|platform| format!("claude-code-{platform}/claude"));
    let places = programs.flat_map(|program| {
        let beside = PathBuf::from("..").join(&program);
        [beside, PathBuf::from("node_modules/@anthropic-ai").join(program)]
    });
    places.collect()
}

/// Returns the suffixes of the vendor's platform packages that fit this machine.
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
    vec![format!("{system}-{processor}"), format!("{system}-{processor}-musl")]
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

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
        let native_behind = |path| CLAUDE_PROGRAM.find_native(path);
        assert_eq!(native_behind(&link), None, "nothing better is there");

        let platform = scope.join(format!("claude-code-{}", platforms()[0]));
        fs::create_dir_all(&platform).unwrap();
        fs::write(platform.join("claude"), b"\x7fELF and so on").unwrap();
        let found = native_behind(&link).unwrap();
        assert_eq!(found, platform.join("claude").canonicalize().unwrap());

        // Once the package's installer has run, the launcher is the native program itself.
        fs::write(&launcher, b"\x7fELF and so on").unwrap();
        assert_eq!(native_behind(&link), None);
        assert_eq!(native_behind(Path::new("/nowhere/claude")), None);
    }
}

//! Compiles the program with cargo-zigbuild, and lets it write the files that accompany it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};

use super::target::Target;
use crate::program::{command, output, succeed};

/// Compiles the program for each target, and returns the paths of the programs.
pub(super) fn build(targets: &[&Target], tools: &Path) -> Result<Vec<PathBuf>> {
    let root = crate::root();
    let mut programs = Vec::new();
    for target in targets {
        // Without rustup, the target may be installed in some other way; if it is not, the build
        // fails.
        if output(command("rustup").arg("--version"))?.is_some() {
            succeed(command("rustup").args(["target", "add", target.triple]))?;
        }
        eprintln!("building {}: a release build takes minutes", target.triple);
        let build = ["zigbuild", "--release", "--locked", "--package", "angelia", "--target"];
        let zigbuild = command(tools.join("cargo-zigbuild"))
            .args(build)
            .arg(target.zig)
            .env("CARGO_TARGET_DIR", root.join("target"))
            .env("PATH", path_with(tools)?)
            .status();
        let status = zigbuild.context("cannot start cargo-zigbuild")?;
        ensure!(status.success(), "the build for {} failed ({status})", target.triple);
        programs.push(root.join("target").join(target.triple).join("release/angelia"));
    }
    Ok(programs)
}

/// Returns PATH with our tools first, because cargo-zigbuild looks there for zig.
fn path_with(tools: &Path) -> Result<std::ffi::OsString> {
    let path = crate::program::search_path();
    let folders = std::iter::once(tools.to_owned()).chain(std::env::split_paths(&path));
    Ok(std::env::join_paths(folders)?)
}

/// Lets the program for this machine write its man pages, completions and links, which are the same
/// for all targets.
pub(super) fn write_package_files(programs: &[PathBuf]) -> Result<PathBuf> {
    let folder = crate::root().join("target/dist-files");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    for program in programs {
        let works = output(command(program).arg("--version"));
        if works.is_ok_and(|version| version.is_some()) {
            succeed(command(program).arg("package-files").arg(&folder))?;
            return Ok(folder);
        }
    }
    // None of the targets runs on this machine, so let cargo build a program that does.
    let run = ["run", "--quiet", "--package", "angelia", "--", "package-files"];
    succeed(crate::program::cargo().args(run).arg(&folder))?;
    Ok(folder)
}

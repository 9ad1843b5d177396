//! Installs every package in `target/dist` in an otherwise empty place, and runs a turn with it.
//!
//! - `roots`: separate roots, with nothing but busybox or a fresh Debian.
//! - `foreign`: runs the program for another processor.

mod foreign;
mod roots;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};

use super::target::{DEFAULT_TARGETS, Target};
use crate::{
    program::{command, find_on_path, succeed},
    setup::debian,
};

/// The answer of the demo agent, which runs if no other agent is installed.
const ANSWER: &str = "You said: hello";

pub(super) fn check(dist: &Path) -> Result<()> {
    debian::install(&[debian::BUSYBOX, debian::DEBOOTSTRAP, debian::MINISIGN])?;
    debian::install(&debian::QEMU)?;
    let work = crate::root().join("target/dist-check");
    fs::create_dir_all(&work)?;
    check_sums(dist)?;
    let is_built = |target: &&Target| find(dist, target.triple, ".tar.gz").is_ok();
    let built: Vec<&Target> = DEFAULT_TARGETS.into_iter().filter(is_built).collect();
    ensure!(!built.is_empty(), "target/dist has no archive; run `cargo xtask dist`");
    for target in built {
        if target.machine == std::env::consts::ARCH {
            roots::check_archive(dist, &work)?;
            roots::check_deb(dist, target, &work)?;
            check_npm(&find(dist, &format!("-linux-{}-", target.node), ".tgz")?, &work)?;
            check_wheel(&find(dist, &format!("_{}", target.machine), ".whl")?, &work)?;
        } else {
            foreign::check(&find(dist, target.triple, ".tar.gz")?, target, &work)?;
        }
    }
    Ok(())
}

/// Checks the sums and their signature with the tools that a person would use.
fn check_sums(dist: &Path) -> Result<()> {
    succeed(command("sha256sum").args(["--check", "--quiet", "SHA256SUMS"]).current_dir(dist))?;
    let verify = ["-V", "-q", "-p", "minisign.pub", "-m", "SHA256SUMS"];
    succeed(command("minisign").args(verify).current_dir(dist))
}

fn check_npm(package: &Path, work: &Path) -> Result<()> {
    let prefix = empty_folder(&work.join("npm"))?;
    let install = ["install", "--global", "--offline", "--no-audit", "--no-fund"];
    succeed(
        command("npm")
            .args(install)
            .arg("--cache")
            .arg(prefix.join("cache"))
            .arg("--prefix")
            .arg(&prefix)
            .arg(package),
    )?;
    check_prefix(&prefix, "the npm package")
}

fn check_wheel(wheel: &Path, work: &Path) -> Result<()> {
    let prefix = empty_folder(&work.join("wheel"))?;
    succeed(command("python3").args(["-m", "venv"]).arg(&prefix))?;
    let install = ["-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check"];
    succeed(command(prefix.join("bin/python")).args(install).arg(wheel))?;
    check_prefix(&prefix, "the wheel")?;
    ensure!(prefix.join("share/man/man1/angelia.1").is_file(), "the wheel has no man page");
    Ok(())
}

/// Runs the program below a prefix, with an empty home and nothing else on PATH.
fn check_prefix(prefix: &Path, what: &str) -> Result<()> {
    let home = empty_folder(&prefix.join("home"))?;
    let mut run = command(prefix.join("bin/angelia"));
    run.env_clear().env("HOME", &home).env("PATH", prefix.join("bin")).current_dir(&home);
    check_answer(run.args(["run", "hello"]), what)
}

fn check_answer(run: &mut Command, what: &str) -> Result<()> {
    let ran = run.output().with_context(|| format!("cannot start angelia of {what}"))?;
    let answer = String::from_utf8_lossy(&ran.stdout);
    ensure!(
        ran.status.success() && answer.contains(ANSWER),
        "angelia of {what} ended with {}: {answer}{}",
        ran.status,
        String::from_utf8_lossy(&ran.stderr)
    );
    eprintln!("{what}: installed, `angelia run hello` answers");
    Ok(())
}

/// Returns the file in the folder whose name contains `part` and ends with `ending`.
fn find(dist: &Path, part: &str, ending: &str) -> Result<PathBuf> {
    for path in super::sums::files(dist)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.contains(part) && name.ends_with(ending) {
            return Ok(path);
        }
    }
    anyhow::bail!("target/dist has no {part}…{ending}; run `cargo xtask dist`")
}

fn empty_folder(path: &Path) -> Result<PathBuf> {
    if path.exists() {
        fs::remove_dir_all(path).with_context(|| format!("cannot empty {}", path.display()))?;
    }
    fs::create_dir_all(path)?;
    Ok(path.to_owned())
}

/// Returns the path of a program that `debian::install` installed.
fn program(name: &str) -> Result<PathBuf> {
    find_on_path(name).with_context(|| format!("{name} is not installed"))
}

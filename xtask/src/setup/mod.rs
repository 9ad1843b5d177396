//! Installs the pinned real programs that the tests drive, once per lock file: each folder in
//! `tests/npm` into the same folder in `target/npm`, each one in `tests/python` into
//! `target/python`. The programs that only benchmarks use, from `tests/bench-npm` and
//! `tests/bench-python`, are installed when such a benchmark runs. Also installs a few programs
//! from the system's packages.

pub(crate) mod debian;
mod npm;
mod python;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

pub(crate) fn run() -> Result<()> {
    for group in groups("npm")? {
        npm::install(&group)?;
    }
    for group in groups("python")? {
        python::install(&group)?;
    }
    debian::install(&[
        debian::TMUX,
        debian::CURL,
        debian::JQ,
        debian::MINISIGN,
        debian::SHELLCHECK,
        debian::SYSTEMD,
    ])
}

/// Installs the tools that release builds need besides Rust, from `packaging/tools`, and returns
/// the folder with their programs.
pub(crate) fn install_release_tools() -> Result<PathBuf> {
    let root = crate::root();
    let target = root.join("target/tools/zigbuild");
    let name = "tools/zigbuild".to_owned();
    let pins = root.join("packaging/tools");
    python::install(&PackageGroup { name, pins, target: target.clone() })?;
    debian::install(&[debian::MINISIGN])?;
    Ok(target.join("bin"))
}

/// Installs the programs that only `cargo xtask test full` runs, from `tests/full-python`.
pub(crate) fn install_large_clients() -> Result<()> {
    for group in groups("full-python")? {
        python::install(&group)?;
    }
    Ok(())
}

/// Installs a program that only a benchmark compares against, from this folder in `tests`.
pub(crate) fn install_benchmark_peer(folder: &str) -> Result<()> {
    let of_npm = groups("bench-npm")?.into_iter().map(|group| (npm::install as InstallFn, group));
    let of_python = groups("bench-python")?.into_iter();
    let of_python = of_python.map(|group| (python::install as InstallFn, group));
    let mut known = of_npm.chain(of_python);
    let (install, group) = known
        .find(|(_, group)| group.name == folder)
        .with_context(|| format!("there is no tests/{folder}"))?;
    install(&group)
}

type InstallFn = fn(&PackageGroup) -> Result<()>;

/// Packages that are pinned and installed together.
struct PackageGroup {
    /// Their folder, relative to `target`.
    name: String,
    pins: PathBuf,
    target: PathBuf,
}

impl PackageGroup {
    /// Returns the path of the stamp, a copy of the installed lock file. Unlike a hash, a copy
    /// allows a difference to be inspected.
    fn stamp(&self) -> PathBuf {
        self.target.join("installed")
    }

    fn is_installed(&self, lock: &str) -> bool {
        fs::read_to_string(self.stamp()).is_ok_and(|stamp| stamp == lock)
    }

    /// Removes the stamp before installing, so that an aborted installation leaves none behind.
    fn begin(&self) -> Result<()> {
        fs::create_dir_all(&self.target)
            .with_context(|| format!("cannot make {}", self.target.display()))?;
        if self.stamp().exists() {
            fs::remove_file(self.stamp())?;
        }
        Ok(())
    }

    fn finish(&self, lock: &str) -> Result<()> {
        Ok(fs::write(self.stamp(), lock)?)
    }
}

fn groups(kind: &str) -> Result<Vec<PackageGroup>> {
    let folder = crate::root().join("tests").join(kind);
    let mut groups = Vec::new();
    if !folder.is_dir() {
        return Ok(groups);
    }
    for entry in fs::read_dir(&folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            let group = entry.file_name().to_string_lossy().into_owned();
            groups.push(PackageGroup {
                name: format!("{kind}/{group}"),
                pins: entry.path(),
                target: crate::root().join("target").join(kind).join(group),
            });
        }
    }
    groups.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(groups)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

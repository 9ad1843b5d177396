//! Installs packages from PyPI: one virtual environment per `requirements.txt`, in which every line
//! is pinned by version and hash.

use anyhow::{Context as _, Result, bail};

use super::{PackageGroup, read};
use crate::program::{command, output, succeed};

pub(super) fn install(group: &PackageGroup) -> Result<()> {
    let lock = read(&group.pins.join("requirements.txt"))?;
    let python = group.target.join("bin/python");
    if group.is_installed(&lock) && python.is_file() {
        eprintln!("target/{} is up to date", group.name);
        return Ok(());
    }
    if output(command("python3").arg("--version"))?.is_none() {
        bail!("python3 is not on PATH; install Python 3.11 or newer, then run this again");
    }
    group.begin()?;
    succeed(command("python3").args(["-m", "venv", "--clear"]).arg(&group.target))
        .context("cannot make a virtual environment; is Python's venv module installed?")?;
    // Only use wheels, because building a source package would need more tools than Python.
    succeed(
        command(&python)
            .args(["-m", "pip", "install", "--quiet", "--no-deps"])
            .args(["--disable-pip-version-check", "--require-hashes"])
            .args(["--only-binary", ":all:", "--requirement"])
            .arg(group.pins.join("requirements.txt")),
    )
    .with_context(|| format!("cannot install {}", group.name))?;
    group.finish(&lock)
}

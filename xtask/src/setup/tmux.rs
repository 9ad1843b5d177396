//! Installs tmux, which `notify-agent` types messages into, from the system's packages.

use anyhow::{Context as _, Result};

use crate::program::{command, output, succeed};

pub(crate) fn install() -> Result<()> {
    if output(command("tmux").arg("-V"))?.is_some() {
        return Ok(());
    }
    if output(command("apt-get").arg("--version"))?.is_none() {
        anyhow::bail!("tmux is not installed; install it with your package manager");
    }
    let install =
        || succeed(command("apt-get").args(["install", "-y", "--no-install-recommends", "tmux"]));
    // Fetch the package list only if the first attempt fails: a fresh machine does not have it yet.
    install()
        .or_else(|_| {
            succeed(command("apt-get").arg("update"))?;
            install()
        })
        .context("tmux could not be installed; install it by hand")
}

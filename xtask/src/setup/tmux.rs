//! tmux, which senders of the bus type into: a package of the system, not of a registry.

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
    // Only a machine that has never looked for packages needs the list of them first.
    install()
        .or_else(|_| {
            succeed(command("apt-get").arg("update"))?;
            install()
        })
        .context("tmux could not be installed; install it by hand")
}

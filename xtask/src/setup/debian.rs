//! Installs programs from the system's packages (Debian's) if they are not on PATH.

use anyhow::{Context as _, Result, bail};

use crate::program::{command, find_on_path, output, succeed};

/// A program, and the Debian package that contains it.
pub(crate) struct DebianProgram {
    pub(crate) name: &'static str,
    pub(crate) package: &'static str,
}

/// `notify-agent` types messages into tmux, and terminal tests read its screen.
pub(crate) const TMUX: DebianProgram = DebianProgram { name: "tmux", package: "tmux" };
/// Used by commands in the documentation.
pub(crate) const CURL: DebianProgram = DebianProgram { name: "curl", package: "curl" };
pub(crate) const JQ: DebianProgram = DebianProgram { name: "jq", package: "jq" };
/// Signs the checksums of a release.
pub(crate) const MINISIGN: DebianProgram = DebianProgram { name: "minisign", package: "minisign" };
/// Checks `packaging/install.sh`.
pub(crate) const SHELLCHECK: DebianProgram =
    DebianProgram { name: "shellcheck", package: "shellcheck" };
/// Verifies the unit of `angelia service`.
pub(crate) const SYSTEMD: DebianProgram =
    DebianProgram { name: "systemd-analyze", package: "systemd" };
/// Provides the empty root in which the archive is installed.
pub(crate) const BUSYBOX: DebianProgram =
    DebianProgram { name: "busybox", package: "busybox-static" };
/// Creates the fresh Debian in which the `.deb` is installed.
pub(crate) const DEBOOTSTRAP: DebianProgram =
    DebianProgram { name: "debootstrap", package: "debootstrap" };

/// Runs the program for the other processor.
pub(crate) const QEMU: [DebianProgram; 2] = [
    DebianProgram { name: "qemu-x86_64-static", package: "qemu-user-static" },
    DebianProgram { name: "qemu-aarch64-static", package: "qemu-user-static" },
];

pub(crate) fn install(programs: &[DebianProgram]) -> Result<()> {
    let missing: Vec<&DebianProgram> =
        programs.iter().filter(|program| find_on_path(program.name).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> = missing.iter().map(|program| program.package).collect();
    let list = packages.join(", ");
    if output(command("apt-get").arg("--version"))?.is_none() {
        bail!("{list} not installed; install it with your package manager");
    }
    let install = || {
        let install = ["install", "-y", "--no-install-recommends"];
        succeed(command("apt-get").args(install).args(&packages))
    };
    // Fetch the package list only if the first attempt fails, because a fresh machine does not have
    // it yet.
    install()
        .or_else(|_| {
            succeed(command("apt-get").arg("update"))?;
            install()
        })
        .with_context(|| format!("{list} could not be installed; install it by hand"))
}

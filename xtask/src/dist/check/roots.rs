//! Installs packages in separate roots. This needs root's rights for chroot and mounts; the mounts
//! are in a namespace that ends with the command.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};

use super::{super::target::Target, check_answer, empty_folder, program};
use crate::program::{command, output, succeed};

/// Installs, replaces and removes the archive with `install.sh` on a system that has only busybox.
const USE_ARCHIVE: &str = "
    sh /dist/install.sh
    ~/.local/bin/angelia run hello
    sh /dist/install.sh file:///dist | grep 'minisign is not installed'
    ~/.local/bin/angelia setup hermes --write --dir ~/bin
    ~/bin/hermes-busd --help | grep restart
    ~/.local/bin/angelia setup hermes --undo --dir ~/bin
    grep 'ExecStart=\"/home/me/.local/bin/angelia\"' ~/.local/share/systemd/user/angelia.service
    sh /dist/install.sh --uninstall
    test -z \"$(find ~/.local ~/bin -type f -o -type l)\"
";

/// Installs and removes the package in a fresh Debian.
const USE_DEB: &str = "
    dpkg --install /dist/angelia_*.deb
    angelia run hello
    test -f /usr/share/man/man1/angelia.1.gz
    test -x /usr/libexec/angelia/hermes/hermes-busd
    grep 'ExecStart=\"/usr/bin/angelia\"' /usr/lib/systemd/user/angelia.service
    dpkg --remove angelia
    test ! -e /usr/bin/angelia
    test ! -e /usr/libexec/angelia
";

/// Runs a script in a root with its own view of mounts and processes, and an empty environment.
const ENTER: &str = "
    mount -t proc proc \"$1/proc\"
    mount --bind /dev \"$1/dev\"
    exec chroot \"$1\" /bin/env -i PATH=/usr/bin:/usr/sbin:/bin:/sbin HOME=/home/me sh -ec \"$2\"
";

pub(super) fn check_archive(dist: &Path, work: &Path) -> Result<()> {
    let root = empty_folder(&work.join("busybox"))?;
    for folder in ["bin", "dev", "proc", "tmp", "home/me"] {
        fs::create_dir_all(root.join(folder))?;
    }
    fs::copy(program("busybox")?, root.join("bin/busybox"))?;
    // The links refer to busybox by its path inside the root.
    succeed(command("chroot").arg(&root).args(["/bin/busybox", "--install", "-s", "/bin"]))
        .context("this check needs root's rights")?;
    use_in_root(&root, dist, USE_ARCHIVE, "the archive, in a root with only busybox")
}

pub(super) fn check_deb(dist: &Path, target: &Target, work: &Path) -> Result<()> {
    let fresh = fresh_debian(work, target)?;
    let root = work.join("debian");
    if root.exists() {
        fs::remove_dir_all(&root)?;
    }
    succeed(command("cp").arg("-a").arg(&fresh).arg(&root))?;
    fs::create_dir_all(root.join("home/me"))?;
    use_in_root(&root, dist, USE_DEB, "the .deb, in a fresh Debian")
}

/// Creates a minimal Debian of this machine's release, once.
fn fresh_debian(work: &Path, target: &Target) -> Result<PathBuf> {
    let root = work.join("fresh-debian");
    let complete = work.join("fresh-debian.complete");
    if complete.is_file() {
        return Ok(root);
    }
    empty_folder(&root)?;
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let codename = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let codename = codename.context("this check needs Debian")?;
    // Use the same source that this machine's packages come from.
    let sites = output(command("apt-get").args(["indextargets", "--format", "$(SITE)"]))?;
    let sites = sites.context("apt-get knows no sources; run `apt-get update`")?;
    let site = sites.lines().find(|site| !site.contains("security"));
    let site = site.context("apt-get knows no sources; run `apt-get update`")?;
    let debootstrap = ["--variant=minbase", "--arch", target.debian, codename];
    succeed(command(program("debootstrap")?).args(debootstrap).arg(&root).arg(site))?;
    fs::write(complete, "")?;
    Ok(root)
}

/// Copies the packages for this processor into the root and runs the script there, which must print
/// the agent's answer.
fn use_in_root(root: &Path, dist: &Path, script: &str, what: &str) -> Result<()> {
    let folder = root.join("dist");
    fs::create_dir_all(&folder)?;
    for path in super::super::sums::files(dist)? {
        let name = path.file_name().context("a file without a name")?;
        let shown = name.to_string_lossy();
        if !shown.ends_with(".whl") && !shown.ends_with(".tgz") && !is_foreign_deb(&shown) {
            fs::copy(&path, folder.join(name))?;
        }
    }
    let unshare = ["--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", ENTER, "sh"];
    let mut enter = command("unshare");
    enter.args(unshare).arg(root).arg(script);
    check_answer(&mut enter, what)?;
    ensure!(!root.join("proc/self").exists(), "the root's mounts are still there");
    Ok(())
}

fn is_foreign_deb(name: &str) -> bool {
    let ours = if std::env::consts::ARCH == "x86_64" { "_amd64.deb" } else { "_arm64.deb" };
    name.ends_with(".deb") && !name.ends_with(ours)
}

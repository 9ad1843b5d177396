//! Runs the program for another processor under qemu. qemu is registered with the kernel in a
//! separate namespace, because the program starts the demo agent as a child of itself.

use std::path::Path;

use anyhow::Result;

use super::{super::target::Target, check_answer, empty_folder, program};
use crate::program::{command, succeed};

/// `$1` is the folder for the kernel's list of formats, `$2` the format, and the rest the command.
const REGISTER: &str = "
    mount -t binfmt_misc none \"$1\"
    printf '%s' \"$2\" >\"$1/register\"
    shift 2
    exec \"$@\"
";

pub(super) fn check(archive: &Path, target: &Target, work: &Path) -> Result<()> {
    let folder = empty_folder(&work.join(target.machine))?;
    succeed(
        command("tar").args(["--strip-components=1", "-xzf"]).arg(archive).arg("-C").arg(&folder),
    )?;
    let formats = empty_folder(&folder.join("formats"))?;
    let home = empty_folder(&folder.join("home"))?;
    let qemu = program(&format!("qemu-{}-static", target.machine))?;
    // The program looks itself up in `/proc`, which must therefore show the new namespace.
    let unshare = ["--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"];
    let mut run = command("unshare");
    run.args(unshare)
        .args(["sh", "-ec", REGISTER, "sh"])
        .arg(formats)
        .arg(format(target, &qemu))
        .args(["env", "-i", "PATH=/nowhere"])
        .arg(format!("HOME={}", home.display()))
        .arg(folder.join("bin/angelia"))
        .args(["run", "hello"])
        .current_dir(&home);
    check_answer(&mut run, &format!("the archive for {}, under qemu", target.machine))
}

/// Returns the kernel's description of a program for this processor: the first bytes of an ELF file
/// with its machine number. `F` makes the kernel open qemu at once, from outside any root.
fn format(target: &Target, qemu: &Path) -> String {
    let number = if target.machine == "aarch64" { r"\xb7\x00" } else { r"\x3e\x00" };
    let magic = format!(r"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00{number}");
    let mask = r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff";
    format!(":angelia-check:M::{magic}:{mask}:{}:F", qemu.display())
}

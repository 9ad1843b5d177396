//! Restricts the files that a child may open, using Landlock.
//!
//! A process can only restrict itself, so the child is started through our own program with the
//! hidden subcommand (job [`JOB`]), which restricts itself and then executes the child's program.
//!
//! An agent in model mode is confined as tightly as the kernel allows ([`Confinement::apply`]). A
//! model's command is confined completely or not started at all ([`Confinement::enforce`]). It also
//! loses all capabilities, TCP unless allowed, and, on kernels that support it, signals and
//! abstract sockets to outside processes. A parent process that carries the mark
//! ([`super::marked_parent`]) stays outside the confinement, so that the command can neither reach
//! it nor read its `/proc` entries.

use std::{
    ffi::OsString,
    io::{self, Write as _},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use super::{
    hidden_subcommand,
    marked_parent::{self, CANNOT_EXECUTE},
    spawn::ProcessLaunch,
};
use crate::npm::is_native;

/// The job that confines its own process and then executes another program.
pub(super) const JOB: &str = "confine";

const READ_FLAG: &str = "--read";
const WRITE_FLAG: &str = "--write";
const ENFORCE_FLAG: &str = "--enforce";
const TCP_FLAG: &str = "--tcp";
const END_OF_FLAGS: &str = "--";

/// The system folders that any program needs: code, certificates, name resolution.
const SYSTEM_FOLDERS: [&str; 19] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix/store",
    "/gnu/store",
    "/sys",
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager",
    "/run/nscd",
    "/run/current-system",
    "/var/lib/ca-certificates",
    "/var/cache/ca-certificates",
];

const PROCESSES: &str = "/proc";
const DEVICES: &str = "/dev";

/// The parts of `/proc` that describe the machine or the command itself, but no other process.
const HARMLESS_PROCESS_FILES: [&str; 9] = [
    "/proc/self",
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys",
    "/proc/uptime",
    "/proc/version",
];

/// The devices that any program may use. Disks are not among them.
const HARMLESS_DEVICES: [&str; 10] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
    "/dev/shm",
    "/dev/fd",
];

/// The files and folders that a child may open; everything else is refused. A folder includes
/// everything below it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Confinement {
    pub(super) read: Vec<PathBuf>,
    pub(super) write: Vec<PathBuf>,
    /// If set, the child is started only if all restrictions can be enforced.
    pub(super) enforced: bool,
    pub(super) tcp: bool,
}

/// What Landlock can restrict on this system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LandlockSupport {
    /// Opening, changing and truncating files (Linux 6.2).
    pub files: bool,
    /// TCP connections (Linux 6.7).
    pub tcp: bool,
    /// Signals and abstract sockets to outside processes (Linux 6.12).
    pub scopes: bool,
}

impl Confinement {
    /// Allows the system folders, except those that contain `home`.
    pub fn outside_home(home: &Path) -> Self {
        let folders = SYSTEM_FOLDERS.iter().map(PathBuf::from);
        Self {
            read: folders
                .chain([PROCESSES.into()])
                .filter(|folder| !home.starts_with(folder))
                .collect(),
            write: vec![DEVICES.into()],
            enforced: false,
            tcp: true,
        }
    }

    /// Returns the confinement of a model's commands: allows the system folders except those that
    /// contain a hidden folder, and harmless devices. Reveals nothing about other processes.
    /// Refuses TCP unless `tcp` is set.
    pub fn for_commands(hidden: &[&Path], tcp: bool) -> Self {
        let folders = SYSTEM_FOLDERS.iter().chain(&HARMLESS_PROCESS_FILES).map(PathBuf::from);
        let is_open = |folder: &PathBuf| !hidden.iter().any(|path| path.starts_with(folder));
        Self {
            read: folders.filter(is_open).collect(),
            write: HARMLESS_DEVICES.iter().map(PathBuf::from).collect(),
            enforced: true,
            tcp,
        }
    }

    pub fn allow_read(&mut self, path: impl Into<PathBuf>) {
        self.read.push(path.into());
    }

    /// Allows reading, writing, creating and removing files.
    pub fn allow_write(&mut self, path: impl Into<PathBuf>) {
        self.write.push(path.into());
    }

    /// Returns a launch of the same child through `helper`, our own program. The child may also
    /// read the folder of its program. Returns the launch unchanged on systems without Landlock,
    /// and for a script, whose interpreter may be anywhere.
    pub fn apply(mut self, helper: &Path, launch: ProcessLaunch) -> ProcessLaunch {
        let program = launch.program.canonicalize().ok();
        let program = program.filter(|program| cfg!(target_os = "linux") && is_native(program));
        match program.as_deref().and_then(Path::parent) {
            Some(folder) => self.allow_read(folder),
            None => return launch,
        }
        self.through(helper, launch)
    }

    /// Returns a launch of the same child through `helper`, our own program, which starts the child
    /// only if all restrictions hold. A parent that carries the mark stays above it.
    pub fn enforce(mut self, helper: &Path, launch: ProcessLaunch) -> ProcessLaunch {
        self.enforced = true;
        marked_parent::attend(helper, self.through(helper, launch))
    }

    fn through(&self, helper: &Path, launch: ProcessLaunch) -> ProcessLaunch {
        let mut args: Vec<OsString> = vec![hidden_subcommand::NAME.into(), JOB.into()];
        let flags = [(ENFORCE_FLAG, self.enforced), (TCP_FLAG, self.tcp)];
        args.extend(flags.iter().filter(|(_, set)| *set).map(|(flag, _)| (*flag).into()));
        for (flag, paths) in [(READ_FLAG, &self.read), (WRITE_FLAG, &self.write)] {
            for path in paths {
                args.extend([flag.into(), path.into()]);
            }
        }
        args.extend([END_OF_FLAGS.into(), launch.program.into()]);
        args.extend(launch.args);
        ProcessLaunch { program: helper.to_owned(), args, ..launch }
    }
}

/// Runs the job. `args` are the arguments after its name. Returns only on failure.
#[expect(clippy::disallowed_methods, reason = "this replaces the process, it starts no child")]
pub(super) fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let problem = match parse(args) {
        None => io::Error::other("it is called by Angelia itself"),
        Some((confinement, command)) => match restrict_self(&confinement) {
            Err(error) => error,
            Ok(()) => match command.split_first() {
                Some((program, args)) => std::process::Command::new(program).args(args).exec(),
                None => io::Error::other("no program is named"),
            },
        },
    };
    // If stderr is closed, there is no way to report the problem.
    let _closed = writeln!(io::stderr(), "angelia {JOB}: {problem}");
    CANNOT_EXECUTE.into()
}

fn parse(args: impl IntoIterator<Item = OsString>) -> Option<(Confinement, Vec<OsString>)> {
    let mut args = args.into_iter();
    let mut confinement =
        Confinement { read: Vec::new(), write: Vec::new(), enforced: false, tcp: false };
    loop {
        let flag = args.next()?;
        match flag.to_str()? {
            READ_FLAG => confinement.read.push(args.next()?.into()),
            WRITE_FLAG => confinement.write.push(args.next()?.into()),
            ENFORCE_FLAG => confinement.enforced = true,
            TCP_FLAG => confinement.tcp = true,
            END_OF_FLAGS => return Some((confinement, args.collect())),
            _ => return None,
        }
    }
}

#[cfg(target_os = "linux")]
fn restrict_self(confinement: &Confinement) -> io::Result<()> {
    use super::landlock_rules;

    if confinement.enforced {
        landlock_rules::drop_capabilities()?;
    }
    landlock_rules::restrict_self(confinement)
}

#[cfg(not(target_os = "linux"))]
fn restrict_self(confinement: &Confinement) -> io::Result<()> {
    if confinement.enforced { Err(io::Error::other("this system has no Landlock")) } else { Ok(()) }
}

#[cfg(target_os = "linux")]
pub use super::landlock_rules::landlock_support;

/// Reports what Landlock can restrict on this system.
#[cfg(not(target_os = "linux"))]
pub fn landlock_support() -> LandlockSupport {
    LandlockSupport::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_parent_writes_is_what_the_helper_reads() {
        let mut confinement = Confinement::outside_home(Path::new("/home/owner"));
        confinement.allow_read("/home/owner/ca.pem");
        confinement.allow_write("/home/owner/.angelia/agents");
        let launch = ProcessLaunch {
            program: "/proc/self/exe".into(),
            args: vec!["--read".into(), "x".into()],
            cwd: "/".into(),
            env: std::collections::BTreeMap::new(),
            mark: "home:owner:agent".parse().unwrap(),
            ledger: PathBuf::new(),
        };
        let confined = confinement.clone().apply(Path::new("/bin/angelia"), launch);
        assert_eq!(confined.program, Path::new("/bin/angelia"));
        assert_eq!(confined.args[..2], [hidden_subcommand::NAME, JOB]);
        let (parsed, command) = parse(confined.args.into_iter().skip(2)).unwrap();
        let own = std::env::current_exe().unwrap().canonicalize().unwrap();
        confinement.allow_read(own.parent().unwrap());
        assert_eq!(parsed, confinement);
        assert_eq!(command, ["/proc/self/exe", "--read", "x"]);
        assert!(parse(["--other".into()]).is_none());
    }

    #[test]
    fn a_system_folder_with_the_home_in_it_is_not_open() {
        let confinement = Confinement::outside_home(Path::new("/opt/angelia"));
        assert!(!confinement.read.contains(&PathBuf::from("/opt")));
        assert!(confinement.read.contains(&PathBuf::from("/usr")));
    }
}

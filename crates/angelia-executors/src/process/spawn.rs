//! Starts a child with a cleared environment, its own process group, three pipes and the mark.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fmt, io,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use rustix::{
    fs::{Access, access},
    io::Errno,
};
use tokio::{process::Command, time::sleep};

use super::{child::Child, mark::ProcessMark, stderr::LineListener};

/// How often to retry an executable that is being replaced (`ETXTBSY`); about 1 s in total.
const MAX_BUSY_TRIES: u32 = 7;
const INITIAL_BUSY_DELAY: Duration = Duration::from_millis(8);

/// The complete description of a child to start. Nothing else is inherited.
#[derive(Clone)]
pub struct ProcessLaunch {
    /// An absolute path, as found by the probe.
    pub program: PathBuf,
    pub args: Vec<OsString>,
    pub cwd: PathBuf,
    /// The whole environment; see
    /// [`environment::build_environment`](super::environment::build_environment).
    pub env: BTreeMap<OsString, OsString>,
    pub mark: ProcessMark,
    /// The directory of the pid and start-time ledger, on systems that need one (macOS).
    pub ledger: PathBuf,
}

/// Omits possible secrets: the values of variables, and the arguments, which may contain prompts.
impl fmt::Debug for ProcessLaunch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessLaunch")
            .field("program", &self.program)
            .field("args", &self.args.len())
            .field("cwd", &self.cwd)
            .field("env", &self.env.keys())
            .field("mark", &self.mark)
            .finish_non_exhaustive()
    }
}

/// Why a child could not be started, with advice on what to do.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    #[error("the program {} does not exist; install it, or set `binary` to its full path", .0.display())]
    NotFound(PathBuf),
    #[error("{} exists, but the program that runs it (its `#!` line or its loader) does not; reinstall it for this system", .0.display())]
    NoInterpreter(PathBuf),
    #[error("{} may not be executed; check its permissions (`chmod +x`) and the mount options of its folder", .0.display())]
    NotExecutable(PathBuf),
    #[error("{} is not a program for this system; reinstall it for this architecture", .0.display())]
    NotAProgram(PathBuf),
    #[error("{} is being replaced by an update; try again when that has finished", .0.display())]
    Busy(PathBuf),
    #[error("the working directory {} does not exist; create it, or set `cwd` to one that does", .0.display())]
    NoCwd(PathBuf),
    #[error("the working directory {} is not a directory; set `cwd` to one", .0.display())]
    CwdNotDirectory(PathBuf),
    #[error("the working directory {} cannot be read; check its permissions, or set another `cwd`", .0.display())]
    CwdUnreadable(PathBuf),
    #[error("the arguments and environment of {} are too long for the system; shorten `env`, `env_pass` or the prompt file", .0.display())]
    TooLong(PathBuf),
    #[error("{} could not be started: the system has no more processes or memory to give; close something, or raise `ulimit -u`", .0.display())]
    OutOfProcesses(PathBuf),
    #[error("{} could not be started: too many open files; raise `ulimit -n`, or lower `sessions.max_live`", .0.display())]
    OutOfFiles(PathBuf),
    #[error("{} could not be started: {source}; run it by hand in {} to see more", program.display(), cwd.display())]
    Other { program: PathBuf, cwd: PathBuf, source: io::Error },
}

/// Starts a child. It is supervised from the start: dropping it kills its group.
pub async fn spawn(launch: &ProcessLaunch) -> Result<Child, SpawnError> {
    spawn_heard(launch, || None).await
}

/// Like [`spawn`], but passes each line of the child's stderr to the listener.
pub async fn spawn_heard(
    launch: &ProcessLaunch,
    listener: impl Fn() -> Option<LineListener>,
) -> Result<Child, SpawnError> {
    check_cwd(&launch.cwd)?;
    let mut pause = INITIAL_BUSY_DELAY;
    let mut tries = 0;
    loop {
        match spawn_once(launch, listener()) {
            Ok(child) => return Ok(child),
            Err(error) => {
                tries += 1;
                if !is_busy(&error) || tries == MAX_BUSY_TRIES {
                    return Err(classify_error(launch, error));
                }
            }
        }
        sleep(pause).await;
        pause *= 2;
    }
}

fn spawn_once(launch: &ProcessLaunch, listener: Option<LineListener>) -> io::Result<Child> {
    // Register for SIGCHLD before the child exists, so that its exit cannot be missed.
    let deaths = Child::watch_sigchld()?;
    #[expect(clippy::disallowed_methods, reason = "this is the one home of child processes")]
    let mut command = Command::new(&launch.program);
    let (mark_name, mark_value) = launch.mark.env_variable();
    let child = command
        .args(&launch.args)
        .current_dir(&launch.cwd)
        .env_clear()
        .envs(&launch.env)
        // The sweep depends on the mark, so set it whatever the caller's environment contains.
        .env(mark_name, mark_value)
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    Child::supervise(child, deaths, launch, listener)
}

/// Checks the working directory before the start, because a failed spawn reports "no such file" for
/// both the program and the directory.
fn check_cwd(cwd: &Path) -> Result<(), SpawnError> {
    match cwd.metadata() {
        Ok(found) if !found.is_dir() => Err(SpawnError::CwdNotDirectory(cwd.to_owned())),
        Ok(_) if access(cwd, Access::READ_OK | Access::EXEC_OK).is_ok() => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(SpawnError::NoCwd(cwd.to_owned()))
        }
        _ => Err(SpawnError::CwdUnreadable(cwd.to_owned())),
    }
}

fn is_busy(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::TXTBSY)
}

fn classify_error(launch: &ProcessLaunch, source: io::Error) -> SpawnError {
    let program = launch.program.clone();
    match Errno::from_io_error(&source) {
        Some(Errno::NOENT) if program.exists() => SpawnError::NoInterpreter(program),
        Some(Errno::NOENT | Errno::NOTDIR) => SpawnError::NotFound(program),
        Some(Errno::ACCESS | Errno::PERM | Errno::ISDIR) => SpawnError::NotExecutable(program),
        Some(Errno::NOEXEC) => SpawnError::NotAProgram(program),
        Some(Errno::TXTBSY) => SpawnError::Busy(program),
        Some(Errno::TOOBIG) => SpawnError::TooLong(program),
        Some(Errno::AGAIN | Errno::NOMEM) => SpawnError::OutOfProcesses(program),
        Some(Errno::MFILE | Errno::NFILE) => SpawnError::OutOfFiles(program),
        _ => SpawnError::Other { program, cwd: launch.cwd.clone(), source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch() -> ProcessLaunch {
        ProcessLaunch {
            program: "/bin/sh".into(),
            args: Vec::new(),
            cwd: "/".into(),
            env: BTreeMap::from([("TOKEN".into(), "sk-secret".into())]),
            mark: "home:owner:agent".parse().unwrap(),
            ledger: PathBuf::new(),
        }
    }

    #[test]
    fn every_refusal_of_the_system_has_words() {
        let table = [
            (Errno::NOENT, "NoInterpreter"),
            (Errno::ACCESS, "NotExecutable"),
            (Errno::NOEXEC, "NotAProgram"),
            (Errno::TXTBSY, "Busy"),
            (Errno::TOOBIG, "TooLong"),
            (Errno::AGAIN, "OutOfProcesses"),
            (Errno::NOMEM, "OutOfProcesses"),
            (Errno::MFILE, "OutOfFiles"),
            (Errno::IO, "Other"),
        ];
        for (errno, expected) in table {
            let error = classify_error(&launch(), errno.into());
            assert!(format!("{error:?}").starts_with(expected), "{errno:?} became {error:?}");
            let message = error.to_string();
            assert!(message.contains("/bin/sh") && message.contains("; "), "{message}");
        }
    }

    #[test]
    fn secrets_are_not_printed() {
        let launch = ProcessLaunch { args: vec!["--prompt=sk-secret".into()], ..launch() };
        let printed = format!("{launch:?}");
        assert!(printed.contains("TOKEN"), "{printed}");
        assert!(!printed.contains("sk-secret"), "{printed}");
    }
}

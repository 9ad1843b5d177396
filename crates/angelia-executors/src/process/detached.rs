//! Starts a daemon that outlives the command that starts it. The daemon has no terminal and carries
//! no agent's mark. When it is ready, it prints one word to stdout.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Read as _},
    path::Path,
    process::{ExitStatus, Stdio},
};

use super::mark::{MARK_VARIABLE, RELEASED_MARK};

/// The result of starting a daemon.
#[derive(Debug)]
pub enum DaemonStart {
    /// The daemon has printed this word and keeps running.
    Ready(String),
    Exited(ExitStatus),
}

/// Starts a program in this environment with its stderr redirected to `log`, and waits until it
/// prints one word to stdout and closes it. Blocks until then, or until the program exits.
#[expect(clippy::disallowed_methods, reason = "this is one of the places where processes are born")]
pub fn start_daemon<'a>(
    program: &Path,
    args: &[OsString],
    environment: impl IntoIterator<Item = (&'a OsStr, &'a OsStr)>,
    log: File,
) -> io::Result<DaemonStart> {
    let mut child = std::process::Command::new(program)
        .args(args)
        .env_clear()
        .envs(environment)
        .env(MARK_VARIABLE, RELEASED_MARK)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()?;
    let mut said = String::new();
    if let Some(mut stdout) = child.stdout.take() {
        stdout.read_to_string(&mut said)?;
    }
    if said.is_empty() {
        return child.wait().map(DaemonStart::Exited);
    }
    Ok(DaemonStart::Ready(said.trim().to_owned()))
}

/// Leaves the terminal and the process group of the command that started us. Called by the daemon.
pub fn detach_from_terminal() {
    // Fails for a group leader, which is not in the command's group anyway.
    let _leader = rustix::process::setsid();
}

/// Prints the word and closes stdout. Called by the daemon.
pub fn report_ready(word: &str) -> io::Result<()> {
    use std::io::Write as _;
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{word}")?;
    stdout.flush()?;
    let nowhere = File::options().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&nowhere)?;
    Ok(())
}

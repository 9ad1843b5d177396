//! A daemon that outlives the command that starts it: no terminal, no mark, and one word back
//! when it is ready.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read as _},
    path::Path,
    process::{ExitStatus, Stdio},
};

use super::mark::{RELEASED, VARIABLE};

/// What became of a start.
#[derive(Debug)]
pub enum Started {
    /// It has said this, and goes on.
    Says(String),
    Ended(ExitStatus),
}

/// Starts a program with its errors going to `log`, and waits for what it says on standard output:
/// it says one word and closes it. Blocks until then, or until it has ended.
#[expect(clippy::disallowed_methods, reason = "this is one of the places where processes are born")]
pub fn start(program: &Path, args: &[OsString], log: File) -> io::Result<Started> {
    let mut child = std::process::Command::new(program)
        .args(args)
        .env(VARIABLE, RELEASED)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()?;
    let mut said = String::new();
    if let Some(mut stdout) = child.stdout.take() {
        stdout.read_to_string(&mut said)?;
    }
    if said.is_empty() {
        return child.wait().map(Started::Ended);
    }
    Ok(Started::Says(said.trim().to_owned()))
}

/// For the daemon itself: leaves the terminal and the group of whoever started it.
pub fn leave_the_terminal() {
    // Fails for a group leader, who has nobody to leave.
    let _leader = rustix::process::setsid();
}

/// For the daemon itself: the word is said, and standard output closed.
pub fn say_ready(word: &str) -> io::Result<()> {
    use std::io::Write as _;
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{word}")?;
    stdout.flush()?;
    let nowhere = File::options().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&nowhere)?;
    Ok(())
}

//! A parent for the commands that we start for an agent: our own program, which carries the mark and
//! stays until the command has ended.
//!
//! A process that asks something of us is an agent's if one of its ancestors has a mark
//! (`docs/design/0014-local-identities.md`). A command of an agent's own process has that process
//! above it. A command that we start has only us, and it can drop the mark together with the process
//! that carries it (`exec env -u ANGELIA_AGENT …`), so that nothing would tell it from the owner's own.

use std::{
    ffi::OsString,
    io::{self, Write as _},
    os::unix::process::ExitStatusExt as _,
    path::Path,
    process::{ExitCode, ExitStatus},
};

use rustix::process::{Signal, getpid, kill_process};

use super::{hidden_subcommand, spawn::ProcessLaunch};

/// The job that runs a program below its own process.
pub(super) const JOB: &str = "attend";

/// The exit code of a shell that finds a program and cannot execute it.
pub(super) const CANNOT_EXECUTE: u8 = 126;

/// Added to the number of the signal that ended a program, as shells do.
const SIGNAL_EXIT_BASE: i32 = 128;

/// Returns the launch of the same command below `helper`, our own program.
pub fn attend(helper: &Path, launch: ProcessLaunch) -> ProcessLaunch {
    let mut args: Vec<OsString> = vec![hidden_subcommand::NAME.into(), JOB.into()];
    args.push(launch.program.into());
    args.extend(launch.args);
    ProcessLaunch { program: helper.to_owned(), args, ..launch }
}

/// The main function of the job; `args` are the program and its arguments. Returns only on failure.
pub(super) fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let command: Vec<OsString> = args.into_iter().collect();
    let problem = run_and_exit(&command);
    // Nothing can be done if stderr is closed.
    let _closed = writeln!(io::stderr(), "angelia {JOB}: {problem}");
    CANNOT_EXECUTE.into()
}

/// Runs a program below this process and ends like it. Returns why it could not be started.
#[expect(clippy::disallowed_methods, reason = "this is one of the places where processes are born")]
fn run_and_exit(command: &[OsString]) -> io::Error {
    let Some((program, args)) = command.split_first() else {
        return io::Error::other("no program is named");
    };
    // In the same group, so that a signal to the group reaches both.
    match std::process::Command::new(program).args(args).status() {
        Ok(status) => end_like(status),
        Err(error) => error,
    }
}

fn end_like(status: ExitStatus) -> ! {
    let signal = status.signal();
    if let Some(signal) = signal.and_then(Signal::from_named_raw) {
        // The starter of this process sees the same end. A signal that does not end this process is
        // told by the exit code.
        let _not_ended = kill_process(getpid(), signal);
    }
    let code = status.code().or(signal.map(|signal| SIGNAL_EXIT_BASE + signal));
    std::process::exit(code.unwrap_or(SIGNAL_EXIT_BASE))
}

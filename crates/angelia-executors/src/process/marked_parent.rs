//! A parent process for the commands that we start for an agent: our own program, which carries the
//! mark and stays until the command has ended.
//!
//! We treat a process that makes a request as an agent's if one of its ancestors has a mark
//! (`docs/design/0014-local-identities.md`). A command that an agent starts itself has the agent as
//! an ancestor. A command that we start has only us, and it can drop the mark by replacing its own
//! process (`exec env -u ANGELIA_AGENT …`). Nothing would then distinguish it from the owner's own
//! commands.

use std::{
    ffi::OsString,
    io::{self, Write as _},
    os::unix::process::ExitStatusExt as _,
    path::Path,
    process::{ExitCode, ExitStatus},
};

use rustix::process::{Signal, getpid, kill_process};

use super::{hidden_subcommand, spawn::ProcessLaunch};

/// The job that runs a program as a child of its own process.
pub(super) const JOB: &str = "attend";

/// The exit code with which a shell reports a program that it found but could not execute.
pub(super) const CANNOT_EXECUTE: u8 = 126;

/// Added to the number of the signal that ended a program, as in shells.
const SIGNAL_EXIT_BASE: i32 = 128;

/// Returns a launch of the same command as a child of `helper`, our own program.
pub fn attend(helper: &Path, launch: ProcessLaunch) -> ProcessLaunch {
    let mut args: Vec<OsString> = vec![hidden_subcommand::NAME.into(), JOB.into()];
    args.push(launch.program.into());
    args.extend(launch.args);
    ProcessLaunch { program: helper.to_owned(), args, ..launch }
}

/// Runs the job. `args` are the program and its arguments. Returns only on failure.
pub(super) fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let command: Vec<OsString> = args.into_iter().collect();
    let problem = run_and_exit(&command);
    // If stderr is closed, there is no way to report the problem.
    let _closed = writeln!(io::stderr(), "angelia {JOB}: {problem}");
    CANNOT_EXECUTE.into()
}

/// Runs a program as a child and ends the way it ended. Returns only if it could not be started.
#[expect(clippy::disallowed_methods, reason = "this is one of the places where processes are born")]
fn run_and_exit(command: &[OsString]) -> io::Error {
    let Some((program, args)) = command.split_first() else {
        return io::Error::other("no program is named");
    };
    // The child stays in our process group, so that a signal to the group reaches both.
    match std::process::Command::new(program).args(args).status() {
        Ok(status) => end_like(status),
        Err(error) => error,
    }
}

fn end_like(status: ExitStatus) -> ! {
    let signal = status.signal();
    if let Some(signal) = signal.and_then(Signal::from_named_raw) {
        // Whoever started this process then sees the same end. If the signal does not end this
        // process, the exit code reports it.
        let _not_ended = kill_process(getpid(), signal);
    }
    let code = status.code().or(signal.map(|signal| SIGNAL_EXIT_BASE + signal));
    std::process::exit(code.unwrap_or(SIGNAL_EXIT_BASE))
}

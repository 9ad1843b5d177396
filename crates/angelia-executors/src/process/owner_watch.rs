//! A watcher process that outlives its owner (this process) just long enough to end the owner's
//! agents and everything they started, in case the owner was killed and could not do so itself.
//!
//! The watcher blocks on a pipe whose other end only the owner holds, so it wakes when the owner
//! dies for whatever reason. It finds the processes by their mark. A parent-death signal
//! (`PR_SET_PDEATHSIG`) would reach only the agent itself, not the shells and servers that its
//! tools have started.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, ExitCode, Stdio},
    thread,
    time::Duration,
};

use rustix::io::Errno;

use super::{
    hidden_subcommand,
    mark::{HomeId, MARK_VARIABLE, OwnerId, RELEASED_MARK},
    sweep,
};

/// The name of this job for [`hidden_subcommand`].
pub(super) const JOB: &str = "watch-owner";

/// How long the processes of a dead owner have to exit after SIGTERM.
const GRACE: Duration = Duration::from_millis(500);

/// The pause before the second sweep. A process that was being started when the owner died has no
/// mark until it has executed its program.
const SECOND_LOOK: Duration = Duration::from_secs(1);

/// The owner's handle to its watcher. Keep it while agents may run: dropping it ends them.
#[derive(Debug)]
pub struct OwnerWatch {
    watcher: Child,
    _pipe: ChildStdin,
}

impl OwnerWatch {
    /// Starts the watcher of this process. `program` is our own program.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is one of the places where processes are born"
    )]
    pub fn start(
        program: &Path,
        home: &HomeId,
        owner: &OwnerId,
        ledger: &Path,
    ) -> io::Result<Self> {
        let mut watcher = Command::new(program)
            .arg(hidden_subcommand::NAME)
            .arg(JOB)
            .args([home.as_str(), owner.as_str()])
            .arg(ledger)
            .current_dir("/")
            .env_clear()
            // If an agent started us, its end must not end the watcher before its work is done.
            .env(MARK_VARIABLE, RELEASED_MARK)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let pipe = watcher.stdin.take();
        let pipe = pipe.ok_or_else(|| io::Error::other("the watcher has no pipe"))?;
        // Usually never waited for, because the watcher outlives this process.
        Ok(Self { watcher, _pipe: pipe })
    }

    /// Ends the watcher. Called when no agent runs any more and this process is about to execute
    /// another program, which would not wait for the watcher.
    pub fn dismiss(mut self) {
        let _gone = self.watcher.kill();
        let _gone = self.watcher.wait();
    }
}

/// Runs the watcher process.
pub(super) fn main(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    // Leave the owner's process group, whose signals are not meant for the watcher.
    let _leader = rustix::process::setsid();
    let mut id = || args.next()?.into_string().ok();
    let home = id().and_then(|id| HomeId::new(&id).ok());
    let owner = id().and_then(|id| OwnerId::new(&id).ok());
    let (Some(home), Some(owner), Some(ledger)) = (home, owner, args.next()) else {
        return ExitCode::from(2);
    };
    wait_for_end_of_input();
    match sweep_owner(&home, &owner, &PathBuf::from(ledger)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_no_runtime) => ExitCode::FAILURE,
    }
}

/// Blocks until the other end of stdin is closed everywhere. Nobody writes to it.
fn wait_for_end_of_input() {
    let mut byte = [0; 1];
    loop {
        match rustix::io::read(rustix::stdio::stdin(), &mut byte) {
            Ok(1..) | Err(Errno::INTR) => {}
            Ok(0) | Err(_) => return,
        }
    }
}

fn sweep_owner(home: &HomeId, owner: &OwnerId, ledger: &Path) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    for pause in [Duration::ZERO, SECOND_LOOK] {
        thread::sleep(pause);
        let dead = owner.clone();
        let alive = move |found: &OwnerId| *found != dead;
        runtime.block_on(sweep::sweep_dead_owners(home, ledger, GRACE, alive));
    }
    Ok(())
}

//! The measured process: started under a profiling tool on request, and stopped with SIGTERM as a
//! user would stop it.

use std::{
    process::{Child, Command},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process};

/// The variable with a command under which our program runs, to profile it during a benchmark, for
/// example `perf record -o FILE --` or `valgrind --tool=callgrind`.
const PROFILER_VARIABLE: &str = "ANGELIA_BENCH_UNDER";

const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// Returns the command that starts our program at `program`, a path that only the benchmark knows
/// (`CARGO_BIN_EXE_angelia`).
#[expect(clippy::disallowed_methods, reason = "starting the program is what is measured")]
pub fn angelia_command(program: &str) -> Command {
    let under = std::env::var(PROFILER_VARIABLE).unwrap_or_default();
    let mut words = under.split_whitespace().chain([program]);
    let mut command = Command::new(words.next().unwrap_or(program));
    command.args(words);
    command
}

/// A running process. Dropping it sends SIGTERM and waits, so that the process can stop its own
/// children.
#[derive(Debug)]
pub struct MeasuredProcess {
    pub child: Child,
}

impl MeasuredProcess {
    pub fn start(command: &mut Command) -> Result<Self> {
        let child = command.spawn();
        let child =
            child.with_context(|| format!("cannot start {}", command.get_program().display()))?;
        Ok(Self { child })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn has_ended(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }
}

impl Drop for MeasuredProcess {
    fn drop(&mut self) {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // The process may already have exited.
            let _gone = kill_process(pid, Signal::TERM);
        }
        let deadline = Instant::now() + STOP_TIMEOUT;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                let _gone = self.child.kill();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

//! A program that is measured: started under a tool if one is asked for, and ended as a person
//! would end it.

use std::{
    process::{Child, Command},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process};

/// The words in front of our program, for a look into it while it is measured, such as
/// `perf record -o FILE --` or `valgrind --tool=callgrind`.
const UNDER: &str = "ANGELIA_BENCH_UNDER";

const PATIENCE: Duration = Duration::from_secs(30);

/// Our program, whose path only the benchmark itself knows.
#[expect(clippy::disallowed_methods, reason = "starting the program is what is measured")]
pub fn ours(program: &str) -> Command {
    let under = std::env::var(UNDER).unwrap_or_default();
    let mut words = under.split_whitespace().chain([program]);
    let mut command = Command::new(words.next().unwrap_or(program));
    command.args(words);
    command
}

/// It runs; dropped, it is told to end, so that it ends what it has started.
#[derive(Debug)]
pub struct Running {
    pub child: Child,
}

impl Running {
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

impl Drop for Running {
    fn drop(&mut self) {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // It may have gone already.
            let _gone = kill_process(pid, Signal::TERM);
        }
        let deadline = Instant::now() + PATIENCE;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                let _gone = self.child.kill();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

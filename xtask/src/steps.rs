//! Runs a sequence of named steps, times them, and prints a summary at the end.

use std::{process::ExitCode, time::Instant};

use anyhow::Result;

#[derive(Default)]
pub(crate) struct Steps {
    done: Vec<Step>,
}

struct Step {
    name: &'static str,
    seconds: f64,
    failure: Option<String>,
}

impl Steps {
    /// Runs a step and returns whether it succeeded.
    pub(crate) fn run(&mut self, name: &'static str, step: impl FnOnce() -> Result<()>) -> bool {
        eprintln!("── {name}");
        let begin = Instant::now();
        let failure = step().err().map(|error| format!("{error:#}"));
        let seconds = begin.elapsed().as_secs_f64();
        match &failure {
            None => eprintln!("── {name}: ok, {seconds:.1} s\n"),
            Some(failure) => eprintln!("── {name}: FAILED, {seconds:.1} s: {failure}\n"),
        }
        let succeeded = failure.is_none();
        self.done.push(Step { name, seconds, failure });
        succeeded
    }

    /// Prints the summary and returns the exit code: a failure if any step failed.
    pub(crate) fn close(self) -> ExitCode {
        eprintln!("── summary");
        for step in &self.done {
            let outcome = step.failure.as_deref().unwrap_or("ok");
            eprintln!("{:>9} {:>7.1} s  {outcome}", step.name, step.seconds);
        }
        let total: f64 = self.done.iter().map(|step| step.seconds).sum();
        eprintln!("{:>9} {total:>7.1} s", "total");
        if self.done.iter().all(|step| step.failure.is_none()) {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

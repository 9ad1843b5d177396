//! Runs the programs that rules and hooks name. These are the owner's own programs and get the
//! owner's whole environment. Like every other child they have a time limit, and the processes that
//! they start do not outlive them.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
};

use angelia_core::{
    model::Failure,
    ports::{
        BoxFuture, CommandOutput, CommandProgram, CommandRunner, CommandSpec, CommandStartError,
        ProgramSpec, RunningProgram,
    },
};
use rustix::fs::{Access, access};

use super::{
    run_to_end::{ProcessOutput, run_with_input},
    running_program,
    spawn::{ProcessLaunch, SpawnError},
};
use crate::ExecutorHost;

/// The maximum length of an argument or variable. Linux allows 128 KiB, including the name.
const MAX_VALUE_BYTES: usize = 120_000;

/// Runs the owner's programs as children of this process.
#[derive(Clone, Debug)]
pub struct ShellCommands {
    host: ExecutorHost,
}

impl ShellCommands {
    pub fn new(host: ExecutorHost) -> Self {
        Self { host }
    }

    fn launch(&self, command: &CommandSpec) -> Result<ProcessLaunch, Failure> {
        let mut env: BTreeMap<OsString, OsString> = (*self.host.environment).clone();
        for (name, value) in &command.env {
            env.insert((*name).into(), sanitize_value(value).into());
        }
        let (program, args) = match &command.program {
            CommandProgram::Shell(line) => {
                let args = vec!["-c".into(), sanitize_value(line).into()];
                (PathBuf::from("/bin/sh"), args)
            }
            CommandProgram::File(path, args) => {
                let args = args.iter().map(|arg| sanitize_value(arg).into()).collect();
                (self.expand_home(path), args)
            }
        };
        let home = &self.host.user_home;
        Ok(ProcessLaunch {
            program,
            args,
            cwd: if home.is_dir() { home.clone() } else { "/".into() },
            env,
            mark: self.host.fresh_command_mark()?,
            ledger: self.host.ledger.clone(),
        })
    }

    fn command_output(&self, finished: ProcessOutput) -> CommandOutput {
        CommandOutput {
            ok: finished.succeeded(),
            timed_out: finished.timed_out,
            stderr: finished.stderr.tail(|text| self.host.redactor.redact(text)),
            stdout: finished.stdout,
        }
    }

    fn expand_home(&self, path: &str) -> PathBuf {
        expand_home(&self.host, path)
    }
}

impl CommandRunner for ShellCommands {
    fn run(&self, command: CommandSpec) -> BoxFuture<'_, Result<CommandOutput, CommandStartError>> {
        Box::pin(async move {
            let not_started = |error: Failure| CommandStartError::NotStarted(error.to_string());
            let launch = self.launch(&command).map_err(not_started)?;
            let input = command.input.as_deref().unwrap_or_default();
            match run_with_input(&launch, input, command.timeout).await {
                Ok(finished) => Ok(self.command_output(finished)),
                Err(SpawnError::NotFound(path)) => Err(CommandStartError::NotFound(path)),
                Err(error) => Err(CommandStartError::NotStarted(error.to_string())),
            }
        })
    }

    fn is_program(&self, path: &str) -> bool {
        is_program(&self.expand_home(path))
    }

    fn start(
        &self,
        program: ProgramSpec,
    ) -> BoxFuture<'_, Result<RunningProgram, CommandStartError>> {
        Box::pin(running_program::start(&self.host, program))
    }
}

/// Expands a leading `~/` to the owner's home.
pub(super) fn expand_home(host: &ExecutorHost, path: &str) -> PathBuf {
    match path.strip_prefix("~/") {
        Some(below) => host.user_home.join(below),
        None => PathBuf::from(path),
    }
}

fn is_program(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

/// Removes NUL bytes and truncates the text, so that it is valid as an argument or a variable.
fn sanitize_value(text: &str) -> String {
    let mut end = text.len().min(MAX_VALUE_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].replace('\0', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_cannot_carry_is_left_out() {
        assert_eq!(sanitize_value("a\0b"), "ab");
        let long = "ü".repeat(MAX_VALUE_BYTES);
        let cut = sanitize_value(&long);
        assert!(cut.len() <= MAX_VALUE_BYTES && long.starts_with(&cut));
        assert_eq!(sanitize_value("short"), "short");
    }
}

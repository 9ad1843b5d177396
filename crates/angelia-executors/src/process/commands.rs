//! Runs the programs that rules and hooks name. They are the owner's own programs and get the
//! owner's whole environment. Like every other child they have a time limit, and the processes
//! they start do not outlive them.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
};

use angelia_core::{
    model::Failure,
    ports::{BoxFuture, CommandFailed, CommandLine, Commands, Program, Ran},
};
use rustix::fs::{Access, access};

use super::{
    run_to_end::{Finished, run_with_input},
    spawn::{Launch, SpawnError},
};
use crate::Host;

/// The maximum length of an argument or variable; Linux limits it to 128 KiB including the name.
const LONGEST_VALUE: usize = 120_000;

/// Runs the owner's programs as children of this process.
#[derive(Clone, Debug)]
pub struct ShellCommands {
    host: Host,
}

impl ShellCommands {
    pub fn new(host: Host) -> Self {
        Self { host }
    }

    fn launch(&self, command: &CommandLine) -> Result<Launch, Failure> {
        let mut env: BTreeMap<OsString, OsString> = (*self.host.environment).clone();
        for (name, value) in &command.env {
            env.insert((*name).into(), carried(value).into());
        }
        let (program, args) = match &command.program {
            Program::Shell(line) => {
                let args = vec!["-c".into(), carried(line).into()];
                (PathBuf::from("/bin/sh"), args)
            }
            Program::File(path, args) => {
                let args = args.iter().map(|arg| carried(arg).into()).collect();
                (self.path(path), args)
            }
        };
        let home = &self.host.user_home;
        Ok(Launch {
            program,
            args,
            cwd: if home.is_dir() { home.clone() } else { "/".into() },
            env,
            mark: self.host.fresh_mark()?,
            ledger: self.host.ledger.clone(),
        })
    }

    fn ran(&self, finished: Finished) -> Ran {
        Ran {
            ok: finished.succeeded(),
            timed_out: finished.timed_out,
            stderr: finished.stderr.tail(|text| self.host.redactor.redact(text)),
            stdout: finished.stdout,
        }
    }

    fn path(&self, path: &str) -> PathBuf {
        match path.strip_prefix("~/") {
            Some(below) => self.host.user_home.join(below),
            None => PathBuf::from(path),
        }
    }
}

impl Commands for ShellCommands {
    fn run(&self, command: CommandLine) -> BoxFuture<'_, Result<Ran, CommandFailed>> {
        Box::pin(async move {
            let not_started = |error: Failure| CommandFailed::NotStarted(error.to_string());
            let launch = self.launch(&command).map_err(not_started)?;
            let input = command.input.as_deref().unwrap_or_default();
            match run_with_input(&launch, input, command.limit).await {
                Ok(finished) => Ok(self.ran(finished)),
                Err(SpawnError::NotFound(path)) => Err(CommandFailed::NotFound(path)),
                Err(error) => Err(CommandFailed::NotStarted(error.to_string())),
            }
        })
    }

    fn is_program(&self, path: &str) -> bool {
        is_program(&self.path(path))
    }
}

fn is_program(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

/// Removes NUL bytes and truncates the text, so that it is valid as an argument or a variable.
fn carried(text: &str) -> String {
    let mut end = text.len().min(LONGEST_VALUE);
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
        assert_eq!(carried("a\0b"), "ab");
        let long = "ü".repeat(LONGEST_VALUE);
        let cut = carried(&long);
        assert!(cut.len() <= LONGEST_VALUE && long.starts_with(&cut));
        assert_eq!(carried("short"), "short");
    }
}

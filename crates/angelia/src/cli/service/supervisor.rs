//! The program on this system that starts services: where its files are, and its commands.

use std::{fs, path::PathBuf};

use angelia_executors::process::system_tool::run_tool;

use super::{ServicePlan, launchd, systemd};
use crate::{
    cli::error::{CommandError, Exit},
    config::Environment,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SupervisorCall {
    /// Read the file, and start the service now and at every login.
    Enable,
    /// Stop the service, and no longer start it.
    Disable,
    /// Notice that the file has changed or is gone.
    Reload,
    /// Succeeds if the service is running.
    Check,
}

#[derive(Debug)]
pub(super) struct Supervisor {
    pub(super) file: PathBuf,
    kind: SupervisorKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SupervisorKind {
    Systemd,
    Launchd,
}

impl Supervisor {
    pub(super) fn of_this_system(environment: &Environment) -> Result<Self, CommandError> {
        let home = environment.home().ok_or_else(|| {
            CommandError::new(Exit::Config, "cannot find your home: HOME is not set")
        })?;
        let kind = if cfg!(target_os = "macos") {
            SupervisorKind::Launchd
        } else {
            SupervisorKind::Systemd
        };
        let file = match kind {
            SupervisorKind::Launchd => home.join(launchd::FILE),
            SupervisorKind::Systemd => {
                let config = environment.non_empty("XDG_CONFIG_HOME").map(PathBuf::from);
                let config = config.filter(|path| path.is_absolute());
                config.unwrap_or_else(|| home.join(".config")).join(systemd::FILE)
            }
        };
        Ok(Self { file, kind })
    }

    pub(super) fn file_text(&self, plan: &ServicePlan) -> String {
        match self.kind {
            SupervisorKind::Systemd => systemd::unit(plan),
            SupervisorKind::Launchd => launchd::plist(plan),
        }
    }

    /// Returns a note about this supervisor for the person.
    pub(super) fn note(&self) -> Option<&'static str> {
        match self.kind {
            SupervisorKind::Systemd => None,
            SupervisorKind::Launchd => {
                Some("angelia: launchd is supported, but has never been tried on a Mac")
            }
        }
    }

    pub(super) fn write(&self, text: &str) -> Result<(), CommandError> {
        let folder = self.file.parent().map_or(Ok(()), fs::create_dir_all);
        // Rename the file into place, so that the supervisor never reads half a file.
        let draft = self.file.with_extension("draft");
        let written = folder
            .and_then(|()| fs::write(&draft, text))
            .and_then(|()| fs::rename(&draft, &self.file));
        written.map_err(|error| {
            let message = format!("cannot write {}: {error}", self.file.display());
            CommandError::new(Exit::Failed, message)
        })
    }

    pub(super) fn remove(&self) -> Result<(), CommandError> {
        fs::remove_file(&self.file).map_err(|error| {
            let message = format!("cannot remove {}: {error}", self.file.display());
            CommandError::new(Exit::Failed, message)
        })
    }

    /// Calls the supervisor's own program. On failure, returns its output.
    pub(super) fn call(
        &self,
        environment: &Environment,
        call: SupervisorCall,
    ) -> Result<(), String> {
        for command in self.command_lines(call) {
            let (program, args) = command.split_first().ok_or("no command")?;
            let ended = run_tool(program, args, environment.iter());
            let ended = ended.map_err(|error| format!("{program}: {error}"))?;
            if !ended.status.success() {
                let words = String::from_utf8_lossy(&ended.stderr);
                let words = if words.trim().is_empty() {
                    String::from_utf8_lossy(&ended.stdout)
                } else {
                    words
                };
                let first = words.trim().lines().next().unwrap_or("it failed without a message");
                return Err(first.to_owned());
            }
        }
        Ok(())
    }

    /// Returns the commands of a call for a person to read.
    pub(super) fn commands(&self, call: SupervisorCall) -> String {
        let lines: Vec<_> = self.command_lines(call).iter().map(|line| line.join(" ")).collect();
        lines.join(" && ")
    }

    fn command_lines(&self, call: SupervisorCall) -> Vec<Vec<String>> {
        match self.kind {
            SupervisorKind::Systemd => systemd::commands(call),
            SupervisorKind::Launchd => launchd::commands(call, &self.file),
        }
    }
}

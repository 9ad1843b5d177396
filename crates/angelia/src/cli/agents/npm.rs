//! Runs npm and reads its output.

use std::{path::Path, sync::Arc, time::Duration};

use angelia_core::ports::{CommandOutput, CommandProgram, CommandRunner, CommandSpec};
use serde::Deserialize;

use crate::{
    assemble::App,
    cli::error::{CommandError, Exit},
    standalone_commands::standalone_commands,
};

/// Time limit for a query to the registry.
const QUESTION_LIMIT: Duration = Duration::from_mins(2);

/// Time limit for a download of several hundred megabytes over a slow connection.
const INSTALL_LIMIT: Duration = Duration::from_mins(30);

pub(super) struct Npm {
    program: Arc<str>,
    commands: Arc<dyn CommandRunner>,
}

/// A published version.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PublishedVersion {
    pub(super) version: String,
    /// The `sha512-…` checksum of the package's archive.
    pub(super) integrity: String,
}

impl Npm {
    /// Finds npm on `PATH`.
    pub(super) fn find(app: &App) -> Result<Self, CommandError> {
        let commands = standalone_commands(app, "agents")?;
        let path = app.environment.non_empty("PATH").unwrap_or_default();
        let places = std::env::split_paths(path).map(|folder| folder.join("npm"));
        let mut places = places.filter_map(|place| place.to_str().map(Arc::<str>::from));
        let program = places.find(|place| commands.is_program(place)).ok_or_else(|| {
            CommandError::new(Exit::Unavailable, "npm is not installed: no `npm` on the PATH")
                .with_hint("install Node.js, which contains it (https://nodejs.org), or install the agent as its vendor describes")
        })?;
        Ok(Self { program, commands })
    }

    /// Asks the registry for a given version, or for the newest one.
    pub(super) async fn published_version(
        &self,
        package: &str,
        version: Option<&str>,
    ) -> Result<PublishedVersion, CommandError> {
        let wanted = format!("{package}@{}", version.unwrap_or("latest"));
        let arguments = ["view", &wanted, "version", "dist.integrity", "--json"];
        let output = self.call(&arguments, QUESTION_LIMIT).await?;
        if output.ok && output.stdout.iter().all(u8::is_ascii_whitespace) {
            return Err(no_such_version(&wanted));
        }
        if !output.ok {
            return Err(explain(&wanted, &output));
        }
        read_published(&output.stdout).ok_or_else(|| {
            CommandError::new(Exit::Unavailable, format!("npm says nothing usable about {wanted}"))
                .with_hint(format!("try `npm view {wanted}`"))
        })
    }

    /// Installs an exact version into an empty folder, without running any package's scripts.
    pub(super) async fn install(
        &self,
        folder: &Path,
        package: &str,
        version: &str,
    ) -> Result<(), CommandError> {
        let wanted = format!("{package}@{version}");
        let folder = folder.to_string_lossy();
        let arguments = [
            "install",
            "--prefix",
            &folder,
            "--ignore-scripts",
            "--save-exact",
            "--no-audit",
            "--no-fund",
            "--no-update-notifier",
            "--include=optional",
            "--package-lock",
            &wanted,
        ];
        let output = self.call(&arguments, INSTALL_LIMIT).await?;
        if output.ok { Ok(()) } else { Err(explain(&wanted, &output)) }
    }

    async fn call(
        &self,
        arguments: &[&str],
        limit: Duration,
    ) -> Result<CommandOutput, CommandError> {
        let arguments = arguments.iter().map(|argument| Arc::from(*argument)).collect();
        let command = CommandSpec {
            program: CommandProgram::File(Arc::clone(&self.program), arguments),
            env: Vec::new(),
            input: None,
            timeout: limit,
        };
        let ran = self.commands.run(command).await;
        ran.map_err(|error| {
            CommandError::new(Exit::Unavailable, format!("npm cannot be started: {error}"))
        })
    }
}

fn read_published(stdout: &[u8]) -> Option<PublishedVersion> {
    #[derive(Deserialize)]
    struct Answer {
        version: String,
        #[serde(rename = "dist.integrity")]
        integrity: String,
    }
    let Answer { version, integrity } = serde_json::from_slice(stdout).ok()?;
    Some(PublishedVersion { version, integrity })
}

fn no_such_version(wanted: &str) -> CommandError {
    CommandError::new(Exit::Failed, format!("npm has no {wanted}"))
        .with_hint("leave out the version for the newest one")
}

/// Explains a failure of npm to the person.
fn explain(wanted: &str, output: &CommandOutput) -> CommandError {
    let said = format!("{}\n{}", String::from_utf8_lossy(&output.stdout), output.stderr);
    let has = |codes: &[&str]| codes.iter().any(|code| said.contains(code));
    let new = |exit, message: String, hint: &str| CommandError::new(exit, message).with_hint(hint);
    if output.timed_out {
        return new(Exit::TryLater, format!("npm did not finish {wanted}"), "try again later");
    }
    if has(&["E404", "ETARGET", "No match"]) {
        return no_such_version(wanted);
    }
    if has(&["EINTEGRITY"]) {
        let message =
            format!("what was downloaded for {wanted} is not what its publisher signed off");
        return new(
            Exit::Failed,
            message,
            "do not use it; check `npm config get registry` and your proxy",
        );
    }
    if has(&["ENOSPC", "EDQUOT"]) {
        let message = format!("there is no room on the disk for {wanted}");
        return new(Exit::Failed, message, "free some space; nothing was left behind");
    }
    if has(&["ENOTFOUND", "ECONNREFUSED", "ETIMEDOUT", "ECONNRESET", "EAI_AGAIN", "network"]) {
        let message = format!("npm's registry cannot be reached for {wanted}");
        return new(
            Exit::TryLater,
            message,
            "check the network, the proxy and `npm config get registry`",
        );
    }
    let first = output.stderr.lines().find(|line| line.contains("npm error"));
    let first = first.unwrap_or("it gave no reason").trim_start_matches("npm error").trim();
    let message = format!("npm failed with {wanted}: {first}");
    new(Exit::Failed, message, "`npm install` by hand may say more")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(stderr: &str) -> (Exit, String) {
        let output = CommandOutput {
            ok: false,
            timed_out: false,
            stdout: Vec::new(),
            stderr: stderr.to_owned(),
        };
        let error = explain("@x/agent@1.2.3", &output);
        assert!(error.hint.is_some(), "{error}");
        (error.exit, error.message)
    }

    #[test]
    fn a_failure_of_npm_is_told_in_words() {
        let table = [
            (
                "npm error code ETARGET\nnpm error notarget No matching version",
                Exit::Failed,
                "has no",
            ),
            ("npm error code E404", Exit::Failed, "has no"),
            ("npm error code EINTEGRITY", Exit::Failed, "not what its publisher"),
            ("npm error code ENOSPC", Exit::Failed, "no room"),
            ("npm error code ECONNREFUSED", Exit::TryLater, "cannot be reached"),
            ("npm error code EWHATEVER\n", Exit::Failed, "code EWHATEVER"),
        ];
        for (stderr, exit, words) in table {
            let (found, message) = explained(stderr);
            assert_eq!(found, exit, "{message}");
            assert!(message.contains(words), "{message}");
        }
    }

    #[test]
    fn the_answer_about_a_version_is_read() {
        let answer = br#"{"version": "2.1.197", "dist.integrity": "sha512-abc"}"#;
        assert_eq!(read_published(answer).unwrap().version, "2.1.197");
        assert_eq!(read_published(b"[]"), None);
    }
}

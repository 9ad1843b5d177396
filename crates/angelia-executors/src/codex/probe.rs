//! Determines whether Codex is installed, its version, and whether it is logged in.
//!
//! The program itself reports its version, which is cached until the file changes.
//! `codex login status` reports the login. If there is none, the app-server decides, because only
//! it knows whether the configured provider needs a login at all.

use std::{path::PathBuf, sync::Arc};

use angelia_core::{
    model::{Failure, FailureKind, SessionSpec},
    ports::{ExecutorHealth, InstalledAgent, LoginState},
};

use super::{failure::LOG_IN_HINT, launch, locate::PROGRAM};
use crate::{
    claude::{probe::run_program, version::ClaudeVersion},
    host::ExecutorHost,
    per_file_cache::PerFileCache,
};

/// The oldest version whose app-server has everything that we use.
const MIN_VERSION: &str = "0.125.0";

pub(super) const UPDATE_HINT: &str =
    "update it: `npm install -g @openai/codex@latest`, or with the package manager it came from";

const NOT_CODEX_HINT: &str = "correct the profile's `binary`, or the `codex` on your PATH";

/// An installed program that can be started.
#[derive(Clone, Debug)]
pub(super) struct CodexInstallation {
    pub(super) path: PathBuf,
    pub(super) version: Arc<str>,
}

#[derive(Debug, Default)]
pub(super) struct CodexProber {
    installations: PerFileCache<CodexInstallation>,
}

impl CodexProber {
    pub(super) async fn find_installation(
        &self,
        host: &ExecutorHost,
        spec: &SessionSpec,
    ) -> Result<Arc<CodexInstallation>, Failure> {
        let mark = host.fresh_mark()?;
        let environment = launch::environment(host, spec, &mark)?;
        let path = PROGRAM.locate(host, spec, &environment)?;
        let probe = async {
            let finished = run_program(host, &path, environment, &["--version"]).await?;
            let output = String::from_utf8_lossy(&finished.stdout).trim().to_owned();
            let version = check_version(&output, &path.display().to_string())?;
            Ok(CodexInstallation { path: path.clone(), version })
        };
        self.installations.get(&path, probe).await
    }
}

/// Extracts the version from the output of `--version`. Refuses a version that is too old.
fn check_version(output: &str, path: &str) -> Result<Arc<str>, Failure> {
    let unavailable = |message| Failure::new(FailureKind::Unavailable, message);
    // `codex-cli 0.166.0`. Other programs may print a version too.
    if !output.is_empty() && !output.to_ascii_lowercase().contains("codex") {
        let first = output.lines().next().unwrap_or_default();
        let message = format!("{path} is not Codex: its `--version` is `{first}`");
        return Err(unavailable(message).with_hint(NOT_CODEX_HINT));
    }
    let Some(version) = ClaudeVersion::find(output) else {
        let message = format!("{path} printed no version");
        return Err(unavailable(message).with_hint(PROGRAM.install_hint));
    };
    if Some(version) < ClaudeVersion::find(MIN_VERSION) {
        let message =
            format!("Codex {version} at {path} is too old: {MIN_VERSION} or newer is needed");
        return Err(unavailable(message).with_hint(UPDATE_HINT));
    }
    Ok(version.to_string().into())
}

/// Asks `codex login status`. Returns `Unknown` if the output says nothing about the login.
pub(super) async fn login_status(
    host: &ExecutorHost,
    spec: &SessionSpec,
    installation: &CodexInstallation,
) -> LoginState {
    let status = async {
        let mark = host.fresh_mark()?;
        let environment = launch::environment(host, spec, &mark)?;
        run_program(host, &installation.path, environment, &["login", "status"]).await
    };
    let Ok(finished) = status.await else {
        return LoginState::Unknown;
    };
    let mut output = String::from_utf8_lossy(&finished.stdout).into_owned();
    output.push_str(&finished.stderr.tail(|text| host.redactor.redact(text)));
    parse_login_status(finished.succeeded(), &output)
}

fn parse_login_status(succeeded: bool, output: &str) -> LoginState {
    if output.contains("Not logged in") {
        return LoginState::LoggedOut;
    }
    if !succeeded {
        return LoginState::Unknown;
    }
    let lane = if output.contains("ChatGPT") {
        Some("subscription")
    } else if output.contains("API key") {
        Some("api_key")
    } else {
        None
    };
    LoginState::LoggedIn { lane: lane.map(Into::into) }
}

/// Builds the report for `doctor` and for choosing an executor.
pub(super) fn health(installation: &CodexInstallation, login: LoginState) -> ExecutorHealth {
    ExecutorHealth {
        installation: Some(InstalledAgent {
            path: installation.path.clone(),
            version: Arc::clone(&installation.version),
        }),
        problem: (login == LoginState::LoggedOut).then(not_logged_in_failure),
        login,
    }
}

pub(super) fn not_logged_in_failure() -> Failure {
    Failure::new(FailureKind::Auth, "Codex is not logged in").with_hint(LOG_IN_HINT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_version_is_refused_with_a_way_out() {
        let version = |output| check_version(output, "/bin/codex");
        assert_eq!(&*version("codex-cli 0.166.0").unwrap(), "0.166.0");
        assert_eq!(&*version("codex-cli 0.125.0-alpha.1").unwrap(), "0.125.0");
        let old = version("codex-cli 0.124.9").unwrap_err();
        assert_eq!(old.kind, FailureKind::Unavailable);
        assert!(old.message.contains("0.124.9") && old.message.contains("0.125.0"));
        assert!(old.hint.unwrap().contains("npm install"));
        assert!(version("hello").is_err());
        let other = version("true (GNU coreutils) 9.1.2").unwrap_err();
        assert!(other.message.contains("is not Codex"), "{other}");
    }

    #[test]
    fn what_the_command_line_says_about_the_login() {
        let lane = |output| match parse_login_status(true, output) {
            LoginState::LoggedIn { lane } => lane,
            other => panic!("{other:?}"),
        };
        assert_eq!(lane("Logged in using ChatGPT").as_deref(), Some("subscription"));
        assert_eq!(lane("Logged in using an API key - sk-***").as_deref(), Some("api_key"));
        assert_eq!(lane("Logged in with something new"), None);
        assert_eq!(parse_login_status(false, "Not logged in\n"), LoginState::LoggedOut);
        assert_eq!(parse_login_status(false, "Error: no such command"), LoginState::Unknown);
    }
}

//! Asks the program for its version, options and login. Version and options are cached until the
//! program's file changes, so that turns do not wait for them.

use std::{collections::BTreeMap, ffi::OsString, path::Path, sync::Arc, time::Duration};

use angelia_core::{
    model::{Failure, FailureKind, SessionSpec},
    ports::{ExecutorHealth, InstalledAgent, LoginState},
};
use serde::Deserialize;

use super::{
    account,
    locate::CLAUDE_PROGRAM,
    program::ProgramInstallation,
    version::{ClaudeVersion, ProgramFeatures},
};
use crate::{
    host::ExecutorHost,
    per_file_cache::PerFileCache,
    process::{ProcessLaunch, run_to_end, run_to_end::ProcessOutput},
};

/// Part of the program's `--version` output: `2.1.197 (Claude Code)`.
const PRODUCT_NAME: &str = "Claude Code";

/// An option that only this program has, for builds whose `--version` prints something else.
const OWN_OPTION: &str = "--strict-mcp-config";

const PROBE_TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) const LOG_IN_HINT: &str = "run `claude` once in a terminal and log in";

/// Probes each program file once.
#[derive(Debug, Default)]
pub(crate) struct ClaudeProber {
    cache: PerFileCache<ProgramInstallation>,
}

impl ClaudeProber {
    pub(crate) async fn installation(
        &self,
        host: &ExecutorHost,
        spec: &SessionSpec,
    ) -> Result<Arc<ProgramInstallation>, Failure> {
        let mark = host.fresh_mark()?;
        let environment = host.child_environment(spec, &[], &mark)?;
        let path = CLAUDE_PROGRAM.locate(host, spec, &environment)?;
        self.cache.get(&path, probe_installation(host, &path, environment)).await
    }

    /// Returns the state of the installation, for `doctor` and for choosing an executor.
    pub(crate) async fn health(&self, host: &ExecutorHost, spec: &SessionSpec) -> ExecutorHealth {
        let (installation, login) =
            tokio::join!(self.installation(host, spec), probe_login(host, spec));
        match installation {
            Err(problem) => ExecutorHealth {
                installation: None,
                login: LoginState::Unknown,
                problem: Some(problem),
            },
            Ok(installation) => ExecutorHealth {
                installation: Some(InstalledAgent {
                    path: installation.path.clone(),
                    version: Arc::clone(&installation.version),
                }),
                problem: (login == LoginState::LoggedOut).then(|| {
                    Failure::new(FailureKind::Auth, "Claude Code is not logged in")
                        .with_hint(LOG_IN_HINT)
                }),
                login,
            },
        }
    }
}

async fn probe_installation(
    host: &ExecutorHost,
    path: &Path,
    environment: BTreeMap<OsString, OsString>,
) -> Result<ProgramInstallation, Failure> {
    let said = run_program(host, path, environment.clone(), &["--version"]).await?;
    let said = String::from_utf8_lossy(&said.stdout).trim().to_owned();
    let version = ClaudeVersion::find(&said);
    let names_itself = said.contains(PRODUCT_NAME);
    if let Some(version) = version
        && names_itself
        && version.is_too_old()
    {
        let message = format!("Claude Code {version} at {} is too old", path.display());
        return Err(Failure::new(FailureKind::Unavailable, message)
            .with_hint("update it: `claude update`, or with the package manager it came from"));
    }
    if said.is_empty() {
        let message = format!("{} printed no version", path.display());
        return Err(
            Failure::new(FailureKind::Unavailable, message).with_hint(CLAUDE_PROGRAM.install_hint)
        );
    }
    let known = ProgramFeatures::of(version).filter(|_| names_itself);
    let features = if let Some(features) = known {
        features
    } else {
        let help = run_program(host, path, environment, &["--help"]).await?;
        let help = String::from_utf8_lossy(&help.stdout);
        if !names_itself && !help.contains(OWN_OPTION) {
            return Err(other_program_failure(path, &said));
        }
        ProgramFeatures::from_help(version, &help)
    };
    Ok(ProgramInstallation {
        path: path.to_owned(),
        version: version.map_or_else(|| said.into(), |version| version.to_string().into()),
        features,
    })
}

fn other_program_failure(path: &Path, said: &str) -> Failure {
    let first = said.lines().next().unwrap_or_default();
    let message = format!("{} is not Claude Code: its `--version` is `{first}`", path.display());
    let hint = "correct the profile's `binary`, or the `claude` on your PATH";
    Failure::new(FailureKind::Unavailable, message).with_hint(hint)
}

/// The output of `auth status`. There are more fields, and older programs have fewer.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuthStatus {
    logged_in: bool,
    #[serde(default)]
    auth_method: Option<String>,
}

async fn probe_login(host: &ExecutorHost, spec: &SessionSpec) -> LoginState {
    let asked = async {
        let mark = host.fresh_mark()?;
        let environment = host.child_environment(spec, &[], &mark)?;
        let path = CLAUDE_PROGRAM.locate(host, spec, &environment)?;
        run_program(host, &path, environment, &["auth", "status"]).await
    };
    let Ok(finished) = asked.await else {
        return LoginState::Unknown;
    };
    // It exits with 1 if there is no login, so read its output and not its exit code.
    match serde_json::from_slice::<AuthStatus>(&finished.stdout) {
        Ok(status) if status.logged_in => LoginState::LoggedIn {
            lane: status
                .auth_method
                .as_deref()
                .and_then(account::lane_for_auth_method)
                .map(Into::into),
        },
        Ok(_) => LoginState::LoggedOut,
        Err(_) => LoginState::Unknown,
    }
}

pub(crate) async fn run_program(
    host: &ExecutorHost,
    path: &Path,
    environment: BTreeMap<OsString, OsString>,
    args: &[&str],
) -> Result<ProcessOutput, Failure> {
    let launch = ProcessLaunch {
        program: path.to_owned(),
        args: args.iter().map(OsString::from).collect(),
        cwd: "/".into(),
        env: environment,
        mark: host.fresh_mark()?,
        ledger: host.ledger.clone(),
    };
    let finished = run_to_end(&launch, PROBE_TIMEOUT)
        .await
        .map_err(|error| Failure::new(FailureKind::Unavailable, error.to_string()))?;
    if finished.timed_out {
        let said = format!("`{} {}` did not finish in time", path.display(), args.join(" "));
        return Err(Failure::new(FailureKind::Unavailable, said)
            .with_hint("run it by hand to see what it waits for"));
    }
    Ok(finished)
}

//! Asks the program for its version, its options and its login. Version and options are cached
//! until the program's file changes, so that a turn does not wait for them.

use std::{collections::BTreeMap, ffi::OsString, path::Path, sync::Arc, time::Duration};

use angelia_core::{
    model::{Failure, FailureKind, SessionSpec},
    ports::{Health, Installed, Login},
};
use serde::Deserialize;

use super::{
    account,
    locate::PROGRAM,
    program::Installation,
    version::{Features, Version},
};
use crate::{
    host::Host,
    once_per_file::OncePerFile,
    process::{Launch, run_to_end, run_to_end::Finished},
};

const LIMIT: Duration = Duration::from_secs(20);

pub(crate) const HOW_TO_LOG_IN: &str = "run `claude` once in a terminal and log in";

/// Probes each program file once.
#[derive(Debug, Default)]
pub(crate) struct Prober {
    known: OncePerFile<Installation>,
}

impl Prober {
    pub(crate) async fn installation(
        &self,
        host: &Host,
        spec: &SessionSpec,
    ) -> Result<Arc<Installation>, Failure> {
        let mark = host.fresh_mark()?;
        let environment = host.child_environment(spec, &[], &mark)?;
        let path = PROGRAM.locate(host, spec, &environment)?;
        self.known.get(&path, ask(host, &path, environment)).await
    }

    /// Returns the state of the installation, for `doctor` and for choosing an executor.
    pub(crate) async fn health(&self, host: &Host, spec: &SessionSpec) -> Health {
        let (installation, login) = tokio::join!(self.installation(host, spec), login(host, spec));
        match installation {
            Err(problem) => {
                Health { installed: None, login: Login::Unknown, problem: Some(problem) }
            }
            Ok(installation) => Health {
                installed: Some(Installed {
                    path: installation.path.clone(),
                    version: Arc::clone(&installation.version),
                }),
                problem: (login == Login::Out).then(|| {
                    Failure::new(FailureKind::Auth, "Claude Code is not logged in")
                        .with_hint(HOW_TO_LOG_IN)
                }),
                login,
            },
        }
    }
}

async fn ask(
    host: &Host,
    path: &Path,
    environment: BTreeMap<OsString, OsString>,
) -> Result<Installation, Failure> {
    let said = run(host, path, environment.clone(), &["--version"]).await?;
    let said = String::from_utf8_lossy(&said.stdout).trim().to_owned();
    let version = Version::find(&said);
    if let Some(version) = version
        && version.is_too_old()
    {
        let message = format!("Claude Code {version} at {} is too old", path.display());
        return Err(Failure::new(FailureKind::Unavailable, message)
            .with_hint("update it: `claude update`, or with the package manager it came from"));
    }
    if said.is_empty() {
        let message = format!("{} printed no version", path.display());
        return Err(
            Failure::new(FailureKind::Unavailable, message).with_hint(PROGRAM.how_to_install)
        );
    }
    let features = if let Some(features) = Features::of(version) {
        features
    } else {
        let help = run(host, path, environment, &["--help"]).await?;
        Features::from_help(version, &String::from_utf8_lossy(&help.stdout))
    };
    Ok(Installation {
        path: path.to_owned(),
        version: version.map_or_else(|| said.into(), |version| version.to_string().into()),
        features,
    })
}

/// The output of `auth status`; there are more fields, and older programs have fewer.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuthStatus {
    logged_in: bool,
    #[serde(default)]
    auth_method: Option<String>,
}

async fn login(host: &Host, spec: &SessionSpec) -> Login {
    let asked = async {
        let mark = host.fresh_mark()?;
        let environment = host.child_environment(spec, &[], &mark)?;
        let path = PROGRAM.locate(host, spec, &environment)?;
        run(host, &path, environment, &["auth", "status"]).await
    };
    let Ok(finished) = asked.await else {
        return Login::Unknown;
    };
    // It exits with 1 when nobody is logged in, so read its output and not its exit code.
    match serde_json::from_slice::<AuthStatus>(&finished.stdout) {
        Ok(status) if status.logged_in => Login::In {
            lane: status.auth_method.as_deref().and_then(account::lane_of_method).map(Into::into),
        },
        Ok(_) => Login::Out,
        Err(_) => Login::Unknown,
    }
}

pub(crate) async fn run(
    host: &Host,
    path: &Path,
    environment: BTreeMap<OsString, OsString>,
    args: &[&str],
) -> Result<Finished, Failure> {
    let launch = Launch {
        program: path.to_owned(),
        args: args.iter().map(OsString::from).collect(),
        cwd: "/".into(),
        env: environment,
        mark: host.fresh_mark()?,
        ledger: host.ledger.clone(),
    };
    let finished = run_to_end(&launch, LIMIT)
        .await
        .map_err(|error| Failure::new(FailureKind::Unavailable, error.to_string()))?;
    if finished.timed_out {
        let said = format!("`{} {}` did not finish in time", path.display(), args.join(" "));
        return Err(Failure::new(FailureKind::Unavailable, said)
            .with_hint("run it by hand to see what it waits for"));
    }
    Ok(finished)
}

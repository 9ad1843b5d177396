//! Finds out whether Codex is installed, which version it is, and whether it is logged in.
//!
//! The program itself reports its version, which is cached until the file changes. `codex login
//! status` reports the login; if it denies one, the app-server decides, because only the app-server
//! knows whether the configured provider needs a login at all.

use std::{path::PathBuf, sync::Arc};

use angelia_core::{
    model::{Failure, FailureKind, SessionSpec},
    ports::{Health, Installed, Login},
};

use super::{launch, locate::PROGRAM};
use crate::{
    claude::{probe::run, version::Version},
    host::Host,
    once_per_file::OncePerFile,
};

/// The oldest version whose app-server has everything that is used here.
const OLDEST: &str = "0.125.0";

pub(super) const HOW_TO_UPDATE: &str =
    "update it: `npm install -g @openai/codex@latest`, or with the package manager it came from";

pub(super) const HOW_TO_LOG_IN: &str = "run `codex login` once in a terminal";

/// An installed program that can be started.
#[derive(Clone, Debug)]
pub(super) struct Installation {
    pub(super) path: PathBuf,
    pub(super) version: Arc<str>,
}

#[derive(Debug, Default)]
pub(super) struct Prober {
    known: OncePerFile<Installation>,
}

impl Prober {
    pub(super) async fn installation(
        &self,
        host: &Host,
        spec: &SessionSpec,
    ) -> Result<Arc<Installation>, Failure> {
        let mark = host.fresh_mark()?;
        let environment = launch::environment(host, spec, &mark)?;
        let path = PROGRAM.locate(host, spec, &environment)?;
        let ask = async {
            let said = run(host, &path, environment, &["--version"]).await?;
            let said = String::from_utf8_lossy(&said.stdout).trim().to_owned();
            let version = checked(&said, &path.display().to_string())?;
            Ok(Installation { path: path.clone(), version })
        };
        self.known.get(&path, ask).await
    }
}

/// Extracts the version from the output of `--version`; refuses a version that is too old.
fn checked(said: &str, path: &str) -> Result<Arc<str>, Failure> {
    let unavailable = |message| Failure::new(FailureKind::Unavailable, message);
    let Some(version) = Version::find(said) else {
        let message = format!("{path} does not say its version");
        return Err(unavailable(message).with_hint(PROGRAM.how_to_install));
    };
    if Some(version) < Version::find(OLDEST) {
        let message = format!("Codex {version} at {path} is too old: {OLDEST} or newer is needed");
        return Err(unavailable(message).with_hint(HOW_TO_UPDATE));
    }
    Ok(version.to_string().into())
}

/// Asks `codex login status`. Returns `Unknown` if the output says nothing about the login.
pub(super) async fn login_status(
    host: &Host,
    spec: &SessionSpec,
    installation: &Installation,
) -> Login {
    let asked = async {
        let mark = host.fresh_mark()?;
        let environment = launch::environment(host, spec, &mark)?;
        run(host, &installation.path, environment, &["login", "status"]).await
    };
    let Ok(finished) = asked.await else {
        return Login::Unknown;
    };
    let mut said = String::from_utf8_lossy(&finished.stdout).into_owned();
    said.push_str(&finished.stderr.tail(|text| host.redactor.redact(text)));
    of_status(finished.succeeded(), &said)
}

fn of_status(succeeded: bool, said: &str) -> Login {
    if said.contains("Not logged in") {
        return Login::Out;
    }
    if !succeeded {
        return Login::Unknown;
    }
    let lane = if said.contains("ChatGPT") {
        Some("subscription")
    } else if said.contains("API key") {
        Some("api_key")
    } else {
        None
    };
    Login::In { lane: lane.map(Into::into) }
}

/// Builds the report for `doctor` and for the choice of an executor.
pub(super) fn health(installation: &Installation, login: Login) -> Health {
    Health {
        installed: Some(Installed {
            path: installation.path.clone(),
            version: Arc::clone(&installation.version),
        }),
        problem: (login == Login::Out).then(not_logged_in),
        login,
    }
}

pub(super) fn not_logged_in() -> Failure {
    Failure::new(FailureKind::Auth, "Codex is not logged in").with_hint(HOW_TO_LOG_IN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_version_is_refused_with_a_way_out() {
        let version = |said| checked(said, "/bin/codex");
        assert_eq!(&*version("codex-cli 0.166.0").unwrap(), "0.166.0");
        assert_eq!(&*version("codex-cli 0.125.0-alpha.1").unwrap(), "0.125.0");
        let old = version("codex-cli 0.124.9").unwrap_err();
        assert_eq!(old.kind, FailureKind::Unavailable);
        assert!(old.message.contains("0.124.9") && old.message.contains("0.125.0"));
        assert!(old.hint.unwrap().contains("npm install"));
        assert!(version("hello").is_err());
    }

    #[test]
    fn what_the_command_line_says_about_the_login() {
        let lane = |said| match of_status(true, said) {
            Login::In { lane } => lane,
            other => panic!("{other:?}"),
        };
        assert_eq!(lane("Logged in using ChatGPT").as_deref(), Some("subscription"));
        assert_eq!(lane("Logged in using an API key - sk-***").as_deref(), Some("api_key"));
        assert_eq!(lane("Logged in with something new"), None);
        assert_eq!(of_status(false, "Not logged in\n"), Login::Out);
        assert_eq!(of_status(false, "Error: no such command"), Login::Unknown);
    }
}

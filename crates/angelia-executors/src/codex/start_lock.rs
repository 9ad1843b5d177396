//! Separates the starts of processes that would interfere if they started together.
//!
//! Codex refreshes an expired login when it starts, using a token that the vendor accepts only
//! once. Processes that start together would all send the same token, and all but the first would
//! find the owner logged out. In a new folder, they would all create the same databases, and all
//! but the first would fail. A file lock prevents this, even across several Angelia processes.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use super::sealed::LOGIN_FILE;
use crate::host::ExecutorHost;

/// A login that expires within this time is refreshed before use.
const EXPIRY_MARGIN: SignedDuration = SignedDuration::from_mins(10);

/// Codex refreshes a login that is older than eight days, regardless of its expiry. We refresh it
/// half a day earlier.
const MAX_AGE: SignedDuration = SignedDuration::from_hours(7 * 24 + 12);

/// The right to start a process alone, held until dropped.
#[derive(Debug)]
pub(super) struct StartLock {
    home: PathBuf,
    /// Closing the file releases the lock.
    _file: File,
}

impl StartLock {
    /// Waits until no other process holds the right to start alone. Returns `None` if processes may
    /// start together in this `CODEX_HOME`.
    pub(super) async fn acquire(host: &ExecutorHost, home: Option<PathBuf>) -> Option<Self> {
        let home = home.filter(|home| must_start_alone(home, host.clock.now()))?;
        let folder = host.agents_dir();
        let locked = tokio::task::spawn_blocking(move || {
            fs::create_dir_all(&folder)?;
            let path = folder.join("codex-start.lock");
            let file = File::options().create(true).truncate(false).write(true).open(path)?;
            file.lock()?;
            io::Result::Ok(file)
        });
        let file = match locked.await {
            Ok(Ok(file)) => file,
            Ok(Err(error)) => {
                tracing::warn!(%error, "cannot lock the start of Codex");
                return None;
            }
            Err(_stopped) => return None,
        };
        // The previous holder of the lock may have left nothing to do.
        must_start_alone(&home, host.clock.now()).then_some(Self { home, _file: file })
    }

    /// Reports whether the login still has to be refreshed.
    pub(super) fn is_login_due(&self, now: Timestamp) -> bool {
        is_due(&self.home.join(LOGIN_FILE), now)
    }
}

fn must_start_alone(home: &Path, now: Timestamp) -> bool {
    is_new(home) || is_due(&home.join(LOGIN_FILE), now)
}

/// Reports whether no Codex has created its databases here yet.
fn is_new(home: &Path) -> bool {
    let mut files = home.read_dir().into_iter().flatten().flatten();
    !files.any(|file| Path::new(&file.file_name()).extension().is_some_and(|end| end == "sqlite"))
}

#[derive(Deserialize)]
struct Login {
    tokens: Option<Tokens>,
    last_refresh: Option<Timestamp>,
}

#[derive(Deserialize)]
struct Tokens {
    access_token: String,
}

#[derive(Deserialize)]
struct Claims {
    exp: i64,
}

/// Reports whether Codex is about to refresh this login. API keys and unreadable logins are never
/// refreshed.
fn is_due(login: &Path, now: Timestamp) -> bool {
    let login = fs::read(login).ok().and_then(|text| serde_json::from_slice::<Login>(&text).ok());
    let Some(Login { tokens: Some(tokens), last_refresh }) = login else {
        return false;
    };
    let expires = expiry(&tokens.access_token);
    expires.is_some_and(|expires| expires.duration_since(now) < EXPIRY_MARGIN)
        || last_refresh.is_some_and(|last| now.duration_since(last) > MAX_AGE)
}

/// Returns the expiry time in a token. The token's signature does not matter here.
fn expiry(token: &str) -> Option<Timestamp> {
    let claims = token.split('.').nth(1)?;
    let claims = BASE64_URL_SAFE_NO_PAD.decode(claims).ok()?;
    let claims: Claims = serde_json::from_slice(&claims).ok()?;
    Timestamp::from_second(claims.exp).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_due_when_it_expires_soon_or_is_old() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("auth.json");
        let now = Timestamp::from_second(1_700_000_000).unwrap();
        let due = |text: String| {
            fs::write(&path, text).unwrap();
            is_due(&path, now)
        };
        let login = |expires_in: i64, age_hours: i64| {
            let claims = format!("{{\"exp\":{}}}", now.as_second() + expires_in);
            let claims = BASE64_URL_SAFE_NO_PAD.encode(claims);
            let last = now - SignedDuration::from_hours(age_hours);
            format!(
                r#"{{"tokens":{{"access_token":"x.{claims}.x","refresh_token":"r"}},"last_refresh":"{last}"}}"#
            )
        };
        assert!(due(login(-1, 1)));
        assert!(due(login(300, 1)));
        assert!(!due(login(3600, 1)));
        assert!(due(login(3600, 8 * 24)));
        assert!(!due(r#"{"OPENAI_API_KEY":"sk-x","tokens":null}"#.to_owned()));
        assert!(!due("not JSON".to_owned()));
        assert!(!is_due(&place.path().join("none"), now));
    }
}

//! The browsers that the owner is signed in with. A command on this machine gets a code, the page
//! exchanges the code for its own token, and only the hash of that token is stored
//! (`docs/design/0041-dashboard.md`).

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::Arc,
    time::Duration,
};

use angelia_core::{
    engine::{Engine, EngineError},
    model::BrowserRecord,
};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::{sync::OnceCell, time::Instant};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{HttpError, caller_limits::busy, keys::constant_time_eq};

/// How long a code is valid.
const CODE_LIFETIME: Duration = Duration::from_mins(2);

/// More codes than a person requests within their lifetime. The oldest is forgotten first.
const MAX_CODES: usize = 16;

/// After this many wrong codes within [`WRONG_CODE_PERIOD`], no code is accepted.
const MAX_WRONG_CODES: usize = 5;
const WRONG_CODE_PERIOD: Duration = Duration::from_mins(1);

/// How long a browser stays signed in after its last use.
const BROWSER_LIFETIME: SignedDuration = SignedDuration::from_hours(30 * 24);

/// The precision of a browser's recorded last use.
const USE_INTERVAL: SignedDuration = SignedDuration::from_mins(1);

/// The valid codes and the signed-in browsers.
pub struct BrowserLogins {
    engine: Engine,
    codes: Mutex<Codes>,
    /// Read from the store once; every later change is made here too.
    browsers: OnceCell<Mutex<Vec<BrowserRecord>>>,
    /// Cancelled when the browser with this id is signed out, which ends its streams.
    revocations: Mutex<HashMap<Uuid, CancellationToken>>,
}

#[derive(Default)]
struct Codes {
    valid: VecDeque<(Hash, Instant)>,
    wrong: VecDeque<Instant>,
}

type Hash = [u8; 32];

/// A code for the fragment of an address, and its lifetime.
#[derive(Clone, Debug)]
pub(super) struct LoginCode {
    pub(super) code: String,
    pub(super) lifetime: Duration,
}

/// A browser that has just signed in, and its token, which is not stored.
pub(super) struct NewBrowser {
    pub(super) token: String,
    pub(super) record: BrowserRecord,
}

impl BrowserLogins {
    pub fn new(engine: Engine) -> Self {
        Self {
            engine,
            codes: Mutex::default(),
            browsers: OnceCell::new(),
            revocations: Mutex::default(),
        }
    }

    /// Creates a code that can be used once.
    pub(super) fn make_code(&self) -> LoginCode {
        let code = hex::encode(&random_bytes()[..16]);
        let mut codes = self.codes.lock();
        if codes.valid.len() == MAX_CODES {
            codes.valid.pop_front();
        }
        codes.valid.push_back((hash(code.as_bytes()), Instant::now() + CODE_LIFETIME));
        LoginCode { code, lifetime: CODE_LIFETIME }
    }

    /// Uses up a code and signs in the browser with this name.
    pub(super) async fn sign_in(&self, code: &str, name: &str) -> Result<NewBrowser, HttpError> {
        if !self.take_code(code)? {
            return Err(HttpError::no_key("this code is not valid, or has been used")
                .with_hint("run `angelia dashboard` again: a code works once, for two minutes"));
        }
        let token = hex::encode(random_bytes());
        let now = self.engine.now();
        let record = BrowserRecord {
            id: Uuid::now_v7(),
            sha256: hash(token.as_bytes()),
            name: name.into(),
            created_at: now,
            used_at: now,
            expires_at: expiry(now),
        };
        self.remove_expired(now).await?;
        self.engine.add_browser(record.clone()).await?;
        self.browsers().await?.lock().push(record.clone());
        Ok(NewBrowser { token, record })
    }

    fn take_code(&self, offered: &str) -> Result<bool, HttpError> {
        let (offered, now) = (hash(offered.as_bytes()), Instant::now());
        let mut codes = self.codes.lock();
        codes.wrong.retain(|at| now.duration_since(*at) < WRONG_CODE_PERIOD);
        if codes.wrong.len() >= MAX_WRONG_CODES {
            let message = "too many wrong codes were tried".to_owned();
            return Err(busy(message, "wait a minute, then run `angelia dashboard` again"));
        }
        codes.valid.retain(|(_, until)| *until > now);
        let found = codes.valid.iter().position(|(code, _)| constant_time_eq(code, &offered));
        let Some(index) = found else {
            codes.wrong.push_back(now);
            return Ok(false);
        };
        codes.valid.remove(index);
        Ok(true)
    }

    /// Returns the signed-in browser with this token.
    pub(super) async fn find(&self, token: &[u8]) -> Option<BrowserRecord> {
        // Our tokens have 64 digits, so other keys need no lookup.
        if token.len() != 64 {
            return None;
        }
        let offered = hash(token);
        let browsers = self.browsers().await.ok()?;
        let now = self.engine.now();
        let browsers = browsers.lock();
        let found = browsers.iter().find(|one| constant_time_eq(&one.sha256, &offered))?;
        (found.expires_at > now).then(|| found.clone())
    }

    /// Records that a browser was used, at most once a minute.
    pub(super) async fn note_use(&self, browser: &BrowserRecord) {
        let now = self.engine.now();
        if now.duration_since(browser.used_at) < USE_INTERVAL {
            return;
        }
        let expires_at = expiry(now);
        if let Ok(browsers) = self.browsers().await {
            let mut browsers = browsers.lock();
            let Some(known) = browsers.iter_mut().find(|one| one.id == browser.id) else { return };
            (known.used_at, known.expires_at) = (now, expires_at);
        }
        if let Err(error) = self.engine.note_browser_use(browser.id, now, expires_at).await {
            tracing::debug!(%error, "the use of a browser could not be recorded");
        }
    }

    /// Returns the signed-in browsers, last used first.
    pub(super) async fn list(&self) -> Result<Vec<BrowserRecord>, HttpError> {
        self.remove_expired(self.engine.now()).await?;
        let mut browsers = self.browsers().await?.lock().clone();
        browsers.sort_by_key(|one| std::cmp::Reverse(one.used_at));
        Ok(browsers)
    }

    /// Signs a browser out. Returns its name, or `None` if it is not signed in.
    pub(super) async fn revoke(&self, id: Uuid) -> Result<Option<Arc<str>>, HttpError> {
        // From now on its token is worthless, even if the store fails.
        let removed = {
            let mut browsers = self.browsers().await?.lock();
            let index = browsers.iter().position(|one| one.id == id);
            index.map(|index| browsers.remove(index))
        };
        if let Some(revocation) = self.revocations.lock().remove(&id) {
            revocation.cancel();
        }
        self.engine.remove_browser(id).await?;
        Ok(removed.map(|browser| browser.name))
    }

    /// Returns a token that is cancelled when the browser is signed out.
    pub(super) async fn revocation(&self, id: Uuid) -> Result<CancellationToken, EngineError> {
        let browsers = self.browsers().await?;
        let revoked = self.revocations.lock().entry(id).or_default().clone();
        // Look this up only after `revoke` can see the token, so that a browser signed out at this
        // very moment is noticed by one of the two.
        if !browsers.lock().iter().any(|one| one.id == id) {
            self.revocations.lock().remove(&id);
            revoked.cancel();
        }
        Ok(revoked)
    }

    async fn remove_expired(&self, now: Timestamp) -> Result<(), HttpError> {
        let expired: Vec<Uuid> = {
            let browsers = self.browsers().await?.lock();
            browsers.iter().filter(|one| one.expires_at <= now).map(|one| one.id).collect()
        };
        for id in expired {
            self.revoke(id).await?;
        }
        Ok(())
    }

    async fn browsers(&self) -> Result<&Mutex<Vec<BrowserRecord>>, EngineError> {
        let read = || async { self.engine.browsers().await.map(Mutex::new) };
        self.browsers.get_or_try_init(read).await
    }
}

impl fmt::Debug for BrowserLogins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrowserLogins").finish_non_exhaustive()
    }
}

fn expiry(used_at: Timestamp) -> Timestamp {
    used_at.checked_add(BROWSER_LIFETIME).unwrap_or(Timestamp::MAX)
}

fn hash(secret: &[u8]) -> Hash {
    Sha256::digest(secret).into()
}

/// Returns 256 random bits. Each id contributes 122.
fn random_bytes() -> Hash {
    let mut hasher = Sha256::new();
    for _ in 0..3 {
        hasher.update(Uuid::new_v4().as_bytes());
    }
    hasher.finalize().into()
}

/// Derives a browser's common name from its `User-Agent`.
pub(super) fn browser_name(user_agent: &str) -> String {
    const BROWSERS: [(&str, &str); 7] = [
        ("Edg/", "Edge"),
        ("OPR/", "Opera"),
        ("Vivaldi/", "Vivaldi"),
        ("Firefox/", "Firefox"),
        ("HeadlessChrome/", "Headless Chromium"),
        ("Chrome/", "Chrome"),
        ("Safari/", "Safari"),
    ];
    const SYSTEMS: [(&str, &str); 6] = [
        ("Android", "Android"),
        ("iPhone", "iPhone"),
        ("iPad", "iPad"),
        ("Windows", "Windows"),
        ("Mac OS X", "macOS"),
        ("Linux", "Linux"),
    ];
    let find = |names: &[(&str, &'static str)]| {
        names.iter().find(|(mark, _)| user_agent.contains(mark)).map(|(_, name)| *name)
    };
    let browser = find(&BROWSERS).unwrap_or("a browser");
    match find(&SYSTEMS) {
        Some(system) => format!("{browser} on {system}"),
        None => browser.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_is_named_as_people_do() {
        let chrome = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) \
                      Chrome/147.0.0.0 Safari/537.36";
        assert_eq!(browser_name(chrome), "Chrome on Linux");
        let safari = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 \
                      (KHTML, like Gecko) Version/26.0 Safari/605.1.15";
        assert_eq!(browser_name(safari), "Safari on macOS");
        assert_eq!(browser_name("curl/8"), "a browser");
    }
}

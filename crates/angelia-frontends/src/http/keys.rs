//! Authenticates callers and describes their rights: the owner by the token, others by their own
//! keys. Only the hashes of keys are known here.

use std::{fmt, sync::Arc, time::Duration};

use angelia_core::{
    engine::SpendLimit,
    model::{BrowserRecord, SessionSource},
};
use sha2::{Digest as _, Sha256};

use super::{ConnectionSource, HttpError, reach};
use crate::socket::LocalCaller;

/// The owner's name as a caller.
pub(super) const OWNER: &str = "owner";

/// The period of `max_cost_usd_per_day`.
const DAY: Duration = Duration::from_hours(24);

/// The prefix of a key's name in the name of its principal.
const KEY_PREFIX: &str = "key:";

/// How many bytes of a key's hash distinguish it from other keys of the same name.
const FINGERPRINT_BYTES: usize = 8;

/// A key that the owner gave to another user or program, created by `angelia keys add`.
#[derive(Clone)]
pub struct AccessKey {
    /// The name in lists and records; not secret.
    pub name: Arc<str>,
    /// The hash of the key itself.
    pub sha256: [u8; 32],
    pub grant: Grant,
}

/// The valid keys.
#[derive(Clone, Debug, Default)]
pub struct AccessKeys(Arc<[AccessKey]>);

impl AccessKeys {
    pub(super) fn iter(&self) -> impl Iterator<Item = &AccessKey> {
        self.0.iter()
    }

    /// Returns the principal of a key, if it is valid. Takes the same time for every input.
    pub(super) fn authenticate(&self, offered: &[u8]) -> Option<Principal> {
        let offered: [u8; 32] = Sha256::digest(offered).into();
        let mut found = None;
        for key in &*self.0 {
            if constant_time_eq(&key.sha256, &offered) {
                found = Some(key);
            }
        }
        found.map(Principal::for_key)
    }
}

impl From<Vec<AccessKey>> for AccessKeys {
    fn from(keys: Vec<AccessKey>) -> Self {
        Self(keys.into())
    }
}

/// The rights of a principal on the model APIs.
#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    pub profiles: AllowedModels,
    /// The providers whose models may be used by id. The token pays for each answer.
    pub providers: AllowedModels,
    /// Whether agents may act on this machine. The owner's own setting must allow it too.
    pub agent_mode: bool,
    pub max_cost_usd_per_day: Option<f64>,
}

/// The profiles, models or providers that a key may use, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedModels {
    All,
    /// Names of profiles and prefixes (the part before the `/`) of model ids, or names of providers.
    Only(Vec<Arc<str>>),
}

impl AllowedModels {
    pub fn includes(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.iter().any(|one| **one == *name),
        }
    }
}

/// Returns the name of the key that a principal or account belongs to.
pub fn key_name(principal: &str) -> Option<&str> {
    let (name, _fingerprint) = principal.strip_prefix(KEY_PREFIX)?.rsplit_once('#')?;
    Some(name)
}

/// The authenticated sender of a request.
#[derive(Clone, Debug)]
pub struct Principal {
    /// Identifies the principal in records, idempotency keys, hashes of histories and budgets.
    /// Principals with different names never see each other's sessions.
    pub name: Arc<str>,
    pub grant: Arc<Grant>,
    pub is_owner: bool,
    /// The owner's signed-in browser, if the request comes from its page.
    pub(in crate::http) browser: Option<Arc<BrowserRecord>>,
    /// The connection of an owner's request, which helps to recognise an agent's process.
    pub(in crate::http) connection: Option<ConnectionSource>,
}

impl Principal {
    /// Returns the owner, over a connection that may be an agent's.
    pub(super) fn owner_at(connection: &ConnectionSource) -> Self {
        Self { connection: Some(connection.clone()), ..Self::owner() }
    }

    /// Returns the owner, through the page in this browser.
    pub(super) fn owner_in(browser: BrowserRecord, connection: &ConnectionSource) -> Self {
        Self { browser: Some(Arc::new(browser)), ..Self::owner_at(connection) }
    }

    /// Returns the name under which decisions are recorded.
    pub(super) fn decider(&self) -> Arc<str> {
        match &self.browser {
            Some(browser) => format!("{OWNER} (browser {})", browser.name).into(),
            None => OWNER.into(),
        }
    }

    pub fn owner() -> Self {
        Self {
            name: OWNER.into(),
            grant: Arc::new(Grant {
                profiles: AllowedModels::All,
                providers: AllowedModels::All,
                agent_mode: true,
                max_cost_usd_per_day: None,
            }),
            is_owner: true,
            browser: None,
            connection: None,
        }
    }

    /// Refuses an agent's process that uses the owner's rights. A key is its own authority.
    pub(super) async fn ensure_no_agent(&self) -> Result<(), HttpError> {
        let Some(connection) = self.connection.as_ref().filter(|_| self.is_owner) else {
            return Ok(());
        };
        match connection.caller().await {
            LocalCaller::Owner | LocalCaller::Remote => Ok(()),
            LocalCaller::Agent(_) => Err(reach::owner_only()),
            LocalCaller::Unidentified => Err(reach::unidentified()),
        }
    }

    /// Returns the caller name that is recorded with this principal's turns. The owner has none.
    pub(super) fn recorded_name(&self) -> Option<Arc<str>> {
        (!self.is_owner).then(|| Arc::clone(&self.name))
    }

    /// Returns the source of the sessions that this principal creates.
    pub(super) fn session_source(&self) -> SessionSource {
        match key_name(&self.name) {
            Some(name) if !self.is_owner => SessionSource::Key(name.into()),
            _ => SessionSource::Http,
        }
    }

    /// Returns whether a turn recorded with this caller name belongs to this principal.
    pub(super) fn owns_turn_of(&self, caller: Option<&str>) -> bool {
        caller == self.recorded_name().as_deref()
    }

    /// Returns the spending limit of this principal's turns, or `None` if there is no limit.
    pub(super) fn spend_limit(&self) -> Option<SpendLimit> {
        let usd = self.grant.max_cost_usd_per_day?;
        Some(SpendLimit { usd, period: DAY })
    }

    fn for_key(key: &AccessKey) -> Self {
        Self {
            // The prefix keeps a key named `owner` from being mistaken for the owner. The
            // fingerprint distinguishes a key from a revoked one with the same name.
            name: format!(
                "{KEY_PREFIX}{}#{}",
                key.name,
                hex::encode(&key.sha256[..FINGERPRINT_BYTES])
            )
            .into(),
            grant: Arc::new(key.grant.clone()),
            is_owner: false,
            browser: None,
            connection: None,
        }
    }
}

/// Compares two hashes in constant time.
pub(super) fn constant_time_eq(one: &[u8; 32], other: &[u8; 32]) -> bool {
    let difference = one.iter().zip(other).fold(0, |d, (a, b)| d | (a ^ b));
    std::hint::black_box(difference) == 0
}

impl fmt::Debug for AccessKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessKey")
            .field("name", &self.name)
            .field("grant", &self.grant)
            .finish_non_exhaustive()
    }
}

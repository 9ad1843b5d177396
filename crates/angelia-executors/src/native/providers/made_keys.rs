//! Keys that are created on demand: by a command, by Entra, or with a login. A key is renewed five
//! minutes before it expires or when it was refused, and only once for all sessions, because some
//! tokens can be fetched only once. Keys are kept only in memory.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::sync::oneshot;

use super::{
    entra,
    key::{KeySource, ProviderKey},
    oauth, printed_key,
};
use crate::ExecutorHost;

/// Keys are renewed this long before they expire, so that they stay valid during a request.
const EXPIRY_MARGIN: SignedDuration = SignedDuration::from_mins(5);

/// The names of the key in the JSON that vendors' programs print.
const KEY_FIELDS: [&str; 5] = ["access_token", "accessToken", "token", "api_key", "key"];

/// The names of the expiry time.
const EXPIRY_FIELDS: [&str; 4] = ["expires_on", "expires_at", "expiresAt", "expiry"];

type KeyCell = Arc<tokio::sync::Mutex<Option<MadeKey>>>;

/// The created keys, by source.
#[derive(Debug, Default)]
pub(crate) struct MadeKeys(Mutex<BTreeMap<KeySource, KeyCell>>);

/// A created key, and how long it is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MadeKey {
    pub(super) key: ProviderKey,
    lifetime: Option<KeyLifetime>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KeyLifetime {
    renew_at: Timestamp,
    expires_at: Timestamp,
}

impl MadeKeys {
    /// Returns the key of a source, and creates it if there is no valid one. Creation runs to
    /// completion even if nobody waits for it any more, because a refresh token that was sent must
    /// not be lost.
    pub(super) async fn read(
        &self,
        source: &KeySource,
        host: &ExecutorHost,
    ) -> Result<ProviderKey, String> {
        let (send, made) = oneshot::channel();
        let (cell, source, own_host) = (self.cell(source), source.clone(), host.clone());
        host.tasks.spawn(async move {
            let _nobody_waits = send.send(read_cell(&cell, &source, &own_host).await);
        });
        made.await.unwrap_or_else(|_| Err("creating the key was interrupted".to_owned()))
    }

    /// Forgets a key that was not accepted, unless it has been renewed in the meantime.
    pub(super) async fn forget(&self, source: &KeySource, refused: &ProviderKey) {
        let cell = self.cell(source);
        cell.lock().await.take_if(|known| known.key == *refused);
    }

    fn cell(&self, source: &KeySource) -> KeyCell {
        let mut cells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(cells.entry(source.clone()).or_default())
    }
}

/// Returns the key in a cell, or creates it while other sessions wait.
async fn read_cell(
    cell: &tokio::sync::Mutex<Option<MadeKey>>,
    source: &KeySource,
    host: &ExecutorHost,
) -> Result<ProviderKey, String> {
    let mut cell = cell.lock().await;
    let now = host.clock.now();
    if let Some(known) = cell.as_ref().filter(|known| known.is_fresh_at(now)) {
        return Ok(known.key.clone());
    }
    let made = match source {
        KeySource::Env(_) | KeySource::File(_) => Err("the key is not made".to_owned()),
        KeySource::Command(words) => printed_key::run(words, host).await,
        KeySource::Entra(settings) => entra::fetch(settings, host).await.map(MadeKey::into_token),
        KeySource::OAuth(settings) => oauth::refresh(settings, host).await.map(MadeKey::into_token),
    };
    match (made, &*cell) {
        (Ok(made), _) => Ok(cell.insert(made).key.clone()),
        // Keys are renewed early, so there is time to try again.
        (Err(_), Some(known)) if known.is_good_at(now) => Ok(known.key.clone()),
        (Err(reason), _) => Err(reason),
    }
}

impl MadeKey {
    /// `expires_at` is `None` if the key is valid until it is refused.
    pub(super) fn new(key: ProviderKey, expires_at: Option<Timestamp>, now: Timestamp) -> Self {
        let lifetime = expires_at.map(|expires_at| {
            // A short-lived key is renewed after half of its lifetime.
            let margin = EXPIRY_MARGIN.min(expires_at.duration_since(now) / 2);
            KeyLifetime { renew_at: expires_at.checked_sub(margin).unwrap_or(now), expires_at }
        });
        Self { key, lifetime }
    }

    /// Marks the key as a bearer token.
    fn into_token(self) -> Self {
        Self { key: self.key.into_token(), ..self }
    }

    #[cfg(test)]
    pub(super) fn expires_at(&self) -> Option<Timestamp> {
        self.lifetime.map(|lifetime| lifetime.expires_at)
    }

    /// Returns whether the key does not have to be renewed yet.
    fn is_fresh_at(&self, now: Timestamp) -> bool {
        self.lifetime.is_none_or(|lifetime| now < lifetime.renew_at)
    }

    fn is_good_at(&self, now: Timestamp) -> bool {
        self.lifetime.is_none_or(|lifetime| now < lifetime.expires_at)
    }

    /// Reads a key and its expiry from JSON, in any of the forms that vendors use.
    pub(super) fn from_json(fields: &Value, now: Timestamp) -> Option<Self> {
        let key = KEY_FIELDS.iter().find_map(|name| fields[name].as_str())?;
        let expires_at = EXPIRY_FIELDS.iter().find_map(|name| read_time(&fields[name]));
        let from_now = || {
            let seconds = i64::try_from(read_number(&fields["expires_in"])?).ok()?;
            now.checked_add(SignedDuration::from_secs(seconds)).ok()
        };
        Some(Self::new(ProviderKey::new(key)?, expires_at.or_else(from_now), now))
    }
}

fn read_number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// Reads a time: seconds since 1970, as a number or as text, or RFC 3339.
fn read_time(value: &Value) -> Option<Timestamp> {
    let seconds = read_number(value).and_then(|seconds| i64::try_from(seconds).ok());
    match seconds {
        Some(seconds) => Timestamp::from_second(seconds).ok(),
        None => value.as_str()?.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_again_five_minutes_before_it_expires_or_after_half_of_a_short_life() {
        let at = |seconds: i64| Timestamp::from_second(1_000_000 + seconds).unwrap();
        let made =
            |life: Option<i64>| MadeKey::new(ProviderKey::new("abc").unwrap(), life.map(at), at(0));
        assert!(made(None).is_fresh_at(at(1_000_000)));
        let hour = made(Some(3_600));
        assert!(hour.is_fresh_at(at(3_299)) && !hour.is_fresh_at(at(3_300)));
        assert!(hour.is_good_at(at(3_599)) && !hour.is_good_at(at(3_600)));
        let short = made(Some(60));
        assert!(short.is_fresh_at(at(29)) && !short.is_fresh_at(at(30)));
        assert!(!made(Some(-1)).is_fresh_at(at(0)));
    }
}

//! Chooses among the keys of a provider.

use std::{sync::Arc, time::Duration};

use angelia_core::model::Failure;
use tokio::time::Instant;

use super::{
    health::Availability,
    key::{KeySource, ProviderKey, missing_key},
    provider::Provider,
};
use crate::ExecutorHost;

/// How a turn chooses its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyRotation {
    /// The first usable key.
    #[default]
    FillFirst,
    /// Each key in turn.
    RoundRobin,
    /// The key that has sent the fewest requests.
    LeastUsed,
}

/// A key, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenKey {
    pub source: KeySource,
    pub key: ProviderKey,
}

/// The key to send requests with, if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyChoice {
    /// The provider needs no key.
    NotNeeded,
    Usable(ChosenKey),
    /// No key can be used now; this one is the next that can.
    Paused {
        key: ChosenKey,
        left: Duration,
        reason: Arc<str>,
    },
    /// No key can be used until it is replaced.
    Revoked {
        key: ChosenKey,
        reason: Arc<str>,
    },
}

impl KeyChoice {
    /// Returns the key, even if it should not be used now.
    pub fn into_key(self) -> Option<ChosenKey> {
        match self {
            Self::NotNeeded => None,
            Self::Usable(key) | Self::Paused { key, .. } | Self::Revoked { key, .. } => Some(key),
        }
    }

    /// Returns why no key can be used now; `None` if there is no obstacle.
    pub fn obstacle(&self) -> Option<&Arc<str>> {
        match self {
            Self::NotNeeded | Self::Usable(_) => None,
            Self::Paused { reason, .. } | Self::Revoked { reason, .. } => Some(reason),
        }
    }
}

/// Chooses a key for a turn; the host masks it from then on. The error says why each source has
/// none.
pub(crate) async fn choose_key(
    provider: &Provider,
    model: &str,
    host: &ExecutorHost,
) -> Result<KeyChoice, Failure> {
    let mut sources: Vec<&KeySource> = provider.keys.iter().collect();
    let health = host.providers.health();
    match provider.rotate {
        KeyRotation::RoundRobin if sources.len() > 1 => {
            let count = sources.len();
            sources.rotate_left(health.next_round(&provider.name) % count);
        }
        KeyRotation::LeastUsed => {
            sources.sort_by_key(|source| health.requests(&provider.name, source));
        }
        KeyRotation::FillFirst | KeyRotation::RoundRobin => {}
    }
    first_usable(sources, provider, model, host).await
}

/// Chooses the next key after `last`, which has failed; `None` if there is no other.
pub(crate) async fn choose_next_key(
    provider: &Provider,
    model: &str,
    last: &KeySource,
    host: &ExecutorHost,
) -> Option<KeyChoice> {
    let at = provider.keys.iter().position(|source| source == last)?;
    let (before, after) = provider.keys.split_at(at);
    let others: Vec<&KeySource> = after.iter().skip(1).chain(before).collect();
    if others.is_empty() {
        return None;
    }
    first_usable(others, provider, model, host).await.ok()
}

async fn first_usable(
    sources: Vec<&KeySource>,
    provider: &Provider,
    model: &str,
    host: &ExecutorHost,
) -> Result<KeyChoice, Failure> {
    if sources.is_empty() {
        return Ok(KeyChoice::NotNeeded);
    }
    let mut missing = Vec::new();
    let mut otherwise = None;
    for source in sources {
        let key = match source.load(host).await {
            Ok(key) => ChosenKey { source: source.clone(), key },
            Err(reason) => {
                missing.push(reason);
                continue;
            }
        };
        let now = Instant::now();
        let choice = match host.providers.health().key(&provider.name, &key, model, now) {
            Availability::Usable => return Ok(KeyChoice::Usable(key)),
            Availability::Paused { left, reason } => KeyChoice::Paused { key, left, reason },
            Availability::Revoked { reason } => KeyChoice::Revoked { key, reason },
        };
        otherwise = Some(match otherwise {
            Some(known) => sooner(known, choice),
            None => choice,
        });
    }
    otherwise.ok_or_else(|| missing_key(&missing))
}

/// Returns the choice that can be used sooner, or `one` if there is no difference.
fn sooner(one: KeyChoice, other: KeyChoice) -> KeyChoice {
    let wait = |choice: &KeyChoice| match choice {
        KeyChoice::Paused { left, .. } => *left,
        KeyChoice::Revoked { .. } => Duration::MAX,
        KeyChoice::NotNeeded | KeyChoice::Usable(_) => Duration::ZERO,
    };
    if wait(&other) < wait(&one) { other } else { one }
}

//! The health of models and keys, as known to this process. All its sessions share it, so that none
//! has to rediscover what another has found out. The caller passes the current time.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::{key::KeySource, key_pool::ChosenKey};

/// The first pause after a failure, if the provider does not say how long to wait. Each further
/// pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_mins(1);
const MAX_PAUSE: Duration = Duration::from_mins(15);

/// The minimum pause of a key, whatever the provider says.
const MIN_KEY_PAUSE: Duration = Duration::from_secs(1);

/// The pause of a key that was not accepted, which the owner may correct.
const REFUSED_PAUSE: Duration = Duration::from_mins(5);

/// The pause of a key whose balance is used up.
const UNPAID_PAUSE: Duration = Duration::from_hours(1);

/// The health of the models and keys of all providers.
#[derive(Debug, Default)]
pub struct ProviderHealth(Mutex<HealthState>);

#[derive(Debug, Default)]
struct HealthState {
    /// By provider and model.
    models: BTreeMap<(Arc<str>, Arc<str>), Pause>,
    /// By provider and source.
    keys: BTreeMap<(Arc<str>, KeySource), KeyRecord>,
    /// The number of turns that chose a key by round robin, by provider.
    rounds: BTreeMap<Arc<str>, usize>,
}

/// A period during which a model or a key is not used, and how often it has failed since it last
/// worked.
#[derive(Clone, Debug)]
struct Pause {
    until: Instant,
    failures: u32,
    reason: Arc<str>,
}

impl Pause {
    fn remaining(&self, now: Instant) -> Option<Duration> {
        let left = self.until.saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }
}

/// The health of one key.
#[derive(Debug, Default)]
struct KeyRecord {
    /// The fingerprint of the key that this record is about.
    fingerprint: String,
    requests: u64,
    /// The provider's message that the key was revoked.
    revoked: Option<Arc<str>>,
    /// The pause for all models.
    pause: Option<Pause>,
    /// The pauses for individual models.
    model_pauses: BTreeMap<Arc<str>, Pause>,
}

/// Whether a model or a key can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Availability {
    Usable,
    /// Not now; it can be tried again after `left`.
    Paused {
        left: Duration,
        reason: Arc<str>,
    },
    /// Not until it is replaced.
    Revoked {
        reason: Arc<str>,
    },
}

/// Why another key is used instead of this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFault {
    /// The key is not accepted.
    Refused,
    /// The key will never be accepted again.
    Revoked,
    /// The key's balance is used up.
    Unpaid,
    /// The key has sent too many requests for a model.
    Limited,
}

impl ProviderHealth {
    /// Returns whether a model can be asked.
    pub fn model(&self, provider: &str, model: &str, now: Instant) -> Availability {
        let state = self.state();
        let pause = state.models.get(&(provider.into(), model.into()));
        availability(pause.into_iter(), now)
    }

    /// Returns whether a model or the key has failed and not worked since.
    pub fn is_on_probation(&self, provider: &str, model: &str, key: Option<&ChosenKey>) -> bool {
        let mut state = self.state();
        if state.models.contains_key(&(provider.into(), model.into())) {
            return true;
        }
        key.is_some_and(|key| state.key(provider, key).model_pauses.contains_key(model))
    }

    /// Pauses a model for as long as its provider says, or else longer with every failure.
    pub fn pause_model(
        &self,
        (provider, model): (&str, &str),
        stated: Option<Duration>,
        reason: &str,
        now: Instant,
    ) {
        let mut state = self.state();
        let known = state.models.remove(&(provider.into(), model.into()));
        let pause = extend(known.as_ref(), stated, reason, now);
        state.models.insert((provider.into(), model.into()), pause);
    }

    /// Returns whether a key can be used for a model.
    pub fn key(&self, provider: &str, key: &ChosenKey, model: &str, now: Instant) -> Availability {
        let mut state = self.state();
        let record = state.key(provider, key);
        if let Some(reason) = &record.revoked {
            return Availability::Revoked { reason: Arc::clone(reason) };
        }
        availability(record.pause.iter().chain(record.model_pauses.get(model)), now)
    }

    /// Pauses a key.
    pub fn pause_key(
        &self,
        (provider, model): (&str, &str),
        key: &ChosenKey,
        (fault, stated): (KeyFault, Option<Duration>),
        reason: &str,
        now: Instant,
    ) {
        let mut state = self.state();
        let record = state.key(provider, key);
        let stated = stated.map(|stated| stated.max(MIN_KEY_PAUSE));
        match fault {
            KeyFault::Revoked => record.revoked = Some(reason.into()),
            KeyFault::Refused => {
                let pause = extend(record.pause.as_ref(), Some(REFUSED_PAUSE), reason, now);
                record.pause = Some(pause);
            }
            KeyFault::Unpaid => {
                let stated = stated.or(Some(UNPAID_PAUSE));
                record.pause = Some(extend(record.pause.as_ref(), stated, reason, now));
            }
            KeyFault::Limited => {
                let pause = extend(record.model_pauses.get(model), stated, reason, now);
                record.model_pauses.insert(model.into(), pause);
            }
        }
    }

    /// Counts a request that a key is about to send.
    pub fn count_request(&self, provider: &str, key: &ChosenKey) {
        self.state().key(provider, key).requests += 1;
    }

    /// Returns how many requests were sent with the key from a source.
    pub fn requests(&self, provider: &Arc<str>, source: &KeySource) -> u64 {
        let state = self.state();
        let record = state.keys.get(&(Arc::clone(provider), source.clone()));
        record.map_or(0, |record| record.requests)
    }

    /// Forgets the failures of a model and its key, because the model has answered.
    pub fn record_answer(&self, provider: &str, model: &str, key: Option<&ChosenKey>) {
        let mut state = self.state();
        state.models.remove(&(provider.into(), model.into()));
        if let Some(key) = key {
            let record = state.key(provider, key);
            record.pause = None;
            record.model_pauses.remove(model);
        }
    }

    /// Returns how many turns chose a key by round robin before this one.
    pub fn next_round(&self, provider: &Arc<str>) -> usize {
        let mut state = self.state();
        let round = state.rounds.entry(Arc::clone(provider)).or_default();
        *round += 1;
        *round - 1
    }

    fn state(&self) -> MutexGuard<'_, HealthState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HealthState {
    /// Returns the record of a key. A replaced key starts over, but a renewed one keeps its pauses,
    /// because it belongs to the same account.
    fn key(&mut self, provider: &str, key: &ChosenKey) -> &mut KeyRecord {
        let place = (Arc::from(provider), key.source.clone());
        let record = self.keys.entry(place).or_default();
        let fingerprint = key.key.fingerprint();
        if record.fingerprint != fingerprint {
            record.revoked = None;
            if !key.source.is_made() {
                record.pause = None;
                record.model_pauses.clear();
            }
            record.fingerprint = fingerprint;
        }
        record
    }
}

/// Returns the pause after a failure. Failures during a pause count as the one that began it,
/// because many sessions notice the same failure.
fn extend(known: Option<&Pause>, stated: Option<Duration>, reason: &str, now: Instant) -> Pause {
    let running = known.filter(|pause| pause.remaining(now).is_some());
    let (failures, not_before) = match (running, known) {
        (Some(running), _) => (running.failures, running.until),
        (None, Some(over)) => (over.failures + 1, now),
        (None, None) => (1, now),
    };
    let own = || FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(failures - 1)).min(MAX_PAUSE);
    let until = match (stated, running) {
        (Some(stated), _) => not_before.max(now + stated),
        (None, Some(_)) => not_before,
        (None, None) => now + own(),
    };
    Pause { until, failures, reason: reason.into() }
}

fn availability<'a>(pauses: impl Iterator<Item = &'a Pause>, now: Instant) -> Availability {
    let running = pauses.filter_map(|pause| Some((pause.remaining(now)?, &pause.reason)));
    match running.max_by_key(|(left, _)| *left) {
        Some((left, reason)) => Availability::Paused { left, reason: Arc::clone(reason) },
        None => Availability::Usable,
    }
}

#[cfg(test)]
mod tests {
    use super::{super::key::ProviderKey, *};

    const MODEL: (&str, &str) = ("home", "m");

    fn key(source: KeySource, text: &str) -> ChosenKey {
        ChosenKey { source, key: ProviderKey::new(text).unwrap() }
    }

    fn minutes_left(found: &Availability) -> Option<u64> {
        match found {
            Availability::Paused { left, .. } => Some(left.as_secs().div_ceil(60)),
            Availability::Usable | Availability::Revoked { .. } => None,
        }
    }

    #[test]
    fn e26_pauses_double_from_a_minute_to_a_quarter_of_an_hour_and_end_with_an_answer() {
        let health = ProviderHealth::default();
        let mut now = Instant::now();
        for minutes in [1, 2, 4, 8, 15, 15] {
            assert_eq!(health.model("home", "m", now), Availability::Usable);
            health.pause_model(MODEL, None, "busy", now);
            // Other sessions notice the same failure a little later.
            health.pause_model(MODEL, None, "busy", now + Duration::from_secs(30));
            assert_eq!(minutes_left(&health.model("home", "m", now)), Some(minutes));
            assert_eq!(health.model("home", "other", now), Availability::Usable);
            now += Duration::from_secs(minutes * 60);
        }
        assert!(health.is_on_probation("home", "m", None));
        health.record_answer("home", "m", None);
        assert!(!health.is_on_probation("home", "m", None));
        health.pause_model(MODEL, None, "busy", now);
        assert_eq!(minutes_left(&health.model("home", "m", now)), Some(1));
    }

    #[test]
    fn e26_a_stated_time_counts_and_a_shorter_one_does_not_end_a_pause() {
        let (health, now) = (ProviderHealth::default(), Instant::now());
        health.pause_model(MODEL, Some(Duration::from_hours(2)), "busy", now);
        assert_eq!(minutes_left(&health.model("home", "m", now)), Some(120));
        health.pause_model(MODEL, Some(Duration::from_mins(1)), "busy", now);
        assert_eq!(minutes_left(&health.model("home", "m", now)), Some(120));
    }

    #[test]
    fn e27_a_limit_is_for_one_model_and_a_refusal_for_all() {
        let (health, now) = (ProviderHealth::default(), Instant::now());
        let one = key(KeySource::Env("A".into()), "first-key");
        let left = |model| minutes_left(&health.key("home", &one, model, now));
        health.pause_key(MODEL, &one, (KeyFault::Limited, None), "slow down", now);
        assert_eq!((left("m"), left("other")), (Some(1), None));
        health.pause_key(MODEL, &one, (KeyFault::Refused, None), "unknown key", now);
        assert_eq!((left("m"), left("other")), (Some(5), Some(5)));
        health.pause_key(MODEL, &one, (KeyFault::Unpaid, None), "no balance", now);
        assert_eq!(left("other"), Some(60));
        assert_eq!(minutes_left(&health.key("else", &one, "m", now)), None, "another provider");
    }

    #[test]
    fn e27_a_replaced_key_begins_anew_and_a_made_one_keeps_the_limits_of_its_account() {
        let (health, now) = (ProviderHealth::default(), Instant::now());
        let fixed = KeySource::Env("A".into());
        let made = KeySource::Command(vec!["make".into()]);
        for source in [&fixed, &made] {
            let old = key(source.clone(), "old-key");
            health.pause_key(MODEL, &old, (KeyFault::Limited, None), "slow down", now);
            health.pause_key(MODEL, &old, (KeyFault::Revoked, None), "revoked", now);
            let found = health.key("home", &old, "m", now);
            assert!(matches!(found, Availability::Revoked { .. }), "{found:?}");
        }
        let new = |source: &KeySource| health.key("home", &key(source.clone(), "new"), "m", now);
        assert_eq!(new(&fixed), Availability::Usable);
        assert_eq!(minutes_left(&new(&made)), Some(1));
    }
}

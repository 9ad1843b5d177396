//! Stores facts that this process has learned about models, by the provider's address and the
//! model's id.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::provider::Provider;

pub(super) struct ByModel<T>(Mutex<FactsByModel<T>>);

type FactsByModel<T> = BTreeMap<(Arc<str>, Arc<str>), T>;

impl<T> Default for ByModel<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Copy + Default> ByModel<T> {
    fn facts(&self) -> MutexGuard<'_, FactsByModel<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, provider: &Provider, model: &str) -> Option<T> {
        let key = (Arc::clone(&provider.base_url), Arc::from(model));
        self.facts().get(&key).copied()
    }

    pub(super) fn change(&self, provider: &Provider, model: &str, change: impl FnOnce(&mut T)) {
        let key = (Arc::clone(&provider.base_url), Arc::from(model));
        change(self.facts().entry(key).or_default());
    }
}

impl<T: fmt::Debug> fmt::Debug for ByModel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ByModel").field(&self.0).finish()
    }
}

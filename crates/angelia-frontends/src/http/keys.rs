//! Who calls, and what that caller may have: the owner by the token, others by keys of their own.
//! Keys are known by their hashes only.

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use sha2::{Digest as _, Sha256};

/// A key that the owner has given to somebody; `angelia keys add` makes them.
#[derive(Clone)]
pub struct Key {
    /// For lists and records; never secret.
    pub name: Arc<str>,
    /// Of the key itself.
    pub sha256: [u8; 32],
    pub grant: Grant,
}

/// The keys that count now. Every clone sees a change at once.
#[derive(Clone, Debug, Default)]
pub struct Keys(Arc<RwLock<Arc<[Key]>>>);

impl Keys {
    /// These, and no others from now on.
    pub fn replace(&self, keys: Vec<Key>) {
        // What is behind the lock is whole at every moment.
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = keys.into();
    }

    /// Whose key this is. Takes the same time whichever it is, and whether it is one.
    pub(super) fn holder(&self, offered: &[u8]) -> Option<Who> {
        let keys = Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner));
        let offered: [u8; 32] = Sha256::digest(offered).into();
        let mut found = None;
        for key in &*keys {
            if same(&key.sha256, &offered) {
                found = Some(key);
            }
        }
        found.map(Who::holder)
    }
}

impl From<Vec<Key>> for Keys {
    fn from(keys: Vec<Key>) -> Self {
        Self(Arc::new(RwLock::new(keys.into())))
    }
}

/// What a caller may have over the model APIs.
#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    pub profiles: Allowed,
    /// Agents that act on this machine; the owner's own setting must allow it too.
    pub agent_mode: bool,
    pub max_cost_usd_per_day: Option<f64>,
}

/// Which model ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allowed {
    All,
    /// Names of profiles, and words before the `/` of model ids.
    Only(Vec<Arc<str>>),
}

impl Allowed {
    pub fn includes(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.iter().any(|one| **one == *name),
        }
    }
}

/// Whoever sent a request, once that is known.
#[derive(Clone, Debug)]
pub struct Who {
    /// Two of them never see each other's sessions.
    pub name: Arc<str>,
    pub grant: Arc<Grant>,
    pub is_owner: bool,
}

impl Who {
    pub fn owner() -> Self {
        Self {
            name: "owner".into(),
            grant: Arc::new(Grant {
                profiles: Allowed::All,
                agent_mode: true,
                max_cost_usd_per_day: None,
            }),
            is_owner: true,
        }
    }

    fn holder(key: &Key) -> Self {
        Self {
            // Nobody can call a key so that it is taken for the owner.
            name: format!("key:{}", key.name).into(),
            grant: Arc::new(key.grant.clone()),
            is_owner: false,
        }
    }
}

/// Takes the same time whatever they are.
pub(super) fn same(one: &[u8; 32], other: &[u8; 32]) -> bool {
    let difference = one.iter().zip(other).fold(0, |d, (a, b)| d | (a ^ b));
    std::hint::black_box(difference) == 0
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key")
            .field("name", &self.name)
            .field("grant", &self.grant)
            .finish_non_exhaustive()
    }
}

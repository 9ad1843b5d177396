//! The way from an executor to the engine that it belongs to: work that an agent hands on becomes a turn of
//! another session there. The engine is made after its executors, so it is filled in later.

use std::{
    fmt,
    sync::{Arc, OnceLock, Weak},
};

use angelia_core::ports::WorkDelegation;

#[derive(Clone, Default)]
pub struct DelegationSlot(Arc<OnceLock<Weak<dyn WorkDelegation>>>);

impl DelegationSlot {
    /// Fills the slot. It does not keep the engine alive, which has the executors.
    pub fn fill(&self, delegation: &Arc<dyn WorkDelegation>) {
        let _is_filled = self.0.set(Arc::downgrade(delegation));
    }

    /// Returns `None` in a process without an engine.
    pub(crate) fn get(&self) -> Option<Arc<dyn WorkDelegation>> {
        self.0.get()?.upgrade()
    }
}

impl fmt::Debug for DelegationSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelegationSlot").field("is_filled", &self.0.get().is_some()).finish()
    }
}

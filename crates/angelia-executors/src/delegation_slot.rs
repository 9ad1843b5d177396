//! Gives an executor access to the engine it belongs to, which runs delegated work as a turn of
//! another session. The engine is created after its executors, so the slot is filled later.

use std::{
    fmt,
    sync::{Arc, OnceLock, Weak},
};

use angelia_core::ports::WorkDelegation;

#[derive(Clone, Default)]
pub struct DelegationSlot(Arc<OnceLock<Weak<dyn WorkDelegation>>>);

impl DelegationSlot {
    /// Fills the slot. Holds the engine weakly, because the engine owns the executors.
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

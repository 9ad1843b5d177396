//! In whose name a store writes: a process that mostly reads becomes an owner with its first write.

use std::sync::Arc;

use crate::owners::{OwnerLock, OwnerRegistry, RegisterError};

/// The owner in whose name sessions are held.
#[derive(Clone, Debug)]
pub(super) enum WriterOwner {
    Registered(Arc<OwnerLock>),
    /// This process becomes an owner with its first job; `command` names it to people.
    WithFirstJob {
        owners: OwnerRegistry,
        command: &'static str,
    },
}

impl WriterOwner {
    pub(super) fn registry(&self) -> &OwnerRegistry {
        match self {
            Self::Registered(owner) => owner.registry(),
            Self::WithFirstJob { owners, .. } => owners,
        }
    }

    pub(super) fn register(&self) -> Result<Arc<OwnerLock>, RegisterError> {
        match self {
            Self::Registered(owner) => Ok(Arc::clone(owner)),
            Self::WithFirstJob { owners, command } => owners.register(command).map(Arc::new),
        }
    }
}

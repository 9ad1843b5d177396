//! The settings of the model APIs, which the daemon replaces when its configuration changes.

use std::sync::{Arc, PoisonError, RwLock};

use super::ModelSettings;

/// The settings in force. All clones see a change immediately; a request keeps those that it began
/// with.
#[derive(Clone, Debug, Default)]
pub struct LiveModels(Arc<RwLock<Arc<ModelSettings>>>);

impl LiveModels {
    pub fn current(&self) -> Arc<ModelSettings> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn replace(&self, settings: ModelSettings) {
        // The value is replaced as a whole, so it is valid even after a panic.
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }
}

impl From<ModelSettings> for LiveModels {
    fn from(settings: ModelSettings) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(settings))))
    }
}

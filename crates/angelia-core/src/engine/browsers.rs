//! The recorded browsers in which the owner has signed in.

use jiff::Timestamp;
use uuid::Uuid;

use super::facade::{Engine, EngineError};
use crate::model::BrowserRecord;

impl Engine {
    pub async fn add_browser(&self, browser: BrowserRecord) -> Result<(), EngineError> {
        Ok(self.shared.store.add_browser(browser).await?)
    }

    /// Returns the browsers, oldest first, including expired ones.
    pub async fn browsers(&self) -> Result<Vec<BrowserRecord>, EngineError> {
        Ok(self.shared.store.browsers().await?)
    }

    /// Records that a browser was used, which extends its expiry.
    pub async fn note_browser_use(
        &self,
        id: Uuid,
        used_at: Timestamp,
        expires_at: Timestamp,
    ) -> Result<(), EngineError> {
        Ok(self.shared.store.note_browser_use(id, used_at, expires_at).await?)
    }

    /// Removes a browser and returns whether it existed.
    pub async fn remove_browser(&self, id: Uuid) -> Result<bool, EngineError> {
        Ok(self.shared.store.remove_browser(id).await?)
    }
}

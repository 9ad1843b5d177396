//! The part of the store that keeps the browsers of the owner.

use jiff::Timestamp;
use uuid::Uuid;

use super::StoreFuture;
use crate::model::BrowserRecord;

pub trait BrowserStore: Send + Sync + 'static {
    fn add_browser(&self, browser: BrowserRecord) -> StoreFuture<'_, ()>;

    /// Oldest first.
    fn browsers(&self) -> StoreFuture<'_, Vec<BrowserRecord>>;

    /// Does nothing if the browser is gone.
    fn note_browser_use(
        &self,
        id: Uuid,
        used_at: Timestamp,
        expires_at: Timestamp,
    ) -> StoreFuture<'_, ()>;

    /// Returns whether the browser was there.
    fn remove_browser(&self, id: Uuid) -> StoreFuture<'_, bool>;
}

//! The part of the store that keeps the owner's browsers.

use jiff::Timestamp;
use uuid::Uuid;

use super::StoreFuture;
use crate::model::BrowserRecord;

pub trait BrowserStore: Send + Sync + 'static {
    fn add_browser(&self, browser: BrowserRecord) -> StoreFuture<'_, ()>;

    /// Returns the browsers, oldest first.
    fn browsers(&self) -> StoreFuture<'_, Vec<BrowserRecord>>;

    /// Records a use of a browser. Does nothing if the browser no longer exists.
    fn note_browser_use(
        &self,
        id: Uuid,
        used_at: Timestamp,
        expires_at: Timestamp,
    ) -> StoreFuture<'_, ()>;

    /// Removes a browser and returns whether it existed.
    fn remove_browser(&self, id: Uuid) -> StoreFuture<'_, bool>;
}

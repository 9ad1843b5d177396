//! The owner's browsers in memory.

use angelia_core::{
    model::BrowserRecord,
    ports::{BrowserStore, StoreFuture},
};
use jiff::Timestamp;
use uuid::Uuid;

use super::MemoryStore;

impl BrowserStore for MemoryStore {
    fn add_browser(&self, browser: BrowserRecord) -> StoreFuture<'_, ()> {
        self.run(|kept| {
            kept.browsers.push(browser);
            kept.browsers.sort_by_key(|one| one.id);
            Ok(())
        })
    }

    fn browsers(&self) -> StoreFuture<'_, Vec<BrowserRecord>> {
        self.run(|kept| Ok(kept.browsers.clone()))
    }

    fn note_browser_use(
        &self,
        id: Uuid,
        used_at: Timestamp,
        expires_at: Timestamp,
    ) -> StoreFuture<'_, ()> {
        self.run(|kept| {
            for browser in kept.browsers.iter_mut().filter(|one| one.id == id) {
                (browser.used_at, browser.expires_at) = (used_at, expires_at);
            }
            Ok(())
        })
    }

    fn remove_browser(&self, id: Uuid) -> StoreFuture<'_, bool> {
        self.run(|kept| {
            let before = kept.browsers.len();
            kept.browsers.retain(|one| one.id != id);
            Ok(kept.browsers.len() < before)
        })
    }
}

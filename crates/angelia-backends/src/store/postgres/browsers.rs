//! The browsers that the owner has signed in with.

use angelia_core::{
    model::BrowserRecord,
    ports::{BrowserStore, StoreFuture},
};
use jiff::Timestamp;
use uuid::Uuid;

use super::{
    PostgresStore,
    columns::{nanoseconds, text, time, uuid},
};
use crate::store::unreadable::Unreadable;

impl BrowserStore for PostgresStore {
    fn add_browser(&self, browser: BrowserRecord) -> StoreFuture<'_, ()> {
        Box::pin(self.alone.write(async move |db| {
            db.execute(
                "INSERT INTO browsers (id, sha256, name, created_at, used_at, expires_at)
                 VALUES ($1, $2, $3, $4, $5, $6)",
                &[
                    &browser.id,
                    &&browser.sha256[..],
                    &browser.name.as_bytes(),
                    &nanoseconds(browser.created_at),
                    &nanoseconds(browser.used_at),
                    &nanoseconds(browser.expires_at),
                ],
            )
            .await
            .map(drop)
        }))
    }

    fn browsers(&self) -> StoreFuture<'_, Vec<BrowserRecord>> {
        let sql = "SELECT id, sha256, name, created_at, used_at, expires_at FROM browsers
            ORDER BY id";
        Box::pin(self.readers.read(sql, &[], |row| {
            let sha256: &[u8] = row.try_get(1)?;
            Ok(BrowserRecord {
                id: uuid(row, 0)?,
                sha256: sha256.try_into().map_err(|_| Unreadable("a hash".to_owned()))?,
                name: text(row, 2)?.into(),
                created_at: time(row, 3)?,
                used_at: time(row, 4)?,
                expires_at: time(row, 5)?,
            })
        }))
    }

    fn note_browser_use(
        &self,
        id: Uuid,
        used_at: Timestamp,
        expires_at: Timestamp,
    ) -> StoreFuture<'_, ()> {
        Box::pin(self.alone.write(async move |db| {
            let sql = "UPDATE browsers SET used_at = $2, expires_at = $3 WHERE id = $1";
            let (used_at, expires_at) = (nanoseconds(used_at), nanoseconds(expires_at));
            db.execute(sql, &[&id, &used_at, &expires_at]).await.map(drop)
        }))
    }

    fn remove_browser(&self, id: Uuid) -> StoreFuture<'_, bool> {
        Box::pin(self.alone.write(async move |db| {
            Ok(db.execute("DELETE FROM browsers WHERE id = $1", &[&id]).await? > 0)
        }))
    }
}

//! The browsers that the owner has signed in with.

use angelia_core::{
    model::BrowserRecord,
    ports::{BrowserStore, StoreFuture},
};
use jiff::Timestamp;
use rusqlite::params;
use uuid::Uuid;

use super::{
    SqliteStore,
    columns::{nanoseconds, timestamp, uuid},
    read::query_all,
};

impl BrowserStore for SqliteStore {
    fn add_browser(&self, browser: BrowserRecord) -> StoreFuture<'_, ()> {
        Box::pin(self.writer.write(move |db| {
            let sql = "INSERT INTO browsers (id, sha256, name, created_at, used_at, expires_at)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
            db.connection.prepare_cached(sql)?.execute(params![
                browser.id.as_bytes(),
                browser.sha256,
                browser.name,
                nanoseconds(browser.created_at),
                nanoseconds(browser.used_at),
                nanoseconds(browser.expires_at),
            ])?;
            Ok(())
        }))
    }

    fn browsers(&self) -> StoreFuture<'_, Vec<BrowserRecord>> {
        Box::pin(self.readers.read(|db| {
            let sql = "SELECT id, sha256, name, created_at, used_at, expires_at FROM browsers
                ORDER BY id";
            query_all(db, sql, [], |row| {
                Ok(BrowserRecord {
                    id: uuid(row, 0)?,
                    sha256: row.get(1)?,
                    name: row.get(2)?,
                    created_at: timestamp(row.get(3)?),
                    used_at: timestamp(row.get(4)?),
                    expires_at: timestamp(row.get(5)?),
                })
            })
        }))
    }

    fn note_browser_use(
        &self,
        id: Uuid,
        used_at: Timestamp,
        expires_at: Timestamp,
    ) -> StoreFuture<'_, ()> {
        Box::pin(self.writer.write(move |db| {
            let sql = "UPDATE browsers SET used_at = ?2, expires_at = ?3 WHERE id = ?1";
            db.connection.prepare_cached(sql)?.execute(params![
                id.as_bytes(),
                nanoseconds(used_at),
                nanoseconds(expires_at)
            ])?;
            Ok(())
        }))
    }

    fn remove_browser(&self, id: Uuid) -> StoreFuture<'_, bool> {
        Box::pin(self.writer.write(move |db| {
            let sql = "DELETE FROM browsers WHERE id = ?1";
            Ok(db.connection.prepare_cached(sql)?.execute([id.as_bytes()])? > 0)
        }))
    }
}

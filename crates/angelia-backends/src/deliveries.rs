//! Texts that have to reach a channel, in a small SQLite file of its own. A reply is recorded
//! before it is sent, so that a delivery in progress during a power failure is found again.

use std::{
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use angelia_core::ports::{ChannelDelivery, DeliveryState, DeliveryStore, StoreError, StoreFuture};
use jiff::Timestamp;
use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS deliveries (
        id TEXT PRIMARY KEY,
        channel TEXT NOT NULL,
        text TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        state TEXT NOT NULL,
        attempts INTEGER NOT NULL,
        may_repeat INTEGER NOT NULL,
        error TEXT
    ) STRICT;
    CREATE INDEX IF NOT EXISTS open_deliveries ON deliveries (created_at)
        WHERE state IN ('pending', 'attempting');
";

const COLUMNS: &str = "id, channel, text, created_at, state, attempts, may_repeat, error";

#[derive(Debug, Clone)]
pub struct SqliteDeliveries {
    path: PathBuf,
    connection: Arc<Mutex<Connection>>,
}

impl SqliteDeliveries {
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let failed = |error: &dyn std::fmt::Display| file_error(path, error);
        let connection = Connection::open(path).map_err(|error| failed(&error))?;
        // Before SQLite creates the write-ahead log, which copies the mode of this file: both
        // hold replies.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
            .map_err(|error| failed(&error))?;
        let prepare = || {
            connection.busy_timeout(BUSY_TIMEOUT)?;
            connection.pragma_update(None, "journal_mode", "wal")?;
            connection.pragma_update(None, "synchronous", "full")?;
            connection.execute_batch(SCHEMA)
        };
        prepare().map_err(|error| failed(&error))?;
        Ok(Self { path: path.to_owned(), connection: Arc::new(Mutex::new(connection)) })
    }

    /// Runs `act` on a blocking thread, because it waits for the disk.
    fn run_blocking<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> StoreFuture<'static, T> {
        let this = self.clone();
        Box::pin(async move {
            let acting = tokio::task::spawn_blocking(move || {
                let connection = this.connection.lock();
                act(&connection).map_err(|error| file_error(&this.path, &error))
            });
            acting.await.unwrap_or_else(|error| {
                let message = format!("the list of deliveries could not be used: {error}");
                Err(StoreError::Failed { message })
            })
        })
    }
}

impl DeliveryStore for SqliteDeliveries {
    fn add<'a>(&'a self, delivery: &'a ChannelDelivery) -> StoreFuture<'a, ()> {
        let new = delivery.clone();
        self.run_blocking(move |connection| {
            let (state, attempts, may_repeat, error) = state_columns(&new.state);
            let sql = format!(
                "INSERT INTO deliveries ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
                 ON CONFLICT (id) DO NOTHING"
            );
            let at = new.created_at.as_microsecond();
            let row = params![
                &*new.id,
                &*new.channel,
                &*new.text,
                at,
                state,
                attempts,
                may_repeat,
                error
            ];
            connection.prepare_cached(&sql)?.execute(row).map(drop)
        })
    }

    fn set<'a>(&'a self, id: &'a str, state: &'a DeliveryState) -> StoreFuture<'a, ()> {
        let (id, new) = (id.to_owned(), state.clone());
        self.run_blocking(move |connection| {
            let (state, attempts, may_repeat, error) = state_columns(&new);
            let sql = "UPDATE deliveries SET state = ?, attempts = ?, may_repeat = ?, error = ?
                       WHERE id = ? AND state IN ('pending', 'attempting')";
            let row = params![state, attempts, may_repeat, error, id];
            connection.prepare_cached(sql)?.execute(row).map(drop)
        })
    }

    fn get<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<ChannelDelivery>> {
        let id = id.to_owned();
        self.run_blocking(move |connection| {
            let sql = format!("SELECT {COLUMNS} FROM deliveries WHERE id = ?");
            connection.prepare_cached(&sql)?.query_row([id], delivery_from_row).optional()
        })
    }

    fn list_unfinished(&self) -> StoreFuture<'_, Vec<ChannelDelivery>> {
        self.run_blocking(|connection| {
            let sql = format!(
                "SELECT {COLUMNS} FROM deliveries WHERE state IN ('pending', 'attempting')
                 ORDER BY created_at, id"
            );
            connection.prepare_cached(&sql)?.query_map([], delivery_from_row)?.collect()
        })
    }

    fn list(&self, limit: usize) -> StoreFuture<'_, Vec<ChannelDelivery>> {
        self.run_blocking(move |connection| {
            let sql = format!(
                "SELECT {COLUMNS} FROM deliveries ORDER BY created_at DESC, id DESC LIMIT ?"
            );
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            connection.prepare_cached(&sql)?.query_map([limit], delivery_from_row)?.collect()
        })
    }

    fn remove_finished(&self, before: Timestamp) -> StoreFuture<'_, usize> {
        self.run_blocking(move |connection| {
            let sql = "DELETE FROM deliveries
                       WHERE created_at < ? AND state IN ('delivered', 'failed')";
            connection.prepare_cached(sql)?.execute([before.as_microsecond()])
        })
    }
}

type StateColumns = (&'static str, u32, bool, Option<String>);

fn state_columns(state: &DeliveryState) -> StateColumns {
    let error = match state {
        DeliveryState::Failed { error, .. } => Some(error.to_string()),
        _ => None,
    };
    let may_repeat = match state {
        DeliveryState::Pending { may_repeat, .. }
        | DeliveryState::Attempting { may_repeat, .. } => *may_repeat,
        DeliveryState::Delivered { .. } | DeliveryState::Failed { .. } => false,
    };
    (state.as_str(), state.attempts(), may_repeat, error)
}

fn delivery_from_row(row: &Row<'_>) -> rusqlite::Result<ChannelDelivery> {
    let text = |column: usize| row.get::<_, String>(column);
    let (attempts, may_repeat) = (row.get(5)?, row.get(6)?);
    let state = match text(4)?.as_str() {
        "attempting" => DeliveryState::Attempting { attempts, may_repeat },
        "delivered" => DeliveryState::Delivered { attempts },
        "failed" => DeliveryState::Failed {
            attempts,
            error: row.get::<_, Option<String>>(7)?.unwrap_or_default().into(),
        },
        _ => DeliveryState::Pending { attempts, may_repeat },
    };
    Ok(ChannelDelivery {
        id: text(0)?.into(),
        channel: text(1)?.into(),
        text: text(2)?.into(),
        created_at: Timestamp::from_microsecond(row.get(3)?).unwrap_or(Timestamp::UNIX_EPOCH),
        state,
    })
}

fn file_error(path: &Path, error: &dyn std::fmt::Display) -> StoreError {
    StoreError::Failed { message: format!("cannot use {}: {error}", path.display()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(id: &str, second: i64) -> ChannelDelivery {
        ChannelDelivery {
            id: id.into(),
            channel: "webhook:ops".into(),
            text: "hello".into(),
            created_at: Timestamp::from_second(second).unwrap(),
            state: DeliveryState::NEW,
        }
    }

    #[tokio::test]
    async fn what_is_open_is_found_again_and_what_has_ended_stays_ended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deliveries.db");
        let ledger = SqliteDeliveries::open(&path).unwrap();
        for (id, second) in [("b", 2), ("a", 1), ("c", 3)] {
            ledger.add(&new(id, second)).await.unwrap();
        }
        let attempting = DeliveryState::Attempting { attempts: 1, may_repeat: false };
        ledger.set("a", &attempting).await.unwrap();
        ledger.set("b", &DeliveryState::Delivered { attempts: 1 }).await.unwrap();
        // Neither a late state of a finished delivery nor a second `add` changes anything.
        ledger.set("b", &attempting).await.unwrap();
        ledger.add(&new("b", 9)).await.unwrap();
        drop(ledger);

        let ledger = SqliteDeliveries::open(&path).unwrap();
        let open = ledger.list_unfinished().await.unwrap();
        let open: Vec<_> = open.iter().map(|one| (&*one.id, one.state.may_repeat())).collect();
        assert_eq!(open, [("a", true), ("c", false)]);
        let failed = DeliveryState::Failed { attempts: 3, error: "gone".into() };
        ledger.set("c", &failed).await.unwrap();
        assert_eq!(ledger.get("c").await.unwrap().unwrap().state, failed);
        assert_eq!(ledger.list(2).await.unwrap().len(), 2);
        let later = Timestamp::from_second(100).unwrap();
        assert_eq!(ledger.remove_finished(later).await.unwrap(), 2);
        assert_eq!(ledger.list(9).await.unwrap().len(), 1);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

//! Texts that have to reach a channel, in a small SQLite file of its own. A reply is recorded
//! before it is sent, so that a delivery in progress during a power failure is found again.

use std::{path::Path, sync::Arc};

use angelia_core::ports::{
    ChannelDelivery, DeliveryFormat, DeliveryState, DeliveryStore, StoreError, StoreFuture,
};
use jiff::Timestamp;
use rusqlite::{OptionalExtension as _, Row, params};

use crate::small_database::SmallDatabase;

/// Each version of the file adds its statements.
const SCHEMA: [&str; 2] = [
    "
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
    ",
    "
    ALTER TABLE deliveries ADD COLUMN format TEXT NOT NULL DEFAULT 'plain';
    ALTER TABLE deliveries ADD COLUMN file TEXT;
    ALTER TABLE deliveries ADD COLUMN reply_to TEXT;
    ALTER TABLE deliveries ADD COLUMN replaces TEXT;
    ALTER TABLE deliveries ADD COLUMN sent_parts INTEGER NOT NULL DEFAULT 0;
    ",
];

const COLUMNS: &str = "id, channel, text, created_at, state, attempts, may_repeat, error, format, file, \
                       reply_to, replaces, sent_parts";

#[derive(Debug, Clone)]
pub struct SqliteDeliveries {
    database: SmallDatabase,
}

impl SqliteDeliveries {
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Ok(Self { database: SmallDatabase::open(path, &SCHEMA)? })
    }
}

impl DeliveryStore for SqliteDeliveries {
    fn add<'a>(&'a self, delivery: &'a ChannelDelivery) -> StoreFuture<'a, ()> {
        let new = delivery.clone();
        self.database.run(move |connection| {
            let (state, attempts, may_repeat, error) = state_columns(&new.state);
            let sql = format!(
                "INSERT INTO deliveries ({COLUMNS})
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                 ON CONFLICT (id) DO NOTHING"
            );
            let at = new.created_at.as_microsecond();
            let (format, file) = match &new.format {
                DeliveryFormat::Plain => ("plain", None),
                DeliveryFormat::Markdown => ("markdown", None),
                DeliveryFormat::File(path) => ("file", path.to_str()),
            };
            let row = params![
                &*new.id,
                &*new.channel,
                &*new.text,
                at,
                state,
                attempts,
                may_repeat,
                error,
                format,
                file,
                new.reply_to.as_deref(),
                new.replaces.as_deref(),
                new.sent_parts
            ];
            connection.prepare_cached(&sql)?.execute(row).map(drop)
        })
    }

    fn set<'a>(&'a self, id: &'a str, state: &'a DeliveryState) -> StoreFuture<'a, ()> {
        let (id, new) = (id.to_owned(), state.clone());
        self.database.run(move |connection| {
            let (state, attempts, may_repeat, error) = state_columns(&new);
            let sql = "UPDATE deliveries SET state = ?, attempts = ?, may_repeat = ?, error = ?
                       WHERE id = ? AND state IN ('pending', 'attempting')";
            let row = params![state, attempts, may_repeat, error, id];
            connection.prepare_cached(sql)?.execute(row).map(drop)
        })
    }

    fn set_sent_parts<'a>(&'a self, id: &'a str, parts: u32) -> StoreFuture<'a, ()> {
        let id = id.to_owned();
        self.database.run(move |connection| {
            let sql = "UPDATE deliveries
                       SET sent_parts = ?, state = 'pending', attempts = 0, may_repeat = 0
                       WHERE id = ? AND state IN ('pending', 'attempting')";
            connection.prepare_cached(sql)?.execute(params![parts, id]).map(drop)
        })
    }

    fn get<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<ChannelDelivery>> {
        let id = id.to_owned();
        self.database.run(move |connection| {
            let sql = format!("SELECT {COLUMNS} FROM deliveries WHERE id = ?");
            connection.prepare_cached(&sql)?.query_row([id], delivery_from_row).optional()
        })
    }

    fn list_unfinished(&self) -> StoreFuture<'_, Vec<ChannelDelivery>> {
        self.database.run(|connection| {
            let sql = format!(
                "SELECT {COLUMNS} FROM deliveries WHERE state IN ('pending', 'attempting')
                 ORDER BY created_at, id"
            );
            connection.prepare_cached(&sql)?.query_map([], delivery_from_row)?.collect()
        })
    }

    fn list(&self, limit: usize) -> StoreFuture<'_, Vec<ChannelDelivery>> {
        self.database.run(move |connection| {
            let sql = format!(
                "SELECT {COLUMNS} FROM deliveries ORDER BY created_at DESC, id DESC LIMIT ?"
            );
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            connection.prepare_cached(&sql)?.query_map([limit], delivery_from_row)?.collect()
        })
    }

    fn remove_finished(&self, before: Timestamp) -> StoreFuture<'_, usize> {
        self.database.run(move |connection| {
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
    let optional = |column: usize| row.get::<_, Option<String>>(column);
    let (attempts, may_repeat) = (row.get(5)?, row.get(6)?);
    let state = match text(4)?.as_str() {
        "attempting" => DeliveryState::Attempting { attempts, may_repeat },
        "delivered" => DeliveryState::Delivered { attempts },
        "failed" => {
            DeliveryState::Failed { attempts, error: optional(7)?.unwrap_or_default().into() }
        }
        _ => DeliveryState::Pending { attempts, may_repeat },
    };
    Ok(ChannelDelivery {
        id: text(0)?.into(),
        channel: text(1)?.into(),
        text: text(2)?.into(),
        format: match (text(8)?.as_str(), optional(9)?) {
            ("file", Some(path)) => DeliveryFormat::File(path.into()),
            ("markdown", _) => DeliveryFormat::Markdown,
            _ => DeliveryFormat::Plain,
        },
        reply_to: optional(10)?.map(Arc::from),
        replaces: optional(11)?.map(Arc::from),
        sent_parts: row.get(12)?,
        created_at: Timestamp::from_microsecond(row.get(3)?).unwrap_or(Timestamp::UNIX_EPOCH),
        state,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn new(id: &str, second: i64) -> ChannelDelivery {
        ChannelDelivery {
            id: id.into(),
            channel: "webhook:ops".into(),
            text: "hello".into(),
            format: DeliveryFormat::Plain,
            reply_to: None,
            replaces: None,
            sent_parts: 0,
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

    #[tokio::test]
    async fn a_file_of_an_older_version_gets_the_new_columns() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deliveries.db");
        let old = rusqlite::Connection::open(&path).unwrap();
        old.execute_batch(SCHEMA[0]).unwrap();
        old.execute(
            "INSERT INTO deliveries VALUES ('a', 'webhook:x', 't', 1, 'pending', 2, 0, NULL)",
            [],
        )
        .unwrap();
        drop(old);
        let ledger = SqliteDeliveries::open(&path).unwrap();
        let kept = ledger.get("a").await.unwrap().unwrap();
        assert_eq!((kept.state.attempts(), &kept.format), (2, &DeliveryFormat::Plain));
        let file = ChannelDelivery {
            format: DeliveryFormat::File("x.txt".into()),
            reply_to: Some("7".into()),
            replaces: Some("8".into()),
            ..new("b", 2)
        };
        ledger.add(&file).await.unwrap();
        assert_eq!(ledger.get("b").await.unwrap(), Some(file));
        ledger
            .set("b", &DeliveryState::Attempting { attempts: 3, may_repeat: true })
            .await
            .unwrap();
        ledger.set_sent_parts("b", 2).await.unwrap();
        let next = ledger.get("b").await.unwrap().unwrap();
        assert_eq!((next.sent_parts, next.state), (2, DeliveryState::NEW));
    }
}

//! The chat store in SQLite.

use std::{path::Path, sync::Arc};

use angelia_core::{
    model::{ApprovalId, SessionId, TurnId},
    ports::{
        ApprovalCard, ChatGuest, ChatState, ChatStore, HookAnswer, InboundEvent, MAX_OPEN_CODES,
        PairingCode, ReplyRoute, StoreError, StoreFuture, StoredEvent,
    },
};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, TransactionBehavior, params};

use super::{event_json::EventJson, schema::SCHEMA};
use crate::small_database::SmallDatabase;

#[derive(Debug, Clone)]
pub struct SqliteChats {
    database: SmallDatabase,
}

impl SqliteChats {
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Ok(Self { database: SmallDatabase::open(path, &SCHEMA)? })
    }
}

impl ChatStore for SqliteChats {
    fn accept<'a>(
        &'a self,
        platform: &'a str,
        events: Vec<InboundEvent>,
        cursor: Option<Arc<str>>,
        at: Timestamp,
    ) -> StoreFuture<'a, Vec<StoredEvent>> {
        let platform: Arc<str> = platform.into();
        self.database.run(move |connection| {
            let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let mut added = Vec::new();
            for event in events {
                if let Some(position) = insert_event(&change, &platform, &event, at)? {
                    let platform = Arc::clone(&platform);
                    added.push(StoredEvent {
                        position,
                        platform,
                        received_at: at,
                        event,
                        turn: None,
                    });
                }
            }
            if let Some(cursor) = cursor {
                let sql = "INSERT INTO cursors (platform, cursor) VALUES (?, ?)
                           ON CONFLICT (platform) DO UPDATE SET cursor = excluded.cursor";
                change.prepare_cached(sql)?.execute([&*platform, &*cursor])?;
            }
            change.commit()?;
            Ok(added)
        })
    }

    fn cursor<'a>(&'a self, platform: &'a str) -> StoreFuture<'a, Option<Arc<str>>> {
        let platform = platform.to_owned();
        self.database.run(move |connection| {
            let sql = "SELECT cursor FROM cursors WHERE platform = ?";
            let mut statement = connection.prepare_cached(sql)?;
            let found =
                statement.query_row([platform], |row| row.get::<_, String>(0)).optional()?;
            Ok(found.map(Arc::from))
        })
    }

    fn put_route<'a>(
        &'a self,
        platform: &'a str,
        chat: &'a str,
        route: ReplyRoute,
        now: Timestamp,
    ) -> StoreFuture<'a, ()> {
        let (platform, chat) = (platform.to_owned(), chat.to_owned());
        self.database.run(move |connection| {
            let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let sql = "DELETE FROM routes WHERE platform = ? AND expires_at < ?";
            change.prepare_cached(sql)?.execute(params![platform, now.as_microsecond()])?;
            let sql = "INSERT INTO routes (platform, chat, value, expires_at) VALUES (?, ?, ?, ?)
                       ON CONFLICT (platform, chat) DO UPDATE
                       SET value = excluded.value, expires_at = excluded.expires_at";
            let expires_at = route.expires_at.as_microsecond();
            change.prepare_cached(sql)?.execute(params![
                platform,
                chat,
                route.value,
                expires_at
            ])?;
            change.commit()
        })
    }

    fn routes<'a>(&'a self, platform: &'a str) -> StoreFuture<'a, Vec<(Arc<str>, ReplyRoute)>> {
        let platform = platform.to_owned();
        self.database.run(move |connection| {
            let sql = "SELECT chat, value, expires_at FROM routes WHERE platform = ? ORDER BY chat";
            let route = |row: &Row<'_>| {
                let text = |column: usize| row.get::<_, String>(column).map(Arc::from);
                Ok((text(0)?, ReplyRoute { value: text(1)?, expires_at: timestamp(row.get(2)?) }))
            };
            connection.prepare_cached(sql)?.query_map([platform], route)?.collect()
        })
    }

    fn unfinished_events(&self) -> StoreFuture<'_, Vec<StoredEvent>> {
        self.database.run(|connection| {
            let sql = "SELECT position, platform, dedupe_key, received_at, event, turn FROM events
                       WHERE event IS NOT NULL ORDER BY position";
            connection.prepare_cached(sql)?.query_map([], event_from_row)?.collect()
        })
    }

    fn set_event_turn(&self, position: i64, turn: TurnId) -> StoreFuture<'_, ()> {
        self.database.run(move |connection| {
            let sql = "UPDATE events SET turn = ? WHERE position = ?";
            let row = params![turn.to_string(), position];
            connection.prepare_cached(sql)?.execute(row).map(drop)
        })
    }

    fn finish_event(&self, position: i64) -> StoreFuture<'_, ()> {
        self.database.run(move |connection| {
            let sql = "UPDATE events SET event = NULL WHERE position = ?";
            connection.prepare_cached(sql)?.execute([position]).map(drop)
        })
    }

    fn forget_before(&self, before: Timestamp) -> StoreFuture<'_, ()> {
        self.database.run(move |connection| {
            let before = before.as_microsecond();
            let sql = "DELETE FROM events WHERE event IS NULL AND received_at < ?";
            connection.execute(sql, [before])?;
            for table in ["cards", "previews"] {
                connection.execute(&format!("DELETE FROM {table} WHERE at < ?"), [before])?;
            }
            Ok(())
        })
    }

    fn guests(&self) -> StoreFuture<'_, Vec<ChatGuest>> {
        self.database.run(|connection| {
            let sql = "SELECT platform, id, name, since FROM guests ORDER BY since, id";
            connection.prepare_cached(sql)?.query_map([], guest_from_row)?.collect()
        })
    }

    fn is_guest<'a>(&'a self, platform: &'a str, sender: &'a str) -> StoreFuture<'a, bool> {
        let key = [platform.to_owned(), sender.to_owned()];
        self.database.run(move |connection| {
            let sql = "SELECT 1 FROM guests WHERE platform = ? AND id = ?";
            connection.prepare_cached(sql)?.exists(key)
        })
    }

    fn remove_guest<'a>(&'a self, platform: &'a str, sender: &'a str) -> StoreFuture<'a, bool> {
        let key = [platform.to_owned(), sender.to_owned()];
        self.database.run(move |connection| {
            let sql = "DELETE FROM guests WHERE platform = ? AND id = ?";
            Ok(connection.prepare_cached(sql)?.execute(key)? > 0)
        })
    }

    fn offer_code(
        &self,
        offer: PairingCode,
        since: Timestamp,
    ) -> StoreFuture<'_, Option<PairingCode>> {
        self.database.run(move |connection| {
            let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            change.execute("DELETE FROM codes WHERE made_at < ?", [since.as_microsecond()])?;
            let open = list_codes(&change, since)?;
            let mut open = open.into_iter().filter(|code| code.platform == offer.platform);
            let kept = match open.clone().find(|code| code.sender == offer.sender) {
                Some(known) => Some(known),
                None if open.by_ref().count() >= MAX_OPEN_CODES => None,
                None => {
                    let sql = "INSERT INTO codes (code, platform, sender, name, made_at)
                               VALUES (?, ?, ?, ?, ?)";
                    let at = offer.made_at.as_microsecond();
                    let row =
                        params![&*offer.code, &*offer.platform, &*offer.sender, &*offer.name, at];
                    change.execute(sql, row)?;
                    Some(offer)
                }
            };
            change.commit()?;
            Ok(kept)
        })
    }

    fn codes(&self, since: Timestamp) -> StoreFuture<'_, Vec<PairingCode>> {
        self.database.run(move |connection| list_codes(connection, since))
    }

    fn redeem_code<'a>(
        &'a self,
        code: &'a str,
        since: Timestamp,
        at: Timestamp,
    ) -> StoreFuture<'a, Option<ChatGuest>> {
        let code = code.to_owned();
        self.database.run(move |connection| {
            let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let open = list_codes(&change, since)?;
            let Some(found) = open.into_iter().find(|one| *one.code == *code) else {
                return Ok(None);
            };
            change.execute("DELETE FROM codes WHERE code = ?", [&code])?;
            let sql = "INSERT INTO guests (platform, id, name, since) VALUES (?, ?, ?, ?)
                       ON CONFLICT (platform, id) DO UPDATE SET name = excluded.name";
            let row = params![&*found.platform, &*found.sender, &*found.name, at.as_microsecond()];
            change.execute(sql, row)?;
            change.commit()?;
            let PairingCode { platform, sender: id, name, .. } = found;
            Ok(Some(ChatGuest { platform, id, name, since: at }))
        })
    }

    fn chat_state<'a>(&'a self, address: &'a str) -> StoreFuture<'a, ChatState> {
        let address = address.to_owned();
        self.database.run(move |connection| {
            let sql = "SELECT session, profile, cwd FROM chats WHERE address = ?";
            let mut statement = connection.prepare_cached(sql)?;
            let found = statement.query_row([address], |row| {
                let text = |column: usize| row.get::<_, Option<String>>(column);
                Ok(ChatState {
                    session: text(0)?.and_then(|id| id.parse().ok()),
                    profile: text(1)?.map(Arc::from),
                    cwd: text(2)?.map(Into::into),
                })
            });
            Ok(found.optional()?.unwrap_or_default())
        })
    }

    fn put_chat_state<'a>(&'a self, address: &'a str, state: ChatState) -> StoreFuture<'a, ()> {
        let address = address.to_owned();
        self.database.run(move |connection| {
            let sql = "INSERT OR REPLACE INTO chats (address, session, profile, cwd)
                       VALUES (?, ?, ?, ?)";
            let cwd = state.cwd.as_deref().and_then(Path::to_str);
            let session = state.session.map(|id| id.to_string());
            let row = params![address, session, state.profile.as_deref(), cwd];
            connection.prepare_cached(sql)?.execute(row).map(drop)
        })
    }

    fn add_chat_session<'a>(
        &'a self,
        address: &'a str,
        session: SessionId,
        at: Timestamp,
    ) -> StoreFuture<'a, ()> {
        let row = (address.to_owned(), session.to_string(), at.as_microsecond());
        self.database.run(move |connection| {
            let sql = "INSERT OR IGNORE INTO chat_sessions (address, session, at) VALUES (?, ?, ?)";
            connection.prepare_cached(sql)?.execute(row).map(drop)
        })
    }

    fn chat_sessions<'a>(&'a self, address: &'a str) -> StoreFuture<'a, Vec<SessionId>> {
        let address = address.to_owned();
        self.database.run(move |connection| {
            let sql = "SELECT session FROM chat_sessions WHERE address = ?
                       ORDER BY at DESC, rowid DESC";
            let mut statement = connection.prepare_cached(sql)?;
            let ids = statement.query_map([address], |row| row.get::<_, String>(0))?;
            let ids: Vec<String> = ids.collect::<rusqlite::Result<_>>()?;
            Ok(ids.iter().filter_map(|id| id.parse().ok()).collect())
        })
    }

    fn put_card(&self, card: ApprovalCard, at: Timestamp) -> StoreFuture<'_, ()> {
        self.database.run(move |connection| {
            let sql = "INSERT OR REPLACE INTO cards (approval, address, message_id, at)
                       VALUES (?, ?, ?, ?)";
            let at = at.as_microsecond();
            let row = params![card.approval.to_string(), &*card.address, &*card.message_id, at];
            connection.prepare_cached(sql)?.execute(row).map(drop)
        })
    }

    fn card(&self, approval: ApprovalId) -> StoreFuture<'_, Option<ApprovalCard>> {
        self.database.run(move |connection| {
            let sql = "SELECT address, message_id FROM cards WHERE approval = ?";
            let mut statement = connection.prepare_cached(sql)?;
            let card = |row: &Row<'_>| {
                let text = |column: usize| row.get::<_, String>(column).map(Arc::from);
                Ok(ApprovalCard { approval, address: text(0)?, message_id: text(1)? })
            };
            statement.query_row([approval.to_string()], card).optional()
        })
    }

    fn put_preview<'a>(
        &'a self,
        turn: TurnId,
        message_id: &'a str,
        at: Timestamp,
    ) -> StoreFuture<'a, ()> {
        let row = (turn.to_string(), message_id.to_owned(), at.as_microsecond());
        self.database.run(move |connection| {
            let sql = "INSERT OR REPLACE INTO previews (turn, message_id, at) VALUES (?, ?, ?)";
            connection.prepare_cached(sql)?.execute(row).map(drop)
        })
    }

    fn preview(&self, turn: TurnId) -> StoreFuture<'_, Option<Arc<str>>> {
        self.database.run(move |connection| {
            let sql = "SELECT message_id FROM previews WHERE turn = ?";
            let mut statement = connection.prepare_cached(sql)?;
            let id = |row: &Row<'_>| row.get::<_, String>(0).map(Arc::from);
            statement.query_row([turn.to_string()], id).optional()
        })
    }

    fn put_hook_answer(&self, answer: HookAnswer) -> StoreFuture<'_, ()> {
        self.database.run(move |connection| {
            let sql =
                "INSERT OR REPLACE INTO hook_answers (turn, hook, recipient) VALUES (?, ?, ?)";
            let row = params![answer.turn.to_string(), &*answer.hook, &*answer.to];
            connection.prepare_cached(sql)?.execute(row).map(drop)
        })
    }

    fn hook_answers(&self) -> StoreFuture<'_, Vec<HookAnswer>> {
        self.database.run(|connection| {
            // The ids of turns sort by age.
            let sql = "SELECT turn, hook, recipient FROM hook_answers ORDER BY turn";
            let mut statement = connection.prepare_cached(sql)?;
            let rows = statement.query_map([], |row| {
                let text = |column: usize| row.get::<_, String>(column);
                Ok((text(0)?, text(1)?, text(2)?))
            })?;
            let rows: Vec<_> = rows.collect::<rusqlite::Result<_>>()?;
            let answers = rows.into_iter().filter_map(|(turn, hook, to)| {
                Some(HookAnswer { turn: turn.parse().ok()?, hook: hook.into(), to: to.into() })
            });
            Ok(answers.collect())
        })
    }

    fn remove_hook_answer(&self, turn: TurnId) -> StoreFuture<'_, ()> {
        self.database.run(move |connection| {
            let sql = "DELETE FROM hook_answers WHERE turn = ?";
            connection.prepare_cached(sql)?.execute([turn.to_string()]).map(drop)
        })
    }
}

/// Returns the position of the event, or `None` if it is known.
fn insert_event(
    change: &Connection,
    platform: &str,
    event: &InboundEvent,
    at: Timestamp,
) -> rusqlite::Result<Option<i64>> {
    let json = serde_json::to_string(&EventJson::from(event))
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    let sql = "INSERT INTO events (platform, dedupe_key, received_at, event) VALUES (?, ?, ?, ?)
               ON CONFLICT (platform, dedupe_key) DO NOTHING";
    let row = params![platform, &*event.dedupe_key, at.as_microsecond(), json];
    let is_new = change.prepare_cached(sql)?.execute(row)? > 0;
    Ok(is_new.then(|| change.last_insert_rowid()))
}

fn event_from_row(row: &Row<'_>) -> rusqlite::Result<StoredEvent> {
    let text = |column: usize| row.get::<_, String>(column);
    let json: EventJson = serde_json::from_str(&text(4)?).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(4, rusqlite::types::Type::Text, error.into())
    })?;
    Ok(StoredEvent {
        position: row.get(0)?,
        platform: text(1)?.into(),
        received_at: timestamp(row.get(3)?),
        event: json.into_event(text(2)?.into()),
        turn: row.get::<_, Option<String>>(5)?.and_then(|id| id.parse().ok()),
    })
}

fn guest_from_row(row: &Row<'_>) -> rusqlite::Result<ChatGuest> {
    let text = |column: usize| row.get::<_, String>(column).map(Arc::from);
    Ok(ChatGuest {
        platform: text(0)?,
        id: text(1)?,
        name: text(2)?,
        since: timestamp(row.get(3)?),
    })
}

fn list_codes(connection: &Connection, since: Timestamp) -> rusqlite::Result<Vec<PairingCode>> {
    let sql = "SELECT code, platform, sender, name, made_at FROM codes WHERE made_at >= ?
               ORDER BY made_at, code";
    let mut statement = connection.prepare_cached(sql)?;
    let code = |row: &Row<'_>| {
        let text = |column: usize| row.get::<_, String>(column).map(Arc::from);
        Ok(PairingCode {
            code: text(0)?,
            platform: text(1)?,
            sender: text(2)?,
            name: text(3)?,
            made_at: timestamp(row.get(4)?),
        })
    };
    statement.query_map([since.as_microsecond()], code)?.collect()
}

fn timestamp(microseconds: i64) -> Timestamp {
    Timestamp::from_microsecond(microseconds).unwrap_or(Timestamp::UNIX_EPOCH)
}

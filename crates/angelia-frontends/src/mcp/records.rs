//! Sessions and approvals as the tools show them: a page at a time, and never more than a model can
//! read.

use angelia_core::{
    model::{ApprovalRecord, SessionId, SessionRecord, TurnId, TurnRecord},
    ports::{Approvals, BoxFuture, Page, Store, StoreError},
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    Records, Refused, Sight,
    arguments::{List, Show},
    lineage,
};
use crate::http::resources::{self, InputPart};

const LISTED: usize = 20;
const MOST_LISTED: usize = 100;
const TURNS: usize = 10;
const MOST_TURNS: usize = 20;

/// The limit on a text in a list, in bytes.
const SHORT: usize = 2_000;
/// The limit on one page of the answer that was asked for, in bytes.
const PIECE: usize = 20_000;

/// How many records are read at once in the search for those that the caller may see.
const BATCH: usize = 100;
/// How many such batches are read for one page.
const BATCHES: usize = 10;

impl Records {
    async fn shows(&self, session: SessionId) -> Result<bool, Refused> {
        match self.sight {
            Sight::Everything => Ok(true),
            Sight::From(top) => Ok(lineage::is_below(&*self.store, session, top).await?),
        }
    }

    /// Answers `sessions_list`.
    pub(super) async fn sessions(&self, list: &List) -> Result<Value, Refused> {
        let (found, next) = self.page::<SessionRecord>(list).await?;
        let sessions: Vec<_> = found.iter().map(resources::Session::from).collect();
        Ok(json!({"sessions": sessions, "next": next}))
    }

    /// Answers `approvals_pending`.
    pub(super) async fn approvals(&self, list: &List) -> Result<Value, Refused> {
        let (found, next) = self.page::<ApprovalRecord>(list).await?;
        let approvals: Vec<Value> = found.iter().map(waiting).collect();
        Ok(json!({"approvals": approvals, "next": next}))
    }

    /// Returns the records of a page that the caller may see, and the cursor of the next page.
    async fn page<T: Listed>(&self, list: &List) -> Result<(Vec<T>, Option<String>), Refused> {
        let limit = within(list.limit, LISTED, MOST_LISTED);
        let mut page = Page { limit: BATCH, before: cursor(list.before.as_deref())? };
        let mut found = Vec::new();
        for _ in 0..BATCHES {
            let batch = T::read(&*self.store, page).await?;
            let is_last = batch.len() < BATCH;
            for one in batch {
                if found.len() == limit {
                    return Ok((found, page.before.map(|id| id.to_string())));
                }
                // Also for records that the caller may not see, so that the next page starts after
                // them.
                page.before = Some(one.id());
                if self.shows(one.session()).await? {
                    found.push(one);
                }
            }
            if is_last {
                return Ok((found, None));
            }
        }
        Ok((found, page.before.map(|id| id.to_string())))
    }

    /// Answers `sessions_show`.
    pub(super) async fn session(&self, show: &Show) -> Result<Value, Refused> {
        let unknown = || {
            Refused::new(format!("there is no session `{}` that you may see", show.session))
                .with_hint("sessions_list shows the sessions that you may see")
        };
        let id: SessionId = show.session.parse().map_err(|_| unknown())?;
        let session = self.store.session(id).await?.ok_or_else(unknown)?;
        if !self.shows(id).await? {
            return Err(unknown());
        }
        if let Some(turn) = &show.turn {
            return self.turn(id, turn, show.offset.unwrap_or(0)).await;
        }
        let limit = within(show.limit, TURNS, MOST_TURNS);
        let page = Page { limit, before: cursor(show.before.as_deref())? };
        let turns = self.store.turns(Some(id), page).await?;
        let full = turns.len() == limit;
        let next = turns.last().filter(|_| full).map(|turn| turn.id.to_string());
        let turns: Vec<Value> = turns.iter().map(short).collect();
        Ok(json!({
            "session": resources::Session::from(&session),
            "turns": turns,
            "next": next,
        }))
    }

    async fn turn(&self, session: SessionId, turn: &str, offset: u64) -> Result<Value, Refused> {
        let unknown = || Refused::new(format!("the session has no turn `{turn}`"));
        let id: TurnId = turn.parse().map_err(|_| unknown())?;
        let turn = self.store.turn(id).await?;
        let turn = turn.filter(|turn| turn.session == session).ok_or_else(unknown)?;
        let mut shown = short(&turn);
        let text = turn.state.outcome().map_or("", |outcome| &outcome.text);
        let offset = usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
        let from = text.floor_char_boundary(offset);
        let until = text.floor_char_boundary(from.saturating_add(PIECE));
        shown["text"] = text[from..until].into();
        let more = (until < text.len()).then_some(until);
        shown["next_offset"] = more.into();
        Ok(shown)
    }
}

/// A record that can be listed, and its session.
trait Listed: Sized + Send {
    fn read(store: &dyn Store, page: Page) -> BoxFuture<'_, Result<Vec<Self>, StoreError>>;
    fn id(&self) -> Uuid;
    fn session(&self) -> SessionId;
}

impl Listed for SessionRecord {
    fn read(store: &dyn Store, page: Page) -> BoxFuture<'_, Result<Vec<Self>, StoreError>> {
        store.sessions(page)
    }

    fn id(&self) -> Uuid {
        self.id.as_uuid()
    }

    fn session(&self) -> SessionId {
        self.id
    }
}

impl Listed for ApprovalRecord {
    fn read(store: &dyn Store, page: Page) -> BoxFuture<'_, Result<Vec<Self>, StoreError>> {
        store.approvals(Approvals::Pending, page)
    }

    fn id(&self) -> Uuid {
        self.approval.id.as_uuid()
    }

    fn session(&self) -> SessionId {
        self.session
    }
}

fn within(wanted: Option<u32>, usual: usize, most: usize) -> usize {
    wanted.map_or(usual, |wanted| wanted as usize).clamp(1, most)
}

fn cursor(before: Option<&str>) -> Result<Option<Uuid>, Refused> {
    let wrong = |_| Refused::new("before: this is not a cursor of the list; use `next` of a page");
    before.map(str::parse).transpose().map_err(wrong)
}

/// Returns a turn as lists show it.
fn short(turn: &TurnRecord) -> Value {
    let turn = resources::Turn::from(turn);
    let input: Vec<String> = turn
        .input
        .iter()
        .map(|part| match part {
            InputPart::Text { text } => shortened(text),
            InputPart::Image { media_type, .. } => format!("({media_type})"),
        })
        .collect();
    json!({
        "id": turn.id.to_string(),
        "status": turn.status,
        "created_at": turn.created_at,
        "finished_at": turn.finished_at,
        "input": shortened(&input.join("\n")),
        "text": turn.text.as_deref().map(shortened),
        "reason": turn.reason,
        "failure": turn.failure,
        "cost_usd": turn.usage.and_then(|usage| usage.0.cost_usd),
    })
}

fn waiting(record: &ApprovalRecord) -> Value {
    let approval = resources::Approval::from(record);
    json!({
        "id": approval.id.to_string(),
        "session_id": approval.session_id.to_string(),
        "turn_id": approval.turn_id.to_string(),
        "kind": approval.kind,
        "tool": approval.tool,
        "title": shortened(&approval.title),
        "detail": shortened(&approval.detail),
        "asked_at": approval.asked_at,
        "expires_at": approval.expires_at,
    })
}

fn shortened(text: &str) -> String {
    let end = text.floor_char_boundary(SHORT);
    match text.len() - end {
        0 => text.to_owned(),
        more => format!("{} … and {more} bytes more", &text[..end]),
    }
}

//! Sessions and approvals for the tools: one page at a time, and never more than a model can read.

use angelia_core::{
    model::{ApprovalRecord, SessionId, SessionSummary, TurnId, TurnRecord},
    ports::{ApprovalFilter, BoxFuture, Page, SessionQuery, Store, StoreError},
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    ToolCallError, Visibility, VisibleRecords,
    arguments::{PageArgs, ShowSessionArgs},
    lineage,
};
use crate::http::resources::{self, InputPart};

const DEFAULT_LISTED: usize = 20;
const MAX_LISTED: usize = 100;
const DEFAULT_TURNS: usize = 10;
const MAX_TURNS: usize = 20;

/// The limit on a text in a list, in bytes.
const MAX_LISTED_TEXT_BYTES: usize = 2_000;
/// The limit on one page of the requested answer, in bytes.
const ANSWER_PAGE_BYTES: usize = 20_000;

/// How many records are read at once in search of those that the caller may see.
const SCAN_BATCH: usize = 100;
/// How many such batches are read for one page.
const MAX_SCAN_BATCHES: usize = 10;

impl VisibleRecords {
    async fn can_see(&self, session: SessionId) -> Result<bool, ToolCallError> {
        match self.visibility {
            Visibility::Everything => Ok(true),
            Visibility::SessionTree(top) => {
                Ok(lineage::is_same_or_descendant(&*self.store, session, top).await?)
            }
        }
    }

    /// Answers `sessions_list`.
    pub(super) async fn list_sessions(&self, list: &PageArgs) -> Result<Value, ToolCallError> {
        let (found, next) = self.visible_page::<SessionSummary>(list).await?;
        let sessions: Vec<_> = found.iter().map(resources::SessionResource::from).collect();
        Ok(json!({"sessions": sessions, "next": next}))
    }

    /// Answers `approvals_pending`.
    pub(super) async fn pending_approvals(&self, list: &PageArgs) -> Result<Value, ToolCallError> {
        let (found, next) = self.visible_page::<ApprovalRecord>(list).await?;
        let approvals: Vec<Value> = found.iter().map(approval_summary).collect();
        Ok(json!({"approvals": approvals, "next": next}))
    }

    /// Returns the records of a page that the caller may see, and the cursor of the next page.
    async fn visible_page<T: ListableRecord>(
        &self,
        list: &PageArgs,
    ) -> Result<(Vec<T>, Option<String>), ToolCallError> {
        let limit = clamp_limit(list.limit, DEFAULT_LISTED, MAX_LISTED);
        let mut page = Page { limit: SCAN_BATCH, before: parse_cursor(list.before.as_deref())? };
        let mut found = Vec::new();
        for _ in 0..MAX_SCAN_BATCHES {
            let batch = T::read_page(&*self.store, page).await?;
            let is_last = batch.len() < SCAN_BATCH;
            for one in batch {
                if found.len() == limit {
                    return Ok((found, page.before.map(|id| id.to_string())));
                }
                // Include records that the caller may not see, so that the next page starts after
                // them.
                page.before = Some(one.id());
                if self.can_see(one.session()).await? {
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
    pub(super) async fn show_session(
        &self,
        show: &ShowSessionArgs,
    ) -> Result<Value, ToolCallError> {
        let unknown = || {
            ToolCallError::new(format!("there is no session `{}` that you may see", show.session))
                .with_hint("sessions_list shows the sessions that you may see")
        };
        let id: SessionId = show.session.parse().map_err(|_| unknown())?;
        let mut found = self.store.list_sessions(SessionQuery::One(id)).await?;
        let session = found.pop().ok_or_else(unknown)?;
        if !self.can_see(id).await? {
            return Err(unknown());
        }
        if let Some(turn) = &show.turn {
            return self.show_turn(id, turn, show.offset.unwrap_or(0)).await;
        }
        let limit = clamp_limit(show.limit, DEFAULT_TURNS, MAX_TURNS);
        let page = Page { limit, before: parse_cursor(show.before.as_deref())? };
        let turns = self.store.turns(Some(id), page).await?;
        let full = turns.len() == limit;
        let next = turns.last().filter(|_| full).map(|turn| turn.id.to_string());
        let turns: Vec<Value> = turns.iter().map(turn_summary).collect();
        Ok(json!({
            "session": resources::SessionResource::from(&session),
            "turns": turns,
            "next": next,
        }))
    }

    async fn show_turn(
        &self,
        session: SessionId,
        turn: &str,
        offset: u64,
    ) -> Result<Value, ToolCallError> {
        let unknown = || ToolCallError::new(format!("the session has no turn `{turn}`"));
        let id: TurnId = turn.parse().map_err(|_| unknown())?;
        let turn = self.store.turn(id).await?;
        let turn = turn.filter(|turn| turn.session == session).ok_or_else(unknown)?;
        let mut shown = turn_summary(&turn);
        let text = turn.state.outcome().map_or("", |outcome| &outcome.text);
        let offset = usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
        let from = text.floor_char_boundary(offset);
        let until = text.floor_char_boundary(from.saturating_add(ANSWER_PAGE_BYTES));
        shown["text"] = text[from..until].into();
        let more = (until < text.len()).then_some(until);
        shown["next_offset"] = more.into();
        Ok(shown)
    }
}

/// A record that can be listed, and its session.
trait ListableRecord: Sized + Send {
    fn read_page(store: &dyn Store, page: Page) -> BoxFuture<'_, Result<Vec<Self>, StoreError>>;
    fn id(&self) -> Uuid;
    fn session(&self) -> SessionId;
}

impl ListableRecord for SessionSummary {
    fn read_page(store: &dyn Store, page: Page) -> BoxFuture<'_, Result<Vec<Self>, StoreError>> {
        store.list_sessions(SessionQuery::newest(page))
    }

    fn id(&self) -> Uuid {
        self.record.id.as_uuid()
    }

    fn session(&self) -> SessionId {
        self.record.id
    }
}

impl ListableRecord for ApprovalRecord {
    fn read_page(store: &dyn Store, page: Page) -> BoxFuture<'_, Result<Vec<Self>, StoreError>> {
        store.approvals(ApprovalFilter::Pending, page)
    }

    fn id(&self) -> Uuid {
        self.approval.id.as_uuid()
    }

    fn session(&self) -> SessionId {
        self.session
    }
}

fn clamp_limit(wanted: Option<u32>, usual: usize, most: usize) -> usize {
    wanted.map_or(usual, |wanted| wanted as usize).clamp(1, most)
}

fn parse_cursor(before: Option<&str>) -> Result<Option<Uuid>, ToolCallError> {
    let wrong =
        |_| ToolCallError::new("before: this is not a cursor of the list; use `next` of a page");
    before.map(str::parse).transpose().map_err(wrong)
}

/// Returns a turn with the fields that lists show.
fn turn_summary(turn: &TurnRecord) -> Value {
    let turn = resources::TurnResource::from(turn);
    let input: Vec<String> = turn
        .input
        .iter()
        .map(|part| match part {
            InputPart::Text { text } => truncate_text(text),
            InputPart::Image { media_type, .. } => format!("({media_type})"),
        })
        .collect();
    json!({
        "id": turn.id.to_string(),
        "status": turn.status,
        "created_at": turn.created_at,
        "finished_at": turn.finished_at,
        "input": truncate_text(&input.join("\n")),
        "text": turn.text.as_deref().map(truncate_text),
        "reason": turn.reason,
        "failure": turn.failure,
        "cost_usd": turn.usage.and_then(|usage| usage.0.cost_usd),
    })
}

fn approval_summary(record: &ApprovalRecord) -> Value {
    let approval = resources::ApprovalResource::new(record, None);
    json!({
        "id": approval.id.to_string(),
        "session_id": approval.session_id.to_string(),
        "turn_id": approval.turn_id.to_string(),
        "kind": approval.kind,
        "tool": approval.tool,
        "title": truncate_text(&approval.title),
        "detail": truncate_text(&approval.detail),
        "asked_at": approval.asked_at,
        "expires_at": approval.expires_at,
    })
}

fn truncate_text(text: &str) -> String {
    let end = text.floor_char_boundary(MAX_LISTED_TEXT_BYTES);
    match text.len() - end {
        0 => text.to_owned(),
        more => format!("{} … and {more} bytes more", &text[..end]),
    }
}

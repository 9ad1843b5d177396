//! Rebuilds a session's conversation from the recorded events as messages with roles, for readers
//! and for an agent that takes over from another or has lost its own conversation.

use std::{fmt, sync::Arc};

use super::{transcript::UNFINISHED_TOOL_OUTPUT, turn_runner::store_failure};
use crate::{
    model::{
        BlockId, Content, EventKind, Failure, HistoryMessage, MessagePart, Role, SessionId,
        SessionRecord, TextChannel, ToolId, TurnEvent, TurnId, TurnRecord,
    },
    ports::{BoxFuture, ConversationRecord, Page, RecordedTurn, Store, StoreError},
};

const PAGE: usize = 256;

/// Where to stop reading a conversation.
#[derive(Clone, Copy, Debug)]
pub(super) enum ConversationEnd {
    Newest,
    /// Without this turn.
    Before(TurnId),
    /// Including this turn.
    After(TurnId),
}

/// Returns the messages of a session, including those of the sessions it was forked from.
pub(super) async fn messages(
    store: &dyn Store,
    session: &SessionRecord,
    end: ConversationEnd,
) -> Result<Vec<HistoryMessage>, StoreError> {
    // A fork copies its parent's specification, including the history that the parent started from.
    let mut messages = session.spec.history.clone();
    for turn in &turns_after_history(store, session, end).await? {
        let parts = answer_parts(&events_of(store, turn.id).await?);
        // Skip a turn without an answer: its input alone is nothing to continue from.
        if !parts.is_empty() {
            append_turn(turn, parts, &mut messages);
        }
    }
    Ok(messages)
}

/// The turns of a session, for an agent that keeps no conversation of its own.
pub(super) struct StoredConversation<'a> {
    pub(super) store: &'a dyn Store,
    pub(super) session: &'a SessionRecord,
    /// The turn for which the agent is opened.
    pub(super) turn: TurnId,
    /// Whether an earlier agent has already begun to answer that turn.
    pub(super) is_begun: bool,
}

impl fmt::Debug for StoredConversation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredConversation").field("session", &self.session.id).finish()
    }
}

impl ConversationRecord for StoredConversation<'_> {
    fn turns(&self) -> BoxFuture<'_, Result<Vec<RecordedTurn>, Failure>> {
        let end = if self.is_begun {
            ConversationEnd::After(self.turn)
        } else {
            ConversationEnd::Before(self.turn)
        };
        Box::pin(async move {
            let read = async {
                let mut recorded = Vec::new();
                for turn in turns_after_history(self.store, self.session, end).await? {
                    let events = events_of(self.store, turn.id).await?;
                    let events = events.into_iter().map(|event| event.kind).collect();
                    let (id, is_owners) = (turn.id, turn.options.is_owners());
                    recorded.push(RecordedTurn { id, is_owners, input: turn.input, events });
                }
                Ok(recorded)
            };
            read.await.map_err(|error: StoreError| store_failure(&error))
        })
    }
}

/// Returns the turns of a session that are not part of its specification's history, oldest first.
async fn turns_after_history(
    store: &dyn Store,
    session: &SessionRecord,
    end: ConversationEnd,
) -> Result<Vec<TurnRecord>, StoreError> {
    let mut turns = conversation_turns(store, session, end).await?;
    if let Some(told) = session.spec.history_until
        && let Some(last_told) = turns.iter().position(|turn| turn.id == told)
    {
        turns.drain(..=last_told);
    }
    Ok(turns)
}

/// Returns the turns of a session, oldest first, preceded by those of the sessions it was forked
/// from.
pub(super) async fn conversation_turns(
    store: &dyn Store,
    session: &SessionRecord,
    end: ConversationEnd,
) -> Result<Vec<TurnRecord>, StoreError> {
    let mut turns = turns_newest_first(store, session.id, end).await?;
    let mut youngest = session.clone();
    while let Some(parent) = youngest.forked_from
        && let Some(parent) = store.session(parent).await?
    {
        if let Some(last) = youngest.forked_after {
            let end = ConversationEnd::After(last);
            turns.extend(turns_newest_first(store, parent.id, end).await?);
        }
        youngest = parent;
    }
    turns.reverse();
    Ok(turns)
}

async fn turns_newest_first(
    store: &dyn Store,
    session: SessionId,
    end: ConversationEnd,
) -> Result<Vec<TurnRecord>, StoreError> {
    let mut turns = Vec::new();
    let mut before = match end {
        ConversationEnd::Newest => None,
        ConversationEnd::Before(turn) => Some(turn.as_uuid()),
        ConversationEnd::After(turn) => {
            turns.extend(store.turn(turn).await?.filter(|record| record.session == session));
            Some(turn.as_uuid())
        }
    };
    loop {
        let older = store.turns(Some(session), Page { limit: PAGE, before }).await?;
        let Some(oldest) = older.last() else { break };
        before = Some(oldest.id.as_uuid());
        turns.extend(older);
    }
    Ok(turns)
}

/// Returns the last turn of a session before `turn`.
pub(super) async fn last_turn_before(
    store: &dyn Store,
    session: &SessionRecord,
    turn: TurnId,
) -> Result<Option<TurnId>, StoreError> {
    let page = Page { limit: 1, before: Some(turn.as_uuid()) };
    let turns = store.turns(Some(session.id), page).await?;
    let last = turns.first().map(|turn| turn.id);
    Ok(last.or(session.spec.history_until))
}

/// Appends the input and the partial answer of a turn that another segment will continue.
pub(super) async fn append_unfinished_turn(
    store: &dyn Store,
    turn: TurnId,
    messages: &mut Vec<HistoryMessage>,
) -> Result<(), StoreError> {
    let events = events_of(store, turn).await?;
    let turn = store.turn(turn).await?.ok_or(StoreError::NotFound("turn"))?;
    append_turn(&turn, answer_parts(&events), messages);
    Ok(())
}

/// Returns all recorded events of a turn.
pub(super) async fn events_of(
    store: &dyn Store,
    turn: TurnId,
) -> Result<Vec<TurnEvent>, StoreError> {
    let mut events = Vec::new();
    loop {
        let after = events.last().map_or(0, |event: &TurnEvent| event.seq);
        let page = store.replay(turn, after, PAGE).await?;
        if page.is_empty() {
            return Ok(events);
        }
        events.extend(page);
    }
}

fn append_turn(
    turn: &TurnRecord,
    answer: Vec<(Role, MessagePart)>,
    messages: &mut Vec<HistoryMessage>,
) {
    push_parts(messages, Role::User, turn.input.iter().cloned().map(MessagePart::Content));
    for (role, part) in answer {
        push_parts(messages, role, [part]);
    }
}

/// Converts the events of one turn to message parts: text and tool calls as the assistant, tool
/// results as the user. The model APIs require that the results of a message's calls directly
/// follow that message, and that every call has a result.
fn answer_parts(events: &[TurnEvent]) -> Vec<(Role, MessagePart)> {
    let whole = |wanted: BlockId| {
        events.iter().rev().find_map(|event| match &event.kind {
            EventKind::Block { block, text, .. } if *block == wanted => Some(Arc::clone(text)),
            _ => None,
        })
    };
    let mut told: Vec<BlockId> = Vec::new();
    let mut open: Vec<&ToolId> = Vec::new();
    let mut parts = Vec::new();
    for event in events {
        match &event.kind {
            EventKind::Block { block, channel, .. }
                if *channel == TextChannel::Answer && !told.contains(block) =>
            {
                told.push(*block);
                // A block keeps the position of its first version and the text of its last one. A
                // withdrawn block has no text.
                if let Some(text) = whole(*block).filter(|text| !text.trim().is_empty()) {
                    parts.push((Role::Assistant, MessagePart::Content(Content::Text(text))));
                }
            }
            // Skip the calls of a sub-agent: the result of the call that started it covers them.
            EventKind::ToolCall(call) if call.parent.is_none() => {
                open.push(&call.id);
                let part = MessagePart::ToolUse {
                    id: call.id.clone(),
                    name: Arc::clone(&call.name),
                    input: call.input.clone(),
                };
                parts.push((Role::Assistant, part));
            }
            EventKind::ToolResult(result) if open.contains(&&result.id) => {
                parts.extend(open.drain(..).map(|id| tool_result(events, id)));
            }
            _ => {}
        }
    }
    parts.extend(open.drain(..).map(|id| tool_result(events, id)));
    parts
}

/// Returns the result of a call. Substitutes one if the process was killed before it recorded a
/// result.
fn tool_result(events: &[TurnEvent], id: &ToolId) -> (Role, MessagePart) {
    let result = events.iter().find_map(|event| match &event.kind {
        EventKind::ToolResult(result) if result.id == *id => Some(result),
        _ => None,
    });
    let (ok, output) = match result {
        Some(result) => (result.ok, Arc::clone(&result.output)),
        None => (false, UNFINISHED_TOOL_OUTPUT.into()),
    };
    let content = vec![Content::Text(output)];
    (Role::User, MessagePart::ToolResult { id: id.clone(), ok, content })
}

/// Appends parts to the last message if it has the same role, else starts a new message.
fn push_parts(
    messages: &mut Vec<HistoryMessage>,
    role: Role,
    parts: impl IntoIterator<Item = MessagePart>,
) {
    match messages.last_mut() {
        Some(last) if last.role == role => last.parts.extend(parts),
        _ => messages.push(HistoryMessage { role, parts: parts.into_iter().collect() }),
    }
}

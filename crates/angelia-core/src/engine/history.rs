//! Rebuilds a session's conversation from the recorded events as messages with roles: for an agent
//! that takes over from another, and for readers.

use std::sync::Arc;

use crate::{
    model::{
        BlockId, Content, EventKind, HistoryMessage, MessagePart, Role, SessionRecord, TextChannel,
        ToolId, TurnEvent, TurnId, TurnRecord,
    },
    ports::{Page, Store, StoreError},
};

const PAGE: usize = 256;

/// Returns the messages of a session before `turn`, including those of the sessions it was forked
/// from.
pub(super) async fn messages_before(
    store: &dyn Store,
    session: &SessionRecord,
    turn: TurnId,
) -> Result<Vec<HistoryMessage>, StoreError> {
    // Pairs of session and end, from the fork to its oldest ancestor. Only turns older than the end
    // count.
    let mut parts = vec![(session.clone(), turn.as_uuid())];
    while let Some((youngest, _)) = parts.last()
        && let Some(parent) = youngest.forked_from
        && let Some(parent) = store.session(parent).await?
    {
        // Ids sort by age: turns of the parent that are younger than the fork do not belong to it.
        let until = youngest.id.as_uuid();
        parts.push((parent, until));
    }
    // A fork copies its parent's specification, and with it the history the parent started from.
    let mut messages = session.spec.history.clone();
    let told = session.spec.history_until.map(TurnId::as_uuid);
    for (session, until) in parts.iter().rev() {
        let mut turns = Vec::new();
        let mut before = Some(*until);
        loop {
            let page = Page { limit: PAGE, before };
            let older = store.turns(Some(session.id), page).await?;
            let Some(oldest) = older.last() else { break };
            before = Some(oldest.id.as_uuid());
            turns.extend(older);
        }
        turns.retain(|turn: &TurnRecord| told.is_none_or(|told| turn.id.as_uuid() > told));
        for turn in turns.iter().rev() {
            append_turn(store, turn, &mut messages).await?;
        }
    }
    Ok(messages)
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

async fn append_turn(
    store: &dyn Store,
    turn: &TurnRecord,
    messages: &mut Vec<HistoryMessage>,
) -> Result<(), StoreError> {
    let mut events = Vec::new();
    loop {
        let after = events.last().map_or(0, |event: &TurnEvent| event.seq);
        let page = store.replay(turn.id, after, PAGE).await?;
        if page.is_empty() {
            break;
        }
        events.extend(page);
    }
    let answered = answer_parts(&events);
    // Skip a turn without any answer: there is nothing to continue from its input.
    if !answered.is_empty() {
        push_parts(messages, Role::User, turn.input.iter().cloned().map(MessagePart::Content));
        for (role, part) in answered {
            push_parts(messages, role, [part]);
        }
    }
    Ok(())
}

/// Converts the events of one turn to message parts: text and tool calls as the assistant, tool
/// results as the user.
fn answer_parts(events: &[TurnEvent]) -> Vec<(Role, MessagePart)> {
    let whole = |wanted: BlockId| {
        events.iter().rev().find_map(|event| match &event.kind {
            EventKind::Block { block, text, .. } if *block == wanted => Some(Arc::clone(text)),
            _ => None,
        })
    };
    let mut told: Vec<BlockId> = Vec::new();
    let mut open: Vec<ToolId> = Vec::new();
    let mut parts = Vec::new();
    for event in events {
        match &event.kind {
            EventKind::Block { block, channel, .. }
                if *channel == TextChannel::Answer && !told.contains(block) =>
            {
                told.push(*block);
                // Position of the first version of the block, text of the last one. A withdrawn
                // block has no text.
                if let Some(text) = whole(*block).filter(|text| !text.trim().is_empty()) {
                    parts.push((Role::Assistant, MessagePart::Content(Content::Text(text))));
                }
            }
            // Calls of a sub-agent are covered by the result of the call that started it.
            EventKind::ToolCall(call) if call.parent.is_none() => {
                open.push(call.id.clone());
                let part = MessagePart::ToolUse {
                    id: call.id.clone(),
                    name: Arc::clone(&call.name),
                    input: call.input.clone(),
                };
                parts.push((Role::Assistant, part));
            }
            EventKind::ToolResult(result) if open.contains(&result.id) => {
                open.retain(|id| *id != result.id);
                let part = MessagePart::ToolResult {
                    id: result.id.clone(),
                    ok: result.ok,
                    content: vec![Content::Text(Arc::clone(&result.output))],
                };
                parts.push((Role::User, part));
            }
            _ => {}
        }
    }
    parts
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

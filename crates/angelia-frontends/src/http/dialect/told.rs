//! What was said in a session, told from its record: for requests that name an answer instead of
//! repeating the conversation.

use std::collections::HashSet;

use angelia_core::{
    engine::EngineError,
    model::{
        Content, EventKind, Message, Part, Role, SessionId, TurnEvent, TurnId, TurnRecord,
        TurnState,
    },
    ports::Page,
};
use futures_util::FutureExt as _;

use super::{
    Begin, DialectError, ErrorKind, Piece, Shown, ShownFrom, Step, View, Whole, gathered::Gathered,
    matching,
};
use crate::http::{ApiState, keys::Who};

/// More turns than this are not told again.
const TURNS: usize = 1000;

/// The conversation of a session up to a turn, with true roles.
pub(super) async fn until(
    state: &ApiState,
    session: SessionId,
    last: Option<TurnId>,
) -> Result<Vec<Message>, DialectError> {
    let mut turns = state
        .engine
        .turns(Some(session), Page::first(TURNS))
        .await?;
    turns.reverse();
    if let Some(last) = last {
        turns.retain(|turn| turn.id.as_uuid() <= last.as_uuid());
    }
    let mut messages = Vec::new();
    for turn in turns {
        messages.push(Message {
            role: Role::User,
            parts: turn.input.iter().cloned().map(Part::Content).collect(),
        });
        let events = events(state, &turn).await?;
        answers(&events, &mut messages);
    }
    Ok(messages)
}

/// One answer of a turn as it was given; `Err`: not known, not theirs, or without an answer.
pub(in crate::http) async fn answer(
    state: &ApiState,
    who: &Who,
    turn: TurnId,
    part: u32,
) -> Result<Told, DialectError> {
    let unknown = || DialectError::new(ErrorKind::NotFound, "there is no such response");
    let record = match state.engine.turn(turn).await {
        Ok(record) if matching::is_theirs(&record, who) => record,
        Ok(_) | Err(EngineError::NotFound(_)) => return Err(unknown()),
        Err(error) => return Err(error.into()),
    };
    let session = state.engine.session(record.session).await?;
    let tools = session.spec.caller_tools.iter();
    let mut shown = Shown::new(View {
        model: session
            .spec
            .model
            .clone()
            .unwrap_or_else(|| "default".into()),
        from: ShownFrom::Part(part),
        tools: tools.map(|tool| tool.name.clone()).collect(),
        activity: false,
        hold: session.spec.output_schema.is_some(),
        max_tokens: None,
    });
    let mut gathered = Gathered::default();
    let mut pieces = Vec::new();
    for event in events(state, &record).await? {
        let step = shown.event(&event, &mut pieces);
        pieces.drain(..).for_each(|piece| gathered.piece(&piece));
        match step {
            Step::More => {}
            Step::Failed(failure) => return Err(failure.into()),
            Step::Over | Step::Cut | Step::Interrupted => break,
        }
    }
    Ok(match gathered.whole() {
        Some(whole) => Told::Whole(Box::new(whole)),
        None => Told::Unfinished(
            Begin {
                turn,
                session: record.session,
                part,
                model: session.spec.model.unwrap_or_else(|| "default".into()),
                at: record.created_at,
            },
            Box::new(record),
        ),
    })
}

/// How far an answer has come.
#[derive(Debug)]
pub(in crate::http) enum Told {
    Whole(Box<Whole>),
    /// It is under way, or was interrupted.
    Unfinished(Begin, Box<TurnRecord>),
}

/// What has happened so far, without waiting for more.
async fn events(state: &ApiState, turn: &TurnRecord) -> Result<Vec<TurnEvent>, DialectError> {
    let mut watch = state.engine.watch(turn.id, 0).await?;
    let mut events = Vec::new();
    let over = matches!(turn.state, TurnState::Finished { .. });
    loop {
        let next = if over {
            watch.next().await
        } else {
            // Of a turn that is under way everything there is comes at once, from memory.
            match watch.next().now_or_never() {
                Some(next) => next,
                None => break,
            }
        };
        match next.map_err(EngineError::from)? {
            Some(batch) => events.extend(batch.iter().cloned()),
            None => break,
        }
    }
    Ok(events)
}

/// Every answer of a turn, and what the tools said between them.
fn answers(events: &[TurnEvent], messages: &mut Vec<Message>) {
    let mut part = 0;
    loop {
        let mut shown = Shown::new(View {
            model: "".into(),
            from: ShownFrom::Part(part),
            tools: called(events),
            activity: false,
            hold: false,
            max_tokens: None,
        });
        let mut gathered = Gathered::default();
        let mut pieces: Vec<Piece> = Vec::new();
        let over = events.iter().any(|event| {
            let step = shown.event(event, &mut pieces);
            pieces.drain(..).for_each(|piece| gathered.piece(&piece));
            !matches!(step, Step::More)
        });
        let message = gathered.message();
        let calls: Vec<_> = gathered.calls().map(|(id, _)| id.clone()).collect();
        if !message.parts.is_empty() {
            messages.push(message);
        }
        if !over || calls.is_empty() {
            return;
        }
        let results = events.iter().filter_map(|event| match &event.kind {
            EventKind::ToolResult(result) if calls.contains(&result.id) => Some(Part::ToolResult {
                id: result.id.clone(),
                ok: result.ok,
                content: vec![Content::Text(result.output.clone())],
            }),
            _ => None,
        });
        messages.push(Message {
            role: Role::User,
            parts: results.collect(),
        });
        part += 1;
    }
}

/// Names of tools that were waited for: only the caller's are.
fn called(events: &[TurnEvent]) -> HashSet<std::sync::Arc<str>> {
    let calls = events.iter().filter_map(|event| match &event.kind {
        EventKind::ToolCall(call) => Some(call.name.clone()),
        _ => None,
    });
    calls.collect()
}

//! Rebuilds an answer from the record, for requests that refer to it by id.

use angelia_core::{
    engine::EngineError,
    model::{TurnEvent, TurnId, TurnRecord, TurnState},
};
use futures_util::FutureExt as _;

use super::{
    Begin, DialectError, ErrorKind, Shown, ShownFrom, Step, View, Whole, gathered::Gathered,
    matching,
};
use crate::http::{ApiState, keys::Who};

/// Returns one answer of a turn from the record. Fails if the turn is unknown, belongs to another
/// caller, or failed without an answer.
pub(in crate::http) async fn answer(
    state: &ApiState,
    who: &Who,
    turn: TurnId,
    part: u32,
) -> Result<Told, DialectError> {
    let unknown = || DialectError::new(ErrorKind::NotFound, "there is no such response");
    let record = match state.engine.turn(turn).await {
        Ok(record) if matching::is_theirs(record.options.caller.as_deref(), who) => record,
        Ok(_) | Err(EngineError::NotFound(_)) => return Err(unknown()),
        Err(error) => return Err(error.into()),
    };
    let session = state.engine.session(record.session).await?;
    let tools = session.spec.caller_tools.iter();
    let mut shown = Shown::new(View {
        model: session.spec.model.clone().unwrap_or_else(|| "default".into()),
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

/// An answer from the record.
#[derive(Debug)]
pub(in crate::http) enum Told {
    Whole(Box<Whole>),
    /// The answer is in progress, or was interrupted.
    Unfinished(Begin, Box<TurnRecord>),
}

/// Returns the events so far, without waiting for more.
async fn events(state: &ApiState, turn: &TurnRecord) -> Result<Vec<TurnEvent>, DialectError> {
    let mut watch = state.engine.watch(turn.id, 0).await?;
    let mut events = Vec::new();
    let over = matches!(turn.state, TurnState::Finished { .. });
    loop {
        let next = if over {
            watch.next().await
        } else {
            // The events of a running turn are in memory and available at once; waiting would mean
            // waiting for new ones.
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

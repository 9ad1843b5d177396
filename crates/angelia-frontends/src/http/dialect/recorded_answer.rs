//! Rebuilds an answer from the record, for requests that refer to it by id.

use angelia_core::{
    engine::EngineError,
    model::{TurnEvent, TurnId, TurnRecord, TurnState},
};
use futures_util::FutureExt as _;

use super::{
    AnswerHeader, AnswerProgress, AnswerProjector, CompleteAnswer, DialectError, ErrorKind,
    ProjectorOptions, ShownFrom, collector::AnswerCollector, matching,
};
use crate::http::{ApiState, keys::Principal};

/// Returns one answer of a turn from the record. Fails if the turn is unknown, belongs to another
/// caller, or failed without an answer.
pub(in crate::http) async fn load_recorded_answer(
    state: &ApiState,
    who: &Principal,
    turn: TurnId,
    part: u32,
) -> Result<RecordedAnswer, DialectError> {
    let unknown = || DialectError::new(ErrorKind::NotFound, "there is no such response");
    let record = match state.engine.turn(turn).await {
        Ok(record) if matching::is_callers_turn(record.options.caller.as_deref(), who) => record,
        Ok(_) | Err(EngineError::NotFound(_)) => return Err(unknown()),
        Err(error) => return Err(error.into()),
    };
    let session = state.engine.session(record.session).await?;
    let tools = session.spec.caller_tools.iter();
    let mut shown = AnswerProjector::new(ProjectorOptions {
        model: session.spec.model.clone().unwrap_or_else(|| "default".into()),
        start: ShownFrom::Part(part),
        tools: tools.map(|tool| tool.name.clone()).collect(),
        report_activity: false,
        hold_until_end: session.spec.output_schema.is_some(),
        max_tokens: None,
    });
    let mut gathered = AnswerCollector::default();
    let mut pieces = Vec::new();
    for event in events_so_far(state, &record).await? {
        let step = shown.project(&event, &mut pieces);
        pieces.drain(..).for_each(|piece| gathered.push(&piece));
        match step {
            AnswerProgress::More => {}
            AnswerProgress::Failed(failure) => return Err(failure.into()),
            AnswerProgress::Over | AnswerProgress::Cut | AnswerProgress::Interrupted => break,
        }
    }
    Ok(match gathered.into_complete() {
        Some(whole) => RecordedAnswer::Complete(Box::new(whole)),
        None => RecordedAnswer::Unfinished(
            AnswerHeader {
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
pub(in crate::http) enum RecordedAnswer {
    Complete(Box<CompleteAnswer>),
    /// The answer is in progress, or was interrupted.
    Unfinished(AnswerHeader, Box<TurnRecord>),
}

/// Returns the events so far, without waiting for more.
async fn events_so_far(
    state: &ApiState,
    turn: &TurnRecord,
) -> Result<Vec<TurnEvent>, DialectError> {
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

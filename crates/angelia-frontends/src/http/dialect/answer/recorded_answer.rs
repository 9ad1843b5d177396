//! Rebuilds an answer from the record, for requests that refer to it by id.

use std::sync::Arc;

use angelia_core::{
    engine::EngineError,
    model::{TurnEvent, TurnId, TurnRecord, TurnState},
};
use futures_util::FutureExt as _;

use super::{
    AnswerHeader, AnswerProgress, AnswerProjector, AnswerStart, CompleteAnswer, ProjectorOptions,
    collector::AnswerCollector,
};
use crate::http::{ApiState, ErrorKind, HttpError, Principal};

/// Returns one of a turn's answers from the record. Fails if the turn is unknown, belongs to
/// another caller, or failed without an answer.
pub(in crate::http) async fn load_recorded_answer(
    state: &ApiState,
    principal: &Principal,
    turn: TurnId,
    part: u32,
) -> Result<RecordedAnswer, HttpError> {
    let unknown = || HttpError::new(ErrorKind::NotFound, "there is no such response");
    let record = match state.engine.turn(turn).await {
        Ok(record) if principal.owns_turn_of(record.options.caller.as_deref()) => record,
        Ok(_) | Err(EngineError::NotFound(_)) => return Err(unknown()),
        Err(error) => return Err(error.into()),
    };
    let session = state.engine.session(record.session).await?;
    let model = session.spec.model.unwrap_or_else(|| "default".into());
    let tools = session.spec.caller_tools.iter();
    let mut projector = AnswerProjector::new(ProjectorOptions {
        model: Arc::clone(&model),
        start: AnswerStart::Part(part),
        tools: tools.map(|tool| tool.name.clone()).collect(),
        report_activity: false,
        hold_until_end: session.spec.output_schema.is_some(),
        max_tokens: None,
    });
    let mut collector = AnswerCollector::default();
    let mut chunks = Vec::new();
    for event in events_so_far(state, &record).await? {
        let progress = projector.project(&event, &mut chunks);
        chunks.drain(..).for_each(|chunk| collector.push(&chunk));
        match progress {
            AnswerProgress::More => {}
            AnswerProgress::Failed(failure) => return Err(failure.into()),
            AnswerProgress::NotStarted(failure) => return Err(HttpError::not_started(failure)),
            AnswerProgress::UnknownModel(failure) => return Err(HttpError::unknown_model(failure)),
            AnswerProgress::Over | AnswerProgress::Cut | AnswerProgress::Interrupted => break,
        }
    }
    Ok(match collector.into_complete() {
        Some(answer) => RecordedAnswer::Complete(Box::new(answer)),
        None => RecordedAnswer::Unfinished(
            AnswerHeader { turn, session: record.session, part, model, at: record.created_at },
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
async fn events_so_far(state: &ApiState, turn: &TurnRecord) -> Result<Vec<TurnEvent>, HttpError> {
    let mut watch = state.engine.watch(turn.id, 0).await?;
    let mut events = Vec::new();
    let over = matches!(turn.state, TurnState::Finished { .. });
    loop {
        let next = if over {
            watch.next().await
        } else {
            // The events of a running turn are in memory and immediately available; waiting would
            // mean waiting for new ones.
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

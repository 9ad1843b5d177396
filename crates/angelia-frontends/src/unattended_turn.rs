//! Shared code for turns without a waiting client, such as those of bus messages and schedules.

use angelia_core::{
    engine::{EngineError, TurnWatch},
    model::{EventKind, Failure, FailureKind, Outcome, TurnStatus},
    ports::StoreError,
};

/// Why a turn could not be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Profile(Failure),
}

impl StartError {
    /// Returns whether another attempt may succeed, for example because an agent is being updated
    /// or a queue is full.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Engine(
                EngineError::QueueFull { .. } | EngineError::Store(StoreError::Held(_)),
            ) => true,
            Self::Engine(EngineError::Failed(failure)) | Self::Profile(failure) => matches!(
                failure.kind,
                FailureKind::Unavailable | FailureKind::RateLimited | FailureKind::Timeout
            ),
            Self::Engine(_) => false,
        }
    }
}

/// Follows a turn to its end.
pub(crate) async fn wait_for_outcome(mut watch: TurnWatch) -> Result<Outcome, StoreError> {
    while let Some(batch) = watch.next().await? {
        if let Some(EventKind::Finished(outcome)) = batch.last().map(|event| &event.kind) {
            return Ok(outcome.clone());
        }
    }
    let message = "the turn's events ended without an outcome".to_owned();
    Err(StoreError::Failed { message })
}

/// Returns the text to send for a turn: the answer, and how the turn ended if it did not complete.
pub(crate) fn result_text(outcome: &Outcome) -> String {
    let text = outcome.text.trim_end();
    let more = match &outcome.status {
        TurnStatus::Completed => return text.to_owned(),
        TurnStatus::Partial => format!("(stopped early: {})", outcome.reason),
        TurnStatus::Interrupted => "(interrupted)".to_owned(),
        TurnStatus::Parked { resumes_at } => format!("(waits for a quota until {resumes_at})"),
        TurnStatus::Failed(failure) => format!("(failed: {failure})"),
    };
    if text.is_empty() { more } else { format!("{text}\n\n{more}") }
}

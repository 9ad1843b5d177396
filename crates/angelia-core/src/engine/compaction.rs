//! Has a session's agent shorten its conversation. This is a turn without input, so it is recorded, charged,
//! timed and interrupted like any other.

use std::sync::Arc;

use super::facade::{Engine, EngineError, Submission};
use crate::{
    model::{EventKind, Outcome, SessionId, TurnOptions, TurnStatus, TurnTask},
    ports::COMPACTED_REASON,
};

/// The result of a request to shorten a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionReport {
    pub compacted: bool,
    /// What was done, or why nothing was done.
    pub reason: Arc<str>,
}

impl Engine {
    /// Shortens the conversation of a session and waits for the result. Fails while a turn runs.
    pub async fn compact(
        &self,
        session: SessionId,
        options: TurnOptions,
    ) -> Result<CompactionReport, EngineError> {
        let record = self.cached_session(session).await?;
        let executor = self.shared.executor(&record.spec.executor)?;
        if !executor.capabilities().compact {
            let reason = format!(
                "`{}` shortens its conversations on its own, and cannot be told to",
                executor.name()
            );
            return Ok(CompactionReport { compacted: false, reason: reason.into() });
        }
        let options = TurnOptions { task: TurnTask::Compact, ..options };
        let mut turn = self.submit_with(Submission::new(session, Vec::new(), options)).await?;
        while let Some(batch) = turn.watch.next().await? {
            let end = batch.iter().find_map(|event| match &event.kind {
                EventKind::Finished(outcome) => Some(report(outcome)),
                _ => None,
            });
            if let Some(report) = end {
                return Ok(report);
            }
        }
        Err(EngineError::ShuttingDown)
    }
}

fn report(outcome: &Outcome) -> CompactionReport {
    let compacted = outcome.status == TurnStatus::Completed && &*outcome.reason == COMPACTED_REASON;
    let reason = match &outcome.status {
        TurnStatus::Failed(failure) => Arc::clone(&failure.message),
        _ if outcome.text.is_empty() => Arc::clone(&outcome.reason),
        _ => Arc::clone(&outcome.text),
    };
    CompactionReport { compacted, reason }
}

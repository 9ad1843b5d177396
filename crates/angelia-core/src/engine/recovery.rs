//! Closes turns that a killed process left unfinished, resumes parked and handed-over turns, and
//! removes stale sessions.

use std::sync::Arc;

use jiff::Timestamp;

use super::{
    facade::{Engine, EngineError},
    recorder::{EndError, Recorder},
    turn_log::TurnLog,
};
use crate::{
    model::{
        AuditAction, AuditActor, Failure, FailureKind, Outcome, TurnRecord, TurnState, TurnStatus,
    },
    ports::{Lease, StoreError},
};

impl Engine {
    /// Closes every turn whose owner process has died: the turn fails with the text recorded so far. Never
    /// reruns a turn. Returns the number of closed turns.
    pub async fn recover_lost_turns(&self) -> Result<usize, EngineError> {
        let mut closed = 0;
        for turn in self.shared.store.lost_turns().await? {
            match self.close_lost_turn(&turn).await {
                Ok(()) => closed += 1,
                // Another process that started at the same time has closed the turn first.
                Err(EngineError::Store(
                    StoreError::Held(_)
                    | StoreError::LeaseLost
                    | StoreError::TurnFinished
                    | StoreError::NotFound(_),
                )) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(closed)
    }

    async fn close_lost_turn(&self, turn: &TurnRecord) -> Result<(), EngineError> {
        let store = &self.shared.store;
        let lease = store.acquire_lease(turn.session).await?;
        let closed = self.record_lost_outcome(turn, &lease).await;
        store.release_lease(lease).await?;
        closed
    }

    async fn record_lost_outcome(
        &self,
        turn: &TurnRecord,
        lease: &Lease,
    ) -> Result<(), EngineError> {
        let (store, clock) = (Arc::clone(&self.shared.store), Arc::clone(&self.shared.clock));
        let log = TurnLog::new(turn.id, turn.session);
        let mut recorder = Recorder::new(store, clock, lease.clone(), log, usize::MAX);
        recorder.catch_up().await?;
        let outcome = Outcome {
            status: TurnStatus::Failed(lost_turn_failure(turn)),
            text: recorder.answer(),
            reason: "owner died".into(),
            usage: recorder.usage(),
        };
        // Pending approvals can no longer be answered, so they count as denied.
        match recorder.finish(outcome, "restart").await {
            Ok(()) => Ok(()),
            Err(EndError::Unwritten(_, error) | EndError::Refused(error)) => Err(error.into()),
        }
    }

    /// Resumes the turns that were parked or handed over by a restarted process, if no other process owns
    /// their session. Returns their number.
    pub async fn resume_turns(&self) -> Result<usize, EngineError> {
        let mut taken = 0;
        for turn in self.shared.store.resumable_turns(None).await? {
            match self.shared.get_or_start_actor(turn.session).await {
                Ok(_) => taken += 1,
                // Another process owns the session and continues its turns, or the session is gone.
                Err(EngineError::Store(StoreError::Held(_) | StoreError::NotFound(_))) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(taken)
    }

    /// Deletes the sessions that have not been used since `before`, including the agents' transcripts.
    pub async fn delete_stale_sessions(&self, before: Timestamp) -> Result<usize, EngineError> {
        let mut removed = 0;
        for session in self.shared.store.stale_sessions(before).await? {
            match self.delete_session(session.id).await {
                Ok(()) => {
                    removed += 1;
                    let subject = format!("session {}, unused since {before}", session.id);
                    self.record_audit(AuditActor::Terminal, AuditAction::Deletion, subject).await;
                }
                Err(error) => {
                    tracing::warn!(session = %session.id, %error, "stale session was not removed");
                }
            }
        }
        Ok(removed)
    }
}

/// Returns the failure of a turn whose process was killed.
pub fn lost_turn_failure(turn: &TurnRecord) -> Failure {
    // A turn is marked as running before its agent gets the input.
    let (message, hint) = if turn.state == TurnState::Queued {
        (
            "the angelia process that this turn waited in was killed before the turn started; \
             no agent got it",
            "send the request again",
        )
    } else {
        (
            "the angelia process that ran this turn was killed before the turn ended",
            "check what the agent has done so far, then send the request again",
        )
    };
    Failure::new(FailureKind::Internal, message).with_hint(hint)
}

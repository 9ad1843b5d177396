//! Turns that a killed process left behind are closed; sessions whose time is over are removed.

use std::sync::Arc;

use jiff::Timestamp;

use super::{
    approvals::resolved,
    facade::{Engine, EngineError},
    log::TurnLog,
    recorder::Recorder,
};
use crate::{
    model::{EventKind, Failure, FailureKind, Outcome, Status, TurnRecord, Verdict},
    ports::{Lease, StoreError},
};

impl Engine {
    /// Closes every turn whose owner has died: as failed, with the text that had been recorded.
    /// Nothing is run again by itself. Returns how many there were.
    pub async fn recover(&self) -> Result<usize, EngineError> {
        let mut closed = 0;
        for turn in self.shared.store.lost_turns().await? {
            match self.close_lost(&turn).await {
                Ok(()) => closed += 1,
                // Another process that starts at the same time was faster.
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

    async fn close_lost(&self, turn: &TurnRecord) -> Result<(), EngineError> {
        let store = &self.shared.store;
        let lease = store.acquire(turn.session).await?;
        let closed = self.write_lost_end(turn, &lease).await;
        store.release(lease).await?;
        closed
    }

    async fn write_lost_end(&self, turn: &TurnRecord, lease: &Lease) -> Result<(), EngineError> {
        let (store, clock) = (Arc::clone(&self.shared.store), Arc::clone(&self.shared.clock));
        let log = TurnLog::new(turn.id, turn.session);
        let mut recorder = Recorder::new(store, clock, lease.clone(), log, None);
        let open = recorder.catch_up().await?;
        let failure = Failure::new(
            FailureKind::Internal,
            "the angelia process that ran this turn was killed before the turn ended",
        )
        .with_hint("look at what the agent had done so far, then send the request again");
        let outcome = Outcome {
            status: Status::Failed(failure),
            text: recorder.answer(),
            reason: "owner died".into(),
            usage: recorder.usage(),
        };
        // Nobody can answer any more: what was open counts as declined.
        let declined = |id| resolved(id, Verdict::Deny, "restart");
        let mut kinds: Vec<EventKind> = open.into_iter().map(declined).collect();
        kinds.push(EventKind::Finished(outcome));
        recorder.record(kinds).await?;
        Ok(())
    }

    /// Takes up the turns that wait for a quota and that nobody else holds. Returns how many.
    pub async fn resume_parked(&self) -> Result<usize, EngineError> {
        let mut taken = 0;
        for turn in self.shared.store.parked_turns(None).await? {
            match self.shared.actor(turn.session).await {
                Ok(_) => taken += 1,
                // Another process waits with it.
                Err(EngineError::Store(StoreError::Held(_) | StoreError::NotFound(_))) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(taken)
    }

    /// Removes sessions that nobody has touched since, with the agents' own transcripts.
    pub async fn remove_stale(&self, before: Timestamp) -> Result<usize, EngineError> {
        let mut removed = 0;
        for session in self.shared.store.stale_sessions(before).await? {
            match self.delete_session(session.id).await {
                Ok(()) => removed += 1,
                Err(error) => {
                    tracing::warn!(session = %session.id, %error, "an old session was not removed");
                }
            }
        }
        Ok(removed)
    }
}

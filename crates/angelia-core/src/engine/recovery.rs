//! Turns that a killed process left behind are closed; sessions whose time is over are removed.

use jiff::Timestamp;

use super::{
    approvals::resolved,
    facade::{Engine, EngineError},
    log::TurnLog,
    recorder::Recorder,
    said::Said,
};
use crate::{
    model::{
        ApprovalId, EventKind, Failure, FailureKind, Outcome, Status, TurnRecord, Usage, Verdict,
    },
    ports::{Lease, StoreError},
};

const PAGE: usize = 512;

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
        let store = &self.shared.store;
        let mut said = Said::default();
        let mut usage = Usage::default();
        let mut open: Vec<ApprovalId> = Vec::new();
        let mut last = 0;
        loop {
            let page = store.replay(turn.id, last, PAGE).await?;
            let Some(newest) = page.last() else { break };
            last = newest.seq;
            for event in &page {
                said.note(&event.kind);
                match &event.kind {
                    EventKind::Usage(newer) => usage = newer.clone(),
                    EventKind::Approval(approval) => open.push(approval.id),
                    EventKind::Resolved(resolution) => open.retain(|id| *id != resolution.id),
                    _ => {}
                }
            }
        }
        let failure = Failure::new(
            FailureKind::Internal,
            "the angelia process that ran this turn was killed before the turn ended",
        )
        .with_hint("look at what the agent had done so far, then send the request again");
        let outcome = Outcome {
            status: Status::Failed(failure),
            text: said.answer(),
            reason: "owner died".into(),
            usage,
        };
        let log = TurnLog::new(turn.id, turn.session);
        let clock = std::sync::Arc::clone(&self.shared.clock);
        let mut recorder = Recorder::new(std::sync::Arc::clone(store), clock, lease.clone(), log);
        recorder.continue_after(last);
        // Nobody can answer any more: what was open counts as declined.
        let declined = |id| resolved(id, Verdict::Deny, "restart");
        let mut kinds: Vec<EventKind> = open.into_iter().map(declined).collect();
        kinds.push(EventKind::Finished(outcome));
        recorder.record(kinds).await?;
        Ok(())
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

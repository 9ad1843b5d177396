//! Draining: the engine accepts no new work, but lets running turns end. A drain can be cancelled,
//! or lead to a shutdown that may leave the queued turns to the next process
//! (`docs/design/0022-the-daemons-life.md`).

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use super::facade::{Engine, EngineError};
use crate::{
    model::{Failure, FailureKind, TurnRecord, TurnState, TurnStatus},
    ports::AgentOutcome,
};

/// Interval at which a drain checks for turns that are still running.
const DRAIN_CHECK_INTERVAL: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct DrainState {
    is_draining: watch::Sender<bool>,
    hands_over: AtomicBool,
}

impl DrainState {
    pub(super) fn new() -> Self {
        Self { is_draining: watch::Sender::new(false), hands_over: AtomicBool::new(false) }
    }

    pub(super) fn is_draining(&self) -> bool {
        *self.is_draining.borrow()
    }

    /// Returns whether the next process takes over the queued turns.
    pub(super) fn hands_over(&self) -> bool {
        self.hands_over.load(Ordering::Acquire)
    }

    /// Waits until the drain ends.
    pub(super) async fn wait_until_over(&self) {
        // Fails only if the sender is gone, but `self` owns the sender.
        let mut changes = self.is_draining.subscribe();
        let _over = changes.wait_for(|is_draining| !is_draining).await;
    }
}

impl Engine {
    /// Refuses new turns from now on. Queued and parked turns wait; running turns continue.
    pub fn begin_drain(&self) {
        self.shared.drain.is_draining.send_replace(true);
    }

    /// Cancels a drain.
    pub fn end_drain(&self) {
        self.shared.drain.is_draining.send_replace(false);
    }

    /// Returns whether new turns are refused because of a drain or a shutdown.
    pub fn is_draining(&self) -> bool {
        self.shared.drain.is_draining() || self.shared.tasks.stop_token().is_cancelled()
    }

    /// Waits until new turns are accepted. Returns `false` if the engine is shutting down.
    pub async fn wait_until_accepting(&self) -> bool {
        let stop = self.shared.tasks.stop_token();
        stop.run_until_cancelled(self.shared.drain.wait_until_over()).await.is_some()
    }

    /// Makes the following shutdown leave the queued turns to the next process. Turns that are
    /// still running, or are waiting for a person or a caller's tool, then end as failed.
    pub fn hand_over(&self) {
        self.begin_drain();
        self.shared.drain.hands_over.store(true, Ordering::Release);
    }

    /// Begins a drain and waits up to `limit` for running turns to end. Does not wait for turns
    /// that are waiting for a person or a caller's tool.
    pub async fn drain(&self, limit: Duration) {
        self.begin_drain();
        let until = Instant::now() + limit;
        while Instant::now() < until && self.has_running_turn().await {
            sleep(DRAIN_CHECK_INTERVAL).await;
        }
    }

    async fn has_running_turn(&self) -> bool {
        // If the store cannot be read, assume that a turn is still running.
        self.open_turns()
            .await
            .map_or(true, |open| open.iter().any(|turn| matches!(turn.state, TurnState::Running)))
    }

    /// Returns the turns of this process that have not ended, oldest first.
    pub async fn open_turns(&self) -> Result<Vec<TurnRecord>, EngineError> {
        let mut open = Vec::new();
        for id in self.shared.open_turn_ids() {
            match self.turn(id).await {
                Ok(TurnRecord { state: TurnState::Finished { .. }, .. })
                | Err(EngineError::NotFound(_)) => {}
                Ok(turn) => open.push(turn),
                Err(error) => return Err(error),
            }
        }
        open.sort_by_key(|turn| turn.id.as_uuid());
        Ok(open)
    }
}

/// Returns the outcome of a turn that was ended by a restart.
pub(super) fn restarted_outcome(ended: AgentOutcome) -> AgentOutcome {
    let failure =
        Failure::new(FailureKind::Unavailable, "angelia was restarted before the turn ended")
            .with_hint("check what the agent has done so far, then send the request again");
    AgentOutcome { status: TurnStatus::Failed(failure), reason: "restart".into(), ..ended }
}

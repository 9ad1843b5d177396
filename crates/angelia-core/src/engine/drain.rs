//! A drain: the engine takes no new work, and the turns that run may end. It can be taken back, or
//! lead to a shutdown, which may leave the queued turns to the next process
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

/// The pause between two checks of a drain for turns that still run.
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

    /// Whether the next process goes on with the queued turns.
    pub(super) fn hands_over(&self) -> bool {
        self.hands_over.load(Ordering::Acquire)
    }

    /// Waits until work is taken again.
    pub(super) async fn wait_until_over(&self) {
        // Fails only if the sender is gone, and this is its owner.
        let mut changes = self.is_draining.subscribe();
        let _over = changes.wait_for(|is_draining| !is_draining).await;
    }
}

impl Engine {
    /// Refuses new turns from now on. Queued and parked turns wait, and running ones go on.
    pub fn begin_drain(&self) {
        self.shared.drain.is_draining.send_replace(true);
    }

    /// Takes a drain back.
    pub fn end_drain(&self) {
        self.shared.drain.is_draining.send_replace(false);
    }

    /// Whether new turns are refused, because of a drain or a shutdown.
    pub fn is_draining(&self) -> bool {
        self.shared.drain.is_draining() || self.shared.tasks.stop_token().is_cancelled()
    }

    /// Waits until new turns are accepted. Returns `false` if that will not happen any more.
    pub async fn wait_until_accepting(&self) -> bool {
        let stop = self.shared.tasks.stop_token();
        stop.run_until_cancelled(self.shared.drain.wait_until_over()).await.is_some()
    }

    /// Makes the shutdown that follows leave the queued turns to the next process. Turns that still
    /// run, or that wait for a person or a caller's tool, then end as failed.
    pub fn hand_over(&self) {
        self.begin_drain();
        self.shared.drain.hands_over.store(true, Ordering::Release);
    }

    /// Begins a drain and waits until no turn runs, at most for `limit`. Turns that wait for a
    /// person or for a caller's tool are not waited for.
    pub async fn drain(&self, limit: Duration) {
        self.begin_drain();
        let until = Instant::now() + limit;
        while Instant::now() < until && self.has_running_turn().await {
            sleep(DRAIN_CHECK_INTERVAL).await;
        }
    }

    async fn has_running_turn(&self) -> bool {
        // A store that cannot be read says nothing about the turns.
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

/// Returns the outcome of a turn that a restart has ended.
pub(super) fn restarted_outcome(ended: AgentOutcome) -> AgentOutcome {
    let failure =
        Failure::new(FailureKind::Unavailable, "angelia was restarted before the turn ended")
            .with_hint("check what the agent has done so far, then send the request again");
    AgentOutcome { status: TurnStatus::Failed(failure), reason: "restart".into(), ..ended }
}

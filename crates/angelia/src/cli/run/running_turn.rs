//! A turn that a command follows until it ends, or until the command stops waiting for a parked
//! turn.

use std::sync::Arc;

use angelia_core::{
    engine::EventBatch,
    model::{ApprovalId, Decision, TurnId},
};
use angelia_frontends::turn_service::{AcceptedTurn, TurnEventSource, TurnService};

use super::park_tracker::ParkTracker;
use crate::cli::error::CommandError;

pub(crate) struct RunningTurn {
    id: TurnId,
    service: Arc<dyn TurnService>,
    events: Box<dyn TurnEventSource>,
    park_tracker: ParkTracker,
}

impl RunningTurn {
    /// Follows a turn that was just submitted. `is_attended` means that a person is at the
    /// terminal.
    pub(crate) fn new(
        service: Arc<dyn TurnService>,
        accepted: AcceptedTurn,
        is_attended: bool,
    ) -> Self {
        let AcceptedTurn { turn: id, events, .. } = accepted;
        Self { id, service, events, park_tracker: ParkTracker::new(is_attended) }
    }

    /// Follows a turn that another client submitted.
    pub(crate) async fn watch(
        service: Arc<dyn TurnService>,
        id: TurnId,
    ) -> Result<Self, CommandError> {
        let events = service.watch(id).await?;
        Ok(Self { id, service, events, park_tracker: ParkTracker::new(true) })
    }

    /// Returns the next events. Never empty, because a turn ends with a `Finished` event. Cancel
    /// safe.
    pub(crate) async fn next(&mut self) -> Result<EventBatch, CommandError> {
        // The `parked` notice has the reset time only in its text, so read the turn's record.
        if self.park_tracker.needs_resume_time() {
            let resumes_at = self.service.turn(self.id).await?.resumes_at;
            self.park_tracker.set_resume_time(resumes_at);
        }
        if let Some(end) = self.park_tracker.final_event(self.id) {
            return Ok(vec![end].into());
        }
        if let Some(batch) = self.events.next().await? {
            self.park_tracker.observe(&batch);
            return Ok(batch);
        }
        // The event stream ended before the turn did, because the process that held the parked turn
        // is gone.
        self.park_tracker.detach();
        let end = self.park_tracker.final_event(self.id);
        end.map(|end| vec![end].into())
            .ok_or_else(|| CommandError::internal("the turn's events ended without its end"))
    }

    /// Asks a running turn to stop, or detaches from a parked one. It is not an error if the turn
    /// has already finished.
    pub(crate) async fn stop(&mut self, kill: bool) {
        if self.park_tracker.detach() {
            return;
        }
        if let Err(error) = self.service.interrupt(self.id, kill).await {
            tracing::debug!(%error, "the turn could not be stopped");
        }
    }

    /// Sends a decision. It is not an error if another client decided first.
    pub(crate) async fn decide(&mut self, approval: ApprovalId, decision: Decision) {
        if let Err(error) = self.service.decide(approval, decision).await {
            tracing::debug!(%error, "the decision came too late");
        }
    }
}

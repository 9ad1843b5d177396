//! Announces changes to observers such as a dashboard or a status display. An announcement names the thing
//! that changed, not its new state; the observer reads the state itself.

use std::{sync::Arc, time::Duration};

use tokio::{sync::broadcast, time::Instant};

use super::facade::Engine;
use crate::model::{ApprovalId, EventKind, SessionId, TurnEvent, TurnId};

/// Number of announcements by which a listener may lag before it misses some.
const MAX_LAG: usize = 4096;

/// Minimum interval between announcements of a turn that is only writing text.
const TEXT_INTERVAL: Duration = Duration::from_millis(250);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EngineChange {
    /// A session was created, changed, used or deleted.
    Session(SessionId),
    /// A turn was accepted, made progress or ended.
    Turn(TurnId),
    /// An approval was requested or decided.
    Approval(ApprovalId),
    /// The agent of a session was started, became idle or busy, or was closed.
    Agent(SessionId),
    /// An agent reported a quota.
    Quota,
}

/// Sends announcements. Costs almost nothing while nobody listens.
#[derive(Clone, Debug)]
pub(super) struct Announcer(broadcast::Sender<EngineChange>);

impl Announcer {
    pub(super) fn new() -> Self {
        Self(broadcast::Sender::new(MAX_LAG))
    }

    pub(super) fn announce(&self, change: EngineChange) {
        let _nobody = self.0.send(change);
    }

    fn has_listeners(&self) -> bool {
        self.0.receiver_count() > 0
    }
}

/// Announces the progress of one turn.
#[derive(Debug)]
pub(super) struct TurnAnnouncer {
    announcer: Announcer,
    last: Option<Instant>,
}

impl TurnAnnouncer {
    pub(super) const fn new(announcer: Announcer) -> Self {
        Self { announcer, last: None }
    }

    /// Announces the changes in these events. Batches that contain only text deltas are rate-limited; the
    /// event that completes a block is always announced.
    pub(super) fn on_events(&mut self, turn: TurnId, events: &Arc<[TurnEvent]>) {
        if !self.announcer.has_listeners() {
            return;
        }
        for event in &**events {
            match &event.kind {
                EventKind::Approval(approval) => {
                    self.announcer.announce(EngineChange::Approval(approval.id));
                }
                EventKind::Resolved(resolution) => {
                    self.announcer.announce(EngineChange::Approval(resolution.id));
                }
                _ => {}
            }
        }
        let is_text = events.iter().all(|event| matches!(event.kind, EventKind::Delta { .. }));
        let now = Instant::now();
        if is_text && self.last.is_some_and(|last| now - last < TEXT_INTERVAL) {
            return;
        }
        self.last = Some(now);
        self.announcer.announce(EngineChange::Turn(turn));
    }
}

impl Engine {
    /// Subscribes to all changes in this process. A listener that falls too far behind misses announcements
    /// and must read everything again.
    pub fn subscribe(&self) -> broadcast::Receiver<EngineChange> {
        self.shared.announcer.0.subscribe()
    }
}

//! Announces what changes, for those who look on: a dashboard, a status display. An announcement names
//! the thing, not its new state, which the listener reads.

use std::{sync::Arc, time::Duration};

use tokio::{sync::broadcast, time::Instant};

use super::facade::Engine;
use crate::model::{ApprovalId, EventKind, SessionId, TurnEvent, TurnId};

/// Number of announcements a listener may lag behind before it misses some.
const MAX_LAG: usize = 4096;

/// The interval between announcements of a turn that only writes text.
const TEXT_INTERVAL: Duration = Duration::from_millis(250);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EngineChange {
    /// A session was created, changed, used or deleted.
    Session(SessionId),
    /// A turn was accepted, went on or ended.
    Turn(TurnId),
    /// An approval was requested or decided.
    Approval(ApprovalId),
    /// The agent of a session was started, became idle or busy, or was closed.
    Agent(SessionId),
    /// An agent reported a quota.
    Quota,
}

/// Sends announcements. Costs next to nothing while nobody listens.
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

    /// Announces what these events change. Text alone is announced now and then: the event with
    /// which its block ends always is.
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
    /// Subscribes to everything that changes in this process. A listener that falls far behind
    /// misses announcements, and must look at everything again.
    pub fn subscribe(&self) -> broadcast::Receiver<EngineChange> {
        self.shared.announcer.0.subscribe()
    }
}

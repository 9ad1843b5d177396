//! Tracks what has changed but was not reported yet. Each topic is reported at a limited rate,
//! however often it changes, but its last change is always reported.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use angelia_core::{
    engine::EngineChange,
    model::{ApprovalId, SessionId, TurnId},
};
use tokio::time::Instant;

/// Something whose changes are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Topic {
    Session(SessionId),
    Turn(TurnId),
    Approval(ApprovalId),
    Agents,
    Quotas,
    Schedules,
    Bus,
    Deliveries,
    Channels,
}

impl Topic {
    /// Returns the minimum time between two reports.
    const fn interval(self) -> Duration {
        match self {
            Self::Turn(_) | Self::Session(_) => Duration::from_millis(250),
            Self::Approval(_) => Duration::ZERO,
            Self::Agents | Self::Bus | Self::Channels | Self::Quotas | Self::Schedules => {
                Duration::from_secs(1)
            }
            Self::Deliveries => Duration::from_secs(10),
        }
    }
}

impl From<EngineChange> for Topic {
    fn from(change: EngineChange) -> Self {
        match change {
            EngineChange::Session(id) => Self::Session(id),
            EngineChange::Turn(id) => Self::Turn(id),
            EngineChange::Approval(id) => Self::Approval(id),
            EngineChange::Agent(_) => Self::Agents,
            EngineChange::Quota => Self::Quotas,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct PendingChanges {
    changed: HashSet<Topic>,
    reported: HashMap<Topic, Instant>,
}

impl PendingChanges {
    pub(super) fn add(&mut self, topic: Topic) {
        self.changed.insert(topic);
    }

    pub(super) fn clear(&mut self) {
        self.changed.clear();
    }

    /// Returns when the next topic may be reported, or `None` if nothing has changed.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.changed.iter().map(|topic| self.due_at(*topic)).min()
    }

    /// Returns the topics that may be reported now. Approvals come first, because people wait for
    /// them.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Topic> {
        let due = |topic: &&Topic| self.due_at(**topic) <= now;
        let mut topics: Vec<Topic> = self.changed.iter().filter(due).copied().collect();
        topics.sort_by_key(|topic| !matches!(topic, Topic::Approval(_)));
        for topic in &topics {
            self.changed.remove(topic);
            self.reported.insert(*topic, now);
        }
        self.reported.retain(|topic, at| now < *at + topic.interval());
        topics
    }

    fn due_at(&self, topic: Topic) -> Instant {
        let reported = self.reported.get(&topic);
        reported
            .map_or_else(|| Instant::now() - Duration::from_millis(1), |at| *at + topic.interval())
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_turn_is_reported_at_once_and_then_four_times_a_second() {
        let turn = Topic::Turn(TurnId::from_uuid(Uuid::from_u128(7)));
        let mut pending = PendingChanges::default();
        let mut reports = 0;
        for _ in 0..1000 {
            pending.add(turn);
            reports += pending.take_due(Instant::now()).len();
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert_eq!(reports, 4);
        // The last change is reported when its interval is over.
        let due = pending.next_due().unwrap();
        assert_eq!(pending.take_due(due), [turn]);
        assert_eq!(pending.next_due(), None);
        assert!(pending.reported.len() <= 1);
    }
}

//! Decides whether a command waits for a turn that is parked until a quota resets, and builds the
//! last event if it does not. The turn itself stays parked until the next process that opens the
//! session resumes it.

use std::time::Duration;

use angelia_core::{
    engine::PARKED_NOTICE,
    model::{EventKind, Outcome, SessionId, TurnEvent, TurnId, TurnStatus, Usage},
    ports::Clock as _,
};
use jiff::Timestamp;

use crate::clock::SystemClock;

/// Maximum wait for a reset if no person is at the terminal.
const MAX_UNATTENDED_WAIT: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct ParkTracker {
    /// Whether a person is at the terminal, who can leave if the wait takes too long.
    is_attended: bool,
    state: ParkState,
    session: SessionId,
    last_seq: u64,
    usage: Usage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ParkState {
    Running,
    /// Parked, but the time of the reset has not been looked up yet.
    Parked,
    Waiting(Timestamp),
    /// This command no longer waits for the turn.
    Detached(Timestamp),
}

impl ParkTracker {
    pub(crate) fn new(is_attended: bool) -> Self {
        Self {
            is_attended,
            state: ParkState::Running,
            session: SessionId::from_uuid(uuid::Uuid::nil()),
            last_seq: 0,
            usage: Usage::default(),
        }
    }

    pub(crate) fn observe(&mut self, events: &[TurnEvent]) {
        for event in events {
            (self.session, self.last_seq) = (event.session, event.seq);
            match &event.kind {
                EventKind::Notice(notice) if &*notice.code == PARKED_NOTICE => {
                    self.state = ParkState::Parked;
                }
                EventKind::Usage(usage) => self.usage = usage.clone(),
                EventKind::Native { .. } => {}
                // Any other event proves that the turn runs again.
                _ => self.state = ParkState::Running,
            }
        }
    }

    pub(crate) fn needs_resume_time(&self) -> bool {
        self.state == ParkState::Parked
    }

    /// Sets when the turn resumes; `None` if it runs again.
    pub(crate) fn set_resume_time(&mut self, at: Option<Timestamp>) {
        self.state = match at {
            None => ParkState::Running,
            Some(at) if self.is_attended || is_near(at) => ParkState::Waiting(at),
            Some(at) => ParkState::Detached(at),
        };
    }

    /// Stops waiting for a parked turn. Returns `false` if the turn is not parked and must be
    /// stopped instead.
    pub(crate) fn detach(&mut self) -> bool {
        match self.state {
            ParkState::Waiting(at) => self.state = ParkState::Detached(at),
            ParkState::Detached(_) => {}
            ParkState::Running | ParkState::Parked => return false,
        }
        true
    }

    /// Returns the `Finished` event that ends this command's output, once the command no longer
    /// waits.
    pub(crate) fn final_event(&self, turn: TurnId) -> Option<TurnEvent> {
        let ParkState::Detached(resumes_at) = self.state else {
            return None;
        };
        let outcome = Outcome {
            status: TurnStatus::Parked { resumes_at },
            text: "".into(),
            reason: PARKED_NOTICE.into(),
            usage: self.usage.clone(),
        };
        Some(TurnEvent {
            turn,
            session: self.session,
            // The log has no such event. It only tells this command's readers why the output ends
            // here.
            seq: self.last_seq + 1,
            at: SystemClock.now(),
            kind: EventKind::Finished(outcome),
        })
    }
}

fn is_near(at: Timestamp) -> bool {
    let left = at.duration_since(SystemClock.now());
    Duration::try_from(left).is_ok_and(|left| left <= MAX_UNATTENDED_WAIT) || left.is_negative()
}

#[cfg(test)]
mod tests {
    use angelia_core::model::{Notice, NoticeLevel};

    use super::*;

    fn events(codes: &[&str]) -> Vec<TurnEvent> {
        let event = |(number, code): (usize, &&str)| TurnEvent {
            turn: TurnId::from_uuid(uuid::Uuid::nil()),
            session: SessionId::from_uuid(uuid::Uuid::max()),
            seq: number as u64 + 1,
            at: SystemClock.now(),
            kind: EventKind::Notice(Notice::new(NoticeLevel::Info, *code, "…")),
        };
        codes.iter().enumerate().map(event).collect()
    }

    fn later(wait: Duration) -> Option<Timestamp> {
        SystemClock.now().checked_add(wait).ok()
    }

    fn end(parking: &ParkTracker) -> Option<TurnEvent> {
        parking.final_event(TurnId::from_uuid(uuid::Uuid::nil()))
    }

    #[test]
    fn a_script_waits_for_what_is_near_only() {
        let mut parking = ParkTracker::new(false);
        parking.observe(&events(&["rate_limited", PARKED_NOTICE]));
        assert!(parking.needs_resume_time());
        parking.set_resume_time(later(Duration::from_secs(5)));
        assert!(end(&parking).is_none());
        parking.observe(&events(&["resumed", PARKED_NOTICE]));
        parking.set_resume_time(later(Duration::from_hours(5)));
        let end = end(&parking).unwrap();
        assert_eq!(end.seq, 3);
        let EventKind::Finished(outcome) = end.kind else { panic!("{end:?}") };
        assert_eq!(outcome.status.as_str(), "parked");
    }

    #[test]
    fn a_person_waits_until_it_is_enough() {
        let mut parking = ParkTracker::new(true);
        assert!(!parking.detach(), "a running turn is stopped, not left");
        parking.observe(&events(&[PARKED_NOTICE]));
        parking.set_resume_time(later(Duration::from_hours(5)));
        assert!(end(&parking).is_none());
        assert!(parking.detach());
        assert!(end(&parking).is_some());
    }

    #[test]
    fn a_turn_that_went_on_is_running() {
        let mut parking = ParkTracker::new(true);
        parking.observe(&events(&[PARKED_NOTICE]));
        parking.set_resume_time(None);
        assert!(!parking.detach());
        parking.observe(&events(&[PARKED_NOTICE, "resumed"]));
        assert!(!parking.needs_resume_time());
    }
}

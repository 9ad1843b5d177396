//! Decides whether a command waits for a turn that is parked until a quota resets, and builds its
//! last event if it does not. The turn itself stays parked, and the next process that opens the
//! session resumes it.

use std::time::Duration;

use angelia_core::{
    engine::PARKED,
    model::{EventKind, Outcome, SessionId, Status, TurnEvent, TurnId, Usage},
    ports::Clock as _,
};
use jiff::Timestamp;

use crate::clock::SystemClock;

/// A reset that is at most this far away is waited for even without a person at the terminal.
const NEAR: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Parking {
    /// A person is at the terminal and can leave when the wait takes too long.
    is_patient: bool,
    now: Now,
    session: SessionId,
    last: u64,
    usage: Usage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Now {
    Running,
    /// Parked, but the time of the reset has not been looked up yet.
    Parked,
    Waiting(Timestamp),
    /// This command no longer waits for the turn.
    Left(Timestamp),
}

impl Parking {
    pub(crate) fn new(is_patient: bool) -> Self {
        Self {
            is_patient,
            now: Now::Running,
            session: SessionId::from_uuid(uuid::Uuid::nil()),
            last: 0,
            usage: Usage::default(),
        }
    }

    pub(crate) fn note(&mut self, events: &[TurnEvent]) {
        for event in events {
            (self.session, self.last) = (event.session, event.seq);
            match &event.kind {
                EventKind::Notice(notice) if &*notice.code == PARKED => self.now = Now::Parked,
                EventKind::Usage(usage) => self.usage = usage.clone(),
                EventKind::Native { .. } => {}
                // Any other event proves that the turn runs again.
                _ => self.now = Now::Running,
            }
        }
    }

    pub(crate) fn must_look_up(&self) -> bool {
        self.now == Now::Parked
    }

    /// Sets when the turn resumes; `None`: it runs again.
    pub(crate) fn resumes_at(&mut self, at: Option<Timestamp>) {
        self.now = match at {
            None => Now::Running,
            Some(at) if self.is_patient || is_near(at) => Now::Waiting(at),
            Some(at) => Now::Left(at),
        };
    }

    /// Stops waiting for a parked turn. Returns `false` if the turn is not parked and must be
    /// stopped instead.
    pub(crate) fn leave(&mut self) -> bool {
        match self.now {
            Now::Waiting(at) => self.now = Now::Left(at),
            Now::Left(_) => {}
            Now::Running | Now::Parked => return false,
        }
        true
    }

    /// Returns the `Finished` event that ends this command's output, once the command no longer
    /// waits.
    pub(crate) fn end(&self, turn: TurnId) -> Option<TurnEvent> {
        let Now::Left(resumes_at) = self.now else {
            return None;
        };
        let outcome = Outcome {
            status: Status::Parked { resumes_at },
            text: "".into(),
            reason: PARKED.into(),
            usage: self.usage.clone(),
        };
        Some(TurnEvent {
            turn,
            session: self.session,
            // The log has no such event: it only tells this command's readers why the output ends
            // here.
            seq: self.last + 1,
            at: SystemClock.now(),
            kind: EventKind::Finished(outcome),
        })
    }
}

fn is_near(at: Timestamp) -> bool {
    let left = at.duration_since(SystemClock.now());
    Duration::try_from(left).is_ok_and(|left| left <= NEAR) || left.is_negative()
}

#[cfg(test)]
mod tests {
    use angelia_core::model::{Level, Notice};

    use super::*;

    fn events(codes: &[&str]) -> Vec<TurnEvent> {
        let event = |(number, code): (usize, &&str)| TurnEvent {
            turn: TurnId::from_uuid(uuid::Uuid::nil()),
            session: SessionId::from_uuid(uuid::Uuid::max()),
            seq: number as u64 + 1,
            at: SystemClock.now(),
            kind: EventKind::Notice(Notice::new(Level::Info, *code, "…")),
        };
        codes.iter().enumerate().map(event).collect()
    }

    fn later(wait: Duration) -> Option<Timestamp> {
        SystemClock.now().checked_add(wait).ok()
    }

    fn end(parking: &Parking) -> Option<TurnEvent> {
        parking.end(TurnId::from_uuid(uuid::Uuid::nil()))
    }

    #[test]
    fn a_script_waits_for_what_is_near_only() {
        let mut parking = Parking::new(false);
        parking.note(&events(&["rate_limited", PARKED]));
        assert!(parking.must_look_up());
        parking.resumes_at(later(Duration::from_secs(5)));
        assert!(end(&parking).is_none());
        parking.note(&events(&["resumed", PARKED]));
        parking.resumes_at(later(Duration::from_hours(5)));
        let end = end(&parking).unwrap();
        assert_eq!(end.seq, 3);
        let EventKind::Finished(outcome) = end.kind else { panic!("{end:?}") };
        assert_eq!(outcome.status.as_str(), "parked");
    }

    #[test]
    fn a_person_waits_until_it_is_enough() {
        let mut parking = Parking::new(true);
        assert!(!parking.leave(), "a running turn is stopped, not left");
        parking.note(&events(&[PARKED]));
        parking.resumes_at(later(Duration::from_hours(5)));
        assert!(end(&parking).is_none());
        assert!(parking.leave());
        assert!(end(&parking).is_some());
    }

    #[test]
    fn a_turn_that_went_on_is_running() {
        let mut parking = Parking::new(true);
        parking.note(&events(&[PARKED]));
        parking.resumes_at(None);
        assert!(!parking.leave());
        parking.note(&events(&[PARKED, "resumed"]));
        assert!(!parking.must_look_up());
    }
}

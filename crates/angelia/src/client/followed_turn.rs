//! A turn of the daemon that a command follows. If the daemon is gone for good, the command creates
//! the end itself from the events it has seen, so that its reader gets the text so far and exactly
//! one end.

use angelia_core::{
    engine::{EventBatch, TurnTranscript},
    model::{
        EventKind, Failure, FailureKind, Outcome, Seq, SessionId, TurnEvent, TurnId, TurnStatus,
        Usage,
    },
    ports::Clock as _,
};
use angelia_frontends::turn_service::{ServiceFuture, TurnEventSource};

use super::{ClientError, TurnEvents};
use crate::{cli::error::LOST_DAEMON_HINT, clock::SystemClock};

#[derive(Debug)]
pub(super) struct FollowedTurn {
    turn: TurnId,
    /// Unknown until the first event if another client submitted the turn.
    session: Option<SessionId>,
    events: TurnEvents,
    last_seq: Seq,
    transcript: TurnTranscript,
    usage: Usage,
    is_lost: bool,
}

impl FollowedTurn {
    pub(super) fn new(turn: TurnId, session: Option<SessionId>, events: TurnEvents) -> Self {
        Self {
            turn,
            session,
            events,
            last_seq: 0,
            transcript: TurnTranscript::default(),
            usage: Usage::default(),
            is_lost: false,
        }
    }

    fn observe(&mut self, events: &[TurnEvent]) {
        for event in events {
            (self.session, self.last_seq) = (Some(event.session), event.seq);
            self.transcript.apply(event.seq, &event.kind);
            if let EventKind::Usage(usage) = &event.kind {
                self.usage = usage.clone();
            }
        }
    }

    /// Returns the last events of a turn that can no longer be followed. They are not those in the
    /// record: they only show this command's readers the text so far and why the turn ended.
    fn lost_end(&mut self, session: SessionId, error: &ClientError) -> EventBatch {
        self.is_lost = true;
        let failure = Failure::new(FailureKind::Unavailable, error.to_string());
        let outcome = Outcome {
            status: TurnStatus::Failed(failure.with_hint(LOST_DAEMON_HINT)),
            text: self.transcript.answer(),
            reason: "the daemon was lost".into(),
            usage: self.usage.clone(),
        };
        let mut kinds = self.transcript.closing_events("turn ended");
        kinds.push(EventKind::Finished(outcome));
        let (turn, at) = (self.turn, SystemClock.now());
        let numbered = (self.last_seq + 1..).zip(kinds);
        let events = numbered.map(|(seq, kind)| TurnEvent { turn, session, seq, at, kind });
        events.collect::<Vec<_>>().into()
    }
}

impl TurnEventSource for FollowedTurn {
    fn next(&mut self) -> ServiceFuture<'_, Option<EventBatch>> {
        Box::pin(async move {
            if self.is_lost {
                return Ok(None);
            }
            match (self.events.next().await, self.session) {
                (Ok(Some(events)), _) => {
                    self.observe(&events);
                    Ok(Some(events.into()))
                }
                (Ok(None), _) => Ok(None),
                (Err(error), Some(session)) => Ok(Some(self.lost_end(session, &error))),
                (Err(error), None) => Err(error.into()),
            }
        })
    }
}

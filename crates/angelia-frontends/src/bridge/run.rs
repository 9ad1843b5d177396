//! Starts the turn of a run and follows it to its end, at the pace at which the host reads.

use std::{pin::pin, sync::Arc, time::Duration};

use angelia_core::model::{
    ApprovalId, Decision, EventKind, Failure, FailureKind, Level, Notice, Outcome, Status,
    TurnEvent, Usage, Verdict,
};
use tokio::time::timeout;

use super::{
    Ask, Begun, Encoder, Ending, Event, Refused, RunRequest, active::Part, encode::unknown_fields,
    serve::Inner,
};

/// Events that come within this time are written together with `run_started`, so that the host
/// wakes up once.
const FIRST_WORDS: Duration = Duration::from_millis(2);

impl Inner {
    pub(super) async fn run(self: Arc<Self>, request: RunRequest, part: Part) {
        let ask = self.defaults.fill(request);
        let ending = match self.turns.begin(&ask).await {
            Ok(begun) => self.follow(&ask, begun, part).await,
            Err(refused) => {
                self.active().end(&ask.request.session_id, part);
                self.refuse(&ask.request, &refused).await;
                Ending::Refused
            }
        };
        self.note_end(ending);
    }

    async fn refuse(&self, request: &RunRequest, refused: &Refused) {
        let request_id = &*request.request_id;
        tracing::info!(request_id, code = ?refused.code, "a run was refused");
        let event = Event::Error {
            request_id: Some(&request.request_id),
            session_id: Some(&request.session_id),
            code: refused.code,
            message: &refused.message,
        };
        self.reply(&event).await;
    }

    async fn follow(self: &Arc<Self>, ask: &Ask, mut begun: Begun, part: Part) -> Ending {
        let request = &ask.request;
        let session = &request.session_id;
        let mut encoder = Encoder::new(
            Arc::clone(&request.request_id),
            Arc::clone(session),
            &request.message,
            ask.streaming,
        );
        encoder.started(begun.about);
        if let Some(notice) = unknown_fields(&request.unknown) {
            encoder.notice(notice);
        }
        if let Some(text) = begun.keeps {
            encoder.notice(Notice::new(Level::Warning, "session_keeps", text));
        }
        if part == Part::Own && self.active().begun(session, begun.turn) {
            self.turns.interrupt(begun.turn).await;
        }
        let (request_id, turn) = (&*request.request_id, begun.turn);
        tracing::info!(request_id, %turn, "a run has started");
        let mut asked = Vec::new();
        let mut patience = Some(FIRST_WORDS);
        loop {
            let next = {
                // The first events get a moment to join `run_started`; after that, pending lines
                // are sent before waiting for the next events.
                let mut next = pin!(begun.events.next());
                let at_once = match patience.take() {
                    Some(patience) => timeout(patience, &mut next).await.ok(),
                    None => None,
                };
                if let Some(next) = at_once {
                    next
                } else {
                    self.say_all(&mut encoder).await;
                    next.await
                }
            };
            let outcome = match next {
                Ok(Some(batch)) => {
                    for event in &*batch {
                        self.note_questions(event, &mut asked);
                        if let EventKind::Finished(_) = &event.kind {
                            // Read as late as possible: the host may interrupt until the end.
                            encoder.interrupted(self.active().reason(session));
                        }
                        encoder.event(&event.kind);
                    }
                    end_of(&batch)
                }
                Ok(None) => Some(lost(&mut encoder, "the turn's events ended without an outcome")),
                Err(refused) => Some(lost(&mut encoder, &refused.message)),
            };
            if let Some(outcome) = outcome {
                self.forget_questions(&asked);
                let status = outcome.status.as_str();
                tracing::info!(request_id, %turn, status, "a run has ended");
                self.say_end(&mut encoder, session, part).await;
                return outcome.into();
            }
        }
    }

    async fn say_all(&self, encoder: &mut Encoder) {
        let mut buffer = Vec::new();
        while encoder.write(&mut buffer) {
            self.say(std::mem::take(&mut buffer)).await;
        }
        if !buffer.is_empty() {
            self.say(buffer).await;
        }
    }

    /// Sends the last lines of a run. The session is released before `final` is written: a host
    /// that has read `final` must be able to start the next run at once.
    async fn say_end(&self, encoder: &mut Encoder, session: &str, part: Part) {
        let mut buffer = Vec::new();
        while encoder.write(&mut buffer) {
            self.say(std::mem::take(&mut buffer)).await;
        }
        self.active().end(session, part);
        self.say(buffer).await;
    }

    /// Keeps the list of approvals that this host may decide.
    fn note_questions(self: &Arc<Self>, event: &TurnEvent, asked: &mut Vec<ApprovalId>) {
        match &event.kind {
            EventKind::Approval(approval) => {
                asked.push(approval.id);
                let is_unattended = {
                    let mut active = self.active();
                    active.approvals.insert(approval.id);
                    active.is_unattended
                };
                if is_unattended {
                    self.decline(approval.id);
                }
            }
            EventKind::Resolved(resolution) => {
                asked.retain(|id| *id != resolution.id);
                self.active().approvals.remove(&resolution.id);
            }
            _ => {}
        }
    }

    fn forget_questions(&self, asked: &[ApprovalId]) {
        let mut active = self.active();
        for id in asked {
            active.approvals.remove(id);
        }
    }

    /// Declines an approval that the host cannot answer any more.
    pub(super) fn decline(self: &Arc<Self>, approval: ApprovalId) {
        let inner = Arc::clone(self);
        self.tasks.spawn(async move {
            let decision = Decision::new(Verdict::Deny, "nobody");
            if let Err(error) = inner.turns.decide(approval, decision).await {
                tracing::debug!(%approval, %error, "cannot decline the approval");
            }
        });
    }
}

fn end_of(events: &[TurnEvent]) -> Option<Outcome> {
    match events.last().map(|event| &event.kind) {
        Some(EventKind::Finished(outcome)) => Some(outcome.clone()),
        _ => None,
    }
}

/// Ends a run whose events cannot be read any more: every run has a `final`.
fn lost(encoder: &mut Encoder, message: &str) -> Outcome {
    let failure = Failure::new(FailureKind::Internal, message)
        .with_hint("`angelia turns list` shows the state of the turn");
    let outcome = Outcome {
        status: Status::Failed(failure),
        text: "".into(),
        reason: "the turn's events were lost".into(),
        usage: Usage::default(),
    };
    encoder.event(&EventKind::Finished(outcome.clone()));
    outcome
}

impl From<Outcome> for Ending {
    fn from(outcome: Outcome) -> Self {
        match outcome.status {
            Status::Completed | Status::Partial => Self::Done,
            Status::Interrupted => Self::Interrupted,
            Status::Failed(failure) => Self::Failed(failure.kind),
            Status::Parked { .. } => Self::Failed(FailureKind::RateLimited),
        }
    }
}

//! Starts the turn of a run and follows it to its end, as fast as the host reads.

use std::{pin::pin, sync::Arc, time::Duration};

use angelia_core::model::{
    ApprovalId, Decision, EventKind, Failure, FailureKind, Notice, NoticeLevel, Outcome, TurnEvent,
    TurnStatus, Usage, Verdict,
};
use tokio::time::timeout;

use super::{
    BridgeError, BridgeEvent, RunEncoder, RunRequest, RunResult, RunSpec,
    active_runs::RunRole,
    begin::{BegunRun, begin},
    encode::unknown_fields_notice,
    serve::BridgeShared,
};

/// Events that arrive within this time are written together with `run_started`, so that the host
/// wakes up only once.
const FIRST_BATCH_DELAY: Duration = Duration::from_millis(2);

impl BridgeShared {
    pub(super) async fn run(self: Arc<Self>, request: RunRequest, part: RunRole) {
        let ask = self.defaults.resolve(request);
        let ending = match begin(&*self.turns, &ask).await {
            Ok(begun) => RunResult::Ended(self.follow(&ask, begun, part).await),
            Err(refused) => {
                self.active().release(&ask.request.session_id, part);
                self.send_refusal(&ask.request, &refused).await;
                RunResult::Refused
            }
        };
        self.record_result(ending);
    }

    async fn send_refusal(&self, request: &RunRequest, refused: &BridgeError) {
        let request_id = &*request.request_id;
        tracing::info!(request_id, code = ?refused.code, "a run was refused");
        let event = BridgeEvent::Error {
            request_id: Some(&request.request_id),
            session_id: Some(&request.session_id),
            code: refused.code,
            message: &refused.message,
        };
        self.reply(&event).await;
    }

    async fn follow(self: &Arc<Self>, ask: &RunSpec, begun: BegunRun, part: RunRole) -> TurnStatus {
        let request = &ask.request;
        let session = &request.session_id;
        let mut encoder = RunEncoder::new(
            Arc::clone(&request.request_id),
            Arc::clone(session),
            &request.message,
            ask.streaming,
        );
        encoder.run_started(begun.about);
        if let Some(notice) = unknown_fields_notice(&request.unknown) {
            encoder.notice(notice);
        }
        if let Some(text) = begun.settings_notice {
            encoder.notice(Notice::new(NoticeLevel::Warning, "session_keeps", text));
        }
        let (request_id, turn, mut events) =
            (&*request.request_id, begun.turn.turn, begun.turn.events);
        if part == RunRole::Owner && self.active().record_turn(session, turn) {
            Arc::clone(self).stop_turn(turn).await;
        }
        tracing::info!(request_id, %turn, "a run has started");
        let mut asked = Vec::new();
        let mut patience = Some(FIRST_BATCH_DELAY);
        loop {
            let next = {
                // The first events get a moment to join `run_started`; after that, pending lines
                // are sent before waiting for the next events.
                let mut next = pin!(events.next());
                let at_once = match patience.take() {
                    Some(patience) => timeout(patience, &mut next).await.ok(),
                    None => None,
                };
                if let Some(next) = at_once {
                    next
                } else {
                    self.send_pending(&mut encoder).await;
                    next.await
                }
            };
            let outcome = match next {
                Ok(Some(batch)) => {
                    for event in &*batch {
                        self.track_approvals(event, &mut asked);
                        if let EventKind::Finished(_) = &event.kind {
                            // Read as late as possible: the host may interrupt until the end.
                            encoder.set_interrupt_message(self.active().interrupt_reason(session));
                        }
                        encoder.encode_event(&event.kind);
                    }
                    batch.outcome().cloned()
                }
                Ok(None) => Some(finish_lost_run(
                    &mut encoder,
                    "the turn's events ended without an outcome",
                )),
                Err(error) => Some(finish_lost_run(&mut encoder, &error.to_string())),
            };
            if let Some(outcome) = outcome {
                self.forget_approvals(&asked);
                let status = outcome.status.as_str();
                tracing::info!(request_id, %turn, status, "a run has ended");
                self.send_final(&mut encoder, session, part).await;
                return outcome.status;
            }
        }
    }

    async fn send_pending(&self, encoder: &mut RunEncoder) {
        let mut buffer = Vec::new();
        while encoder.write(&mut buffer) {
            self.send_lines(std::mem::take(&mut buffer)).await;
        }
        if !buffer.is_empty() {
            self.send_lines(buffer).await;
        }
    }

    /// Sends the last lines of a run. Releases the session before writing `final`, because a host
    /// that has read `final` must be able to start the next run immediately.
    async fn send_final(&self, encoder: &mut RunEncoder, session: &str, part: RunRole) {
        let mut buffer = Vec::new();
        while encoder.write(&mut buffer) {
            self.send_lines(std::mem::take(&mut buffer)).await;
        }
        self.active().release(session, part);
        self.send_lines(buffer).await;
    }

    /// Tracks the approvals that this host may decide.
    fn track_approvals(self: &Arc<Self>, event: &TurnEvent, asked: &mut Vec<ApprovalId>) {
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

    fn forget_approvals(&self, asked: &[ApprovalId]) {
        let mut active = self.active();
        for id in asked {
            active.approvals.remove(id);
        }
    }

    /// Declines an approval that the host can no longer answer.
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

/// Ends a run whose events can no longer be read, because every run has a `final`.
fn finish_lost_run(encoder: &mut RunEncoder, message: &str) -> Outcome {
    let failure = Failure::new(FailureKind::Internal, message)
        .with_hint("`angelia turns list` shows the state of the turn");
    let outcome = Outcome {
        status: TurnStatus::Failed(failure),
        text: "".into(),
        reason: "the turn's events were lost".into(),
        usage: Usage::default(),
    };
    encoder.encode_event(&EventKind::Finished(outcome.clone()));
    outcome
}

//! Follows a delegated turn to its end: reports progress, interrupts the turn on a cancellation or
//! a deadline, and converts its outcome to the tool's answer.

use std::time::Duration;

use angelia_core::{
    model::{EventKind, Outcome, SessionId, TurnEvent, TurnId, TurnStatus},
    ports::DelegateResult,
};
use angelia_frontends::mcp::{ProgressReporter, ToolCallError};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::cli::run::RunningTurn;

/// Interval at which the client learns that the turn is still running.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);
/// How long an interrupted turn may take to end, and then a killed one.
const INTERRUPT_GRACE: Duration = Duration::from_secs(20);
const KILL_GRACE: Duration = Duration::from_secs(5);

/// Why this process interrupted a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InterruptReason {
    Cancelled,
    DeadlineExceeded,
}

/// Follows a turn to its end. The second value is set if this process interrupted the turn.
pub(super) async fn follow(
    mut turn: RunningTurn,
    until: Option<Instant>,
    progress: &ProgressReporter,
    stop: &CancellationToken,
) -> Result<(Outcome, Option<InterruptReason>), ToolCallError> {
    let began = Instant::now();
    let mut beats = interval(HEARTBEAT_INTERVAL);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    beats.reset();
    let out_of_time = async {
        match until {
            Some(until) => sleep_until(until).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(out_of_time);
    let why = loop {
        tokio::select! {
            biased;
            events = turn.next() => {
                let events = events?;
                for event in &*events {
                    report_progress(event, progress);
                }
                if let Some(outcome) = events.outcome() {
                    return Ok((outcome.clone(), None));
                }
            }
            () = stop.cancelled() => break InterruptReason::Cancelled,
            () = &mut out_of_time => break InterruptReason::DeadlineExceeded,
            _ = beats.tick() => {
                progress.report(format!("still running ({} s)", began.elapsed().as_secs()));
            }
        }
    };
    for (kill, grace) in [(false, INTERRUPT_GRACE), (true, KILL_GRACE)] {
        turn.stop(kill).await;
        let end = Instant::now() + grace;
        while let Ok(events) = timeout_at(end, turn.next()).await {
            if let Some(outcome) = events?.outcome() {
                return Ok((outcome.clone(), Some(why)));
            }
        }
    }
    Err(ToolCallError::new("the turn was interrupted and does not end"))
}

/// Reports the events that a waiting person wants to know about.
fn report_progress(event: &TurnEvent, progress: &ProgressReporter) {
    match &event.kind {
        EventKind::Started(started) => {
            let model = started.model.as_deref().unwrap_or("its own model");
            progress.report(format!("{} began ({model})", started.executor));
        }
        EventKind::ToolCall(call) => progress.report(format!("{}: {}", call.name, call.title)),
        EventKind::Approval(approval) => {
            progress.report(format!("waits for the owner: {}", approval.title));
        }
        EventKind::Notice(notice) => progress.report(&*notice.text),
        _ => {}
    }
}

pub(super) fn to_answer(
    session: SessionId,
    turn: TurnId,
    outcome: &Outcome,
    ended: Option<InterruptReason>,
) -> DelegateResult {
    let failed = match (&outcome.status, ended) {
        (TurnStatus::Completed | TurnStatus::Partial, _) => None,
        (_, Some(InterruptReason::DeadlineExceeded)) => {
            Some("the time of the calling turn is over".to_owned())
        }
        (_, Some(InterruptReason::Cancelled)) => Some("it was given up".to_owned()),
        (TurnStatus::Interrupted, None) => Some("somebody interrupted it".to_owned()),
        (TurnStatus::Failed(failure), None) => Some(match &failure.hint {
            Some(hint) => format!("{}; {hint}", failure.message),
            None => failure.message.to_string(),
        }),
        (TurnStatus::Parked { resumes_at }, None) => Some(format!("it waits until {resumes_at}")),
    };
    DelegateResult {
        session,
        turn,
        status: outcome.status.as_str(),
        text: outcome.text.to_string(),
        failure: failed,
        cost_usd: outcome.usage.cost_usd,
    }
}

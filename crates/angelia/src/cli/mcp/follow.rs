//! Follows a delegated turn to its end: reports progress, interrupts the turn on a cancellation or
//! a deadline, and turns its outcome into the tool's answer.

use std::time::Duration;

use angelia_core::model::{EventKind, Outcome, SessionId, Status, TurnEvent, TurnId};
use angelia_frontends::mcp::{Answer, Progress, Refused};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::cli::run::RunningTurn;

/// How often the client is told that the turn still runs.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// How long an interrupted turn gets to end, and then a killed one.
const GRACE: Duration = Duration::from_secs(20);
const LAST_GRACE: Duration = Duration::from_secs(5);

/// Why this process interrupted a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    GivenUp,
    OutOfTime,
}

/// Follows a turn to its end. The second value is set if this process interrupted it.
pub(super) async fn follow(
    mut turn: RunningTurn,
    until: Option<Instant>,
    progress: &Progress,
    stop: &CancellationToken,
) -> Result<(Outcome, Option<Ended>), Refused> {
    let began = Instant::now();
    let mut beats = interval(HEARTBEAT);
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
                    tell(event, progress);
                }
                if let Some(outcome) = end_of(&events) {
                    return Ok((outcome, None));
                }
            }
            () = stop.cancelled() => break Ended::GivenUp,
            () = &mut out_of_time => break Ended::OutOfTime,
            _ = beats.tick() => {
                progress.say(format!("still running ({} s)", began.elapsed().as_secs()));
            }
        }
    };
    for (kill, grace) in [(false, GRACE), (true, LAST_GRACE)] {
        turn.stop(kill).await;
        let end = Instant::now() + grace;
        while let Ok(events) = timeout_at(end, turn.next()).await {
            if let Some(outcome) = end_of(&events?) {
                return Ok((outcome, Some(why)));
            }
        }
    }
    Err(Refused::new("the turn was interrupted and does not end"))
}

fn end_of(events: &[TurnEvent]) -> Option<Outcome> {
    match events.last().map(|event| &event.kind) {
        Some(EventKind::Finished(outcome)) => Some(outcome.clone()),
        _ => None,
    }
}

/// Reports the events that people who wait want to know about.
fn tell(event: &TurnEvent, progress: &Progress) {
    match &event.kind {
        EventKind::Started(started) => {
            let model = started.model.as_deref().unwrap_or("its own model");
            progress.say(format!("{} began ({model})", started.executor));
        }
        EventKind::ToolCall(call) => progress.say(format!("{}: {}", call.name, call.title)),
        EventKind::Approval(approval) => {
            progress.say(format!("waits for the owner: {}", approval.title));
        }
        EventKind::Notice(notice) => progress.say(&*notice.text),
        _ => {}
    }
}

pub(super) fn answer(
    session: SessionId,
    turn: TurnId,
    outcome: &Outcome,
    ended: Option<Ended>,
) -> Answer {
    let failed = match (&outcome.status, ended) {
        (Status::Completed | Status::Partial, _) => None,
        (_, Some(Ended::OutOfTime)) => Some("the time of the calling turn is over".to_owned()),
        (_, Some(Ended::GivenUp)) => Some("it was given up".to_owned()),
        (Status::Interrupted, None) => Some("somebody interrupted it".to_owned()),
        (Status::Failed(failure), None) => Some(match &failure.hint {
            Some(hint) => format!("{}; {hint}", failure.message),
            None => failure.message.to_string(),
        }),
        (Status::Parked { resumes_at }, None) => Some(format!("it waits until {resumes_at}")),
    };
    Answer {
        session,
        turn,
        status: outcome.status.as_str(),
        text: outcome.text.to_string(),
        failed,
    }
}

//! The limit on the output of a turn.

use std::sync::Arc;

use angelia_core::{
    engine::EngineLimits,
    model::{Budgets, EventKind, SessionSpec, TextChannel, ToolId, ToolResult, TurnStatus},
    ports::{AgentEvent, AgentOutcome},
};

use crate::harness::{EngineHarness, all_events, outcome};

const LIMIT: usize = 100_000;

fn stage() -> EngineHarness {
    EngineHarness::with_limits(EngineLimits { output_bytes: LIMIT, ..EngineLimits::default() })
}

fn delta(text: &Arc<str>) -> AgentEvent {
    let channel = TextChannel::Answer;
    AgentEvent::Event(EventKind::Delta { block: 0, channel, text: Arc::clone(text) })
}

/// An agent that writes without end is stopped, and what it writes meanwhile is dropped.
#[tokio::test(start_paused = true)]
async fn a_turn_that_writes_without_end_is_partial() {
    let stage = stage();
    let session = stage.session().await.id;
    let submitted = stage.submit(session, "go").await;
    let run = stage.control.next_turn().await;
    let text: Arc<str> = "x".repeat(1000).into();
    for _ in 0..500 {
        run.emit(vec![delta(&text)]).await;
    }
    assert!(run.io.cancel.is_cancelled(), "the agent is asked to stop");
    // It does not obey, and is given up.
    let events = all_events(submitted.watch).await;
    let written: usize = events
        .iter()
        .map(|event| match &event.kind {
            EventKind::Delta { text, .. } => text.len(),
            _ => 0,
        })
        .sum();
    assert!((LIMIT * 8 / 10..LIMIT + 100).contains(&written), "{written} bytes were shown");
    let notices: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::Notice(notice) => Some((&*notice.code, &*notice.text)),
            _ => None,
        })
        .collect();
    assert_eq!(notices, [("budget_reached", "limits.output_bytes is used up")]);
    let Some(EventKind::Finished(end)) = events.last().map(|event| &event.kind) else {
        panic!("{events:?}");
    };
    assert_eq!((&end.status, &*end.reason), (&TurnStatus::Partial, "limits.output_bytes"));
    assert_eq!(end.text.len(), written);
    drop(run);
}

/// The agent may have ended by itself before it was stopped, with all of its words.
#[tokio::test(start_paused = true)]
async fn an_answer_that_is_too_long_is_cut() {
    let stage = stage();
    let session = stage.session().await.id;
    let submitted = stage.submit(session, "go").await;
    let run = stage.control.next_turn().await;
    let long = "y".repeat(3 * LIMIT);
    run.emit_answer(0, &long).await;
    run.complete(&long);
    let end = outcome(submitted.watch).await;
    assert_eq!((&end.status, &*end.reason), (&TurnStatus::Partial, "limits.output_bytes"));
    assert!(end.text.len() < LIMIT + 100 && end.text.contains("bytes are missing here"));
}

/// Tool output counts, and a turn at its limit is not resumed.
#[tokio::test(start_paused = true)]
async fn a_turn_at_its_limit_is_not_resumed() {
    let stage = stage();
    let mut spec = SessionSpec::new("puppet", "/project");
    spec.budgets = Budgets { resumes: 3, ..spec.budgets };
    let session = stage.session_with(spec).await.id;
    let submitted = stage.submit(session, "go").await;
    let run = stage.control.next_turn().await;
    let result = ToolResult::new(ToolId::new("t"), true, "z".repeat(LIMIT));
    run.emit(vec![AgentEvent::Event(EventKind::ToolResult(result))]).await;
    run.io.cancel.cancelled().await;
    run.end(AgentOutcome::interrupted("stopped"));
    let end = outcome(submitted.watch).await;
    assert_eq!((&end.status, &*end.reason), (&TurnStatus::Partial, "limits.output_bytes"));
}

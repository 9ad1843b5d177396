//! Watchdogs, budgets and steering: what ends a turn, and what lets it continue.

use std::time::Duration;

use angelia_core::engine::{NewSession, SteerOutcome};
use angelia_core::{
    model::{
        ApprovalKind, ApprovalRequest, ApprovalStage, Content, EventKind, FailureKind,
        SessionRecord, SessionSpec, ToolAccess, ToolCall, ToolClass, ToolId, ToolResult, TurnEvent,
        TurnStatus, Usage, Verdict,
    },
    ports::{Activity, AgentEvent, AgentOutcome, TurnControl},
};
use angelia_testkit::manual_executor::ManualTurn;
use tokio::time::Instant;

use crate::harness::{EngineHarness, all_events, options, outcome};

fn raw() -> angelia_core::model::RawJson {
    serde_json::value::to_raw_value(&()).unwrap().into()
}

fn tool(id: &str) -> AgentEvent {
    AgentEvent::Event(EventKind::ToolCall(ToolCall {
        id: ToolId::new(id),
        name: "Bash".into(),
        class: ToolClass::Execute,
        input: raw(),
        title: "make".into(),
        parent: None,
    }))
}

fn tool_result(id: &str) -> AgentEvent {
    let (id, ok) = (ToolId::new(id), true);
    AgentEvent::Event(EventKind::ToolResult(ToolResult::new(id, ok, "")))
}

fn usage_event(output_tokens: u64, cost: f64) -> AgentEvent {
    let usage = Usage { output_tokens, cost_usd: Some(cost), ..Usage::default() };
    AgentEvent::Event(EventKind::Usage(usage))
}

async fn session_with(
    stage: &EngineHarness,
    change: impl FnOnce(&mut SessionSpec),
) -> SessionRecord {
    let mut spec = SessionSpec::new("puppet", "/project");
    change(&mut spec);
    stage
        .engine
        .create_session(NewSession { spec, title: None, name: None, source: None })
        .await
        .unwrap()
}

/// Ends the turn the way a well-behaved agent does when it is interrupted.
async fn end_when_interrupted(run: ManualTurn) {
    run.io.cancel.cancelled().await;
    run.end(AgentOutcome {
        status: TurnStatus::Interrupted,
        text: None,
        reason: "interrupted".into(),
    });
}

fn notices(events: &[TurnEvent]) -> Vec<&str> {
    let code = |event: &TurnEvent| match &event.kind {
        EventKind::Notice(notice) => Some(notice.code.to_string()),
        _ => None,
    };
    let codes: Vec<String> = events.iter().filter_map(code).collect();
    codes.into_iter().map(|code| &*code.leak()).collect()
}

#[tokio::test(start_paused = true)]
async fn each_state_rings_its_own_clock_and_the_next_turn_is_healthy() {
    type MakeEvents = fn() -> Vec<AgentEvent>;
    let cases: [(MakeEvents, u64, &str); 6] = [
        (Vec::new, 60, "first_event_timeout while starting"),
        (|| vec![tool("a")], 1800, "tool_timeout while running Bash"),
        (
            || vec![tool("a"), tool_result("a")],
            90,
            "post_tool_quiet_timeout while quiet after a tool",
        ),
        (
            || vec![AgentEvent::Activity(Activity::Retrying)],
            180,
            "retry_timeout while retrying upstream",
        ),
        (
            || vec![AgentEvent::Activity(Activity::Compacting)],
            600,
            "compaction_timeout while compacting",
        ),
        (
            || vec![AgentEvent::Activity(Activity::WaitingForModel)],
            120,
            "inter_event_silence_timeout while waiting for the model",
        ),
    ];
    for (tell, seconds, reason) in cases {
        let stage = EngineHarness::new();
        let session = stage.session().await;
        let submitted = stage.submit(session.id, "work").await;
        let run = stage.control.next_turn().await;
        let began = Instant::now();
        run.emit(tell()).await;
        // An agent that does not even react to the interrupt.
        let ended = outcome(submitted.watch).await;
        drop(run);
        assert_eq!(&*ended.reason, reason);
        assert_eq!(ended.status.failure().unwrap().kind, FailureKind::Timeout);
        let took = began.elapsed();
        let clock = Duration::from_secs(seconds);
        assert!(took >= clock && took <= clock + Duration::from_secs(1), "{reason}: {took:?}");
        assert_eq!(stage.control.closed_agents(), 1, "{reason}: the process is retired");

        let next = stage.submit(session.id, "again").await;
        stage.control.next_turn().await.complete("fine");
        assert_eq!(&*outcome(next.watch).await.text, "fine");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_deaf_agent_left_open_is_closed() {
    let stage = EngineHarness::new();
    let session = stage.session().await;
    let submitted = stage.submit(session.id, "work").await;
    let run = stage.control.next_turn().await;
    let channel = angelia_core::model::TextChannel::Answer;
    let delta = EventKind::Delta { block: 0, channel, text: "half".into() };
    run.emit(vec![AgentEvent::Event(delta), tool("a")]).await;
    let events = all_events(submitted.watch).await;
    drop(run);
    let whole = events.iter().any(
        |event| matches!(&event.kind, EventKind::Block { block: 0, text, .. } if &**text == "half"),
    );
    let ended = events
        .iter()
        .any(|event| matches!(&event.kind, EventKind::ToolResult(result) if !result.ok));
    assert!(whole && ended, "{events:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_honestly_runs_long_is_left_alone() {
    let stage = EngineHarness::new();
    let session = stage.session().await;
    let submitted = stage.submit(session.id, "work").await;
    let run = stage.control.next_turn().await;
    run.emit_started().await;
    run.emit(vec![tool("a")]).await;
    tokio::time::sleep(Duration::from_mins(29)).await;
    run.emit(vec![tool_result("a")]).await;
    run.complete("done");
    assert_eq!(outcome(submitted.watch).await.status, TurnStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn the_cap_ends_a_turn_that_is_never_silent() {
    let stage = EngineHarness::new();
    let session = session_with(&stage, |spec| spec.timeouts.timeout = Duration::from_mins(5)).await;
    let submitted = stage.submit(session.id, "talk").await;
    let run = stage.control.next_turn().await;
    run.emit_started().await;
    let talk = async {
        let mut block = 0;
        while !run.io.cancel.is_cancelled() {
            run.emit_answer(block, "x").await;
            block += 1;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        end_when_interrupted(run).await;
    };
    let (ended, ()) = tokio::join!(outcome(submitted.watch), talk);
    assert_eq!(&*ended.reason, "timeout while streaming");
    assert!(ended.text.starts_with("x\n\nx"), "what was said is kept");
}

#[tokio::test(start_paused = true)]
async fn an_approval_that_nobody_answers_is_declined_and_the_turn_goes_on() {
    let stage = EngineHarness::new();
    let session = stage.session().await;
    let submitted = stage.submit(session.id, "work").await;
    let mut run = stage.control.next_turn().await;
    run.emit_started().await;
    let request = ApprovalRequest {
        key: "q".into(),
        stage: ApprovalStage::Request,
        access: ToolAccess::default(),
        suggestions: Vec::new(),
        edits: Vec::new(),
        kind: ApprovalKind::Tool,
        tool_id: None,
        tool_name: "Bash".into(),
        class: ToolClass::Execute,
        subject: Some("make".into()),
        title: "make".into(),
        detail: "in /project".into(),
        input: raw(),
    };
    let began = Instant::now();
    run.emit(vec![AgentEvent::ApprovalRequest(request)]).await;
    let Some(TurnControl::Decide { decision, .. }) = run.io.control.recv().await else {
        panic!("a decision was due")
    };
    assert_eq!((decision.verdict, &*decision.by), (Verdict::Deny, "timeout"));
    assert_eq!(began.elapsed().as_secs(), 24 * 3600);
    run.complete("without it");
    assert_eq!(outcome(submitted.watch).await.status, TurnStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_budget_of_time_is_not_used_while_somebody_else_is_awaited() {
    let stage = EngineHarness::new();
    let session = session_with(&stage, |spec| {
        spec.budgets.time = Some(Duration::from_secs(30));
        spec.budgets.resumes = 0;
    })
    .await;
    let submitted = stage.submit(session.id, "work").await;
    let run = stage.control.next_turn().await;
    run.emit_started().await;
    run.emit(vec![AgentEvent::Activity(Activity::AwaitingToolResult)]).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert!(!run.io.cancel.is_cancelled());
    let id = ToolId::new("t");
    stage.engine.send_tool_result(submitted.turn, id, true, Vec::new()).await.unwrap();
    let began = Instant::now();
    run.io.cancel.cancelled().await;
    assert_eq!(began.elapsed().as_secs(), 30);
    end_when_interrupted(run).await;
    assert_eq!(outcome(submitted.watch).await.status, TurnStatus::Partial);
}

#[tokio::test(start_paused = true)]
async fn background_work_is_stopped_after_its_grace_and_the_answer_stands() {
    let stage = EngineHarness::new();
    let session = stage.session().await;
    let submitted = stage.submit(session.id, "work").await;
    let run = stage.control.next_turn().await;
    run.emit_started().await;
    run.emit_answer(0, "started it").await;
    run.emit(vec![AgentEvent::Activity(Activity::Background)]).await;
    let began = Instant::now();
    run.io.cancel.cancelled().await;
    assert_eq!(began.elapsed().as_secs(), 15 * 60);
    run.complete("started it");
    let events = all_events(submitted.watch).await;
    assert!(notices(&events).contains(&"background_stopped"));
    assert!(matches!(
        &events.last().unwrap().kind,
        EventKind::Finished(outcome) if outcome.status == TurnStatus::Completed
    ));
    assert_eq!(stage.control.closed_agents(), 0, "the process is fine");
}

#[tokio::test(start_paused = true)]
async fn a_budget_ends_a_turn_as_partial_with_what_there_is() {
    let stage = EngineHarness::new();
    let session = session_with(&stage, |spec| {
        spec.budgets.time = Some(Duration::from_secs(30));
        spec.budgets.resumes = 0;
    })
    .await;
    let submitted = stage.submit(session.id, "work").await;
    let run = stage.control.next_turn().await;
    run.emit_started().await;
    run.emit_answer(0, "half").await;
    end_when_interrupted(run).await;
    let ended = outcome(submitted.watch).await;
    assert_eq!((ended.status, &*ended.reason), (TurnStatus::Partial, "budget_seconds"));
    assert_eq!(&*ended.text, "half");
    assert_eq!(stage.control.closed_agents(), 0, "an interrupt, never a kill");
}

#[tokio::test(start_paused = true)]
async fn a_turn_stopped_by_its_tool_budget_goes_on_by_itself_as_one_turn() {
    let stage = EngineHarness::new();
    let session = session_with(&stage, |spec| {
        spec.budgets.tools = Some(1);
        spec.budgets.resumes = 1;
    })
    .await;
    let submitted = stage.submit(session.id, "work").await;
    let run = stage.control.next_turn().await;
    run.emit_started().await;
    run.emit_answer(0, "first").await;
    run.emit(vec![tool("a"), tool_result("a"), tool("b")]).await;
    run.io.cancel.cancelled().await;
    run.emit(vec![usage_event(10, 0.5)]).await;
    end_when_interrupted(run).await;

    let run = stage.control.next_turn().await;
    assert_eq!(run.turn.input, [Content::text("Continue where you left off.")]);
    run.emit_started().await;
    run.emit_answer(0, "second").await;
    run.emit(vec![usage_event(5, 0.25)]).await;
    run.complete("second");

    let events = all_events(submitted.watch).await;
    assert_eq!(notices(&events), ["budget_reached", "resumed"]);
    let started = events.iter().filter(|e| matches!(e.kind, EventKind::Started(_))).count();
    assert_eq!(started, 1, "for viewers it is one turn");
    let blocks: Vec<u32> = events
        .iter()
        .filter_map(|event| match event.kind {
            EventKind::Block { block, .. } => Some(block),
            _ => None,
        })
        .collect();
    assert_eq!(blocks, [0, 1]);
    let EventKind::Finished(outcome) = &events.last().unwrap().kind else { panic!("no end") };
    assert_eq!(outcome.status, TurnStatus::Completed);
    assert_eq!(&*outcome.text, "first\n\nsecond");
    assert_eq!((outcome.usage.output_tokens, outcome.usage.cost_usd), (15, Some(0.75)));
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_never_resumed_and_neither_is_what_has_cost_enough() {
    let stage = EngineHarness::new();
    let session = session_with(&stage, |spec| {
        spec.budgets.cost_usd = Some(1.0);
        spec.budgets.tools = Some(1);
    })
    .await;
    let submitted = stage.submit(session.id, "work").await;
    let run = stage.control.next_turn().await;
    run.emit_started().await;
    run.emit(vec![usage_event(1, 1.5)]).await;
    end_when_interrupted(run).await;
    let ended = outcome(submitted.watch).await;
    assert_eq!((ended.status, &*ended.reason), (TurnStatus::Partial, "max_cost_usd"));

    let submitted = stage.submit(session.id, "work").await;
    let run = stage.control.next_turn().await;
    run.emit_started().await;
    run.emit(vec![tool("a"), tool("b")]).await;
    run.io.cancel.cancelled().await;
    let failure = angelia_core::model::Failure::new(FailureKind::Agent, "it died");
    run.end(AgentOutcome::failed(failure));
    let ended = outcome(submitted.watch).await;
    assert_eq!(ended.status.failure().unwrap().kind, FailureKind::Agent);
}

#[tokio::test(start_paused = true)]
async fn the_cost_of_earlier_segments_counts() {
    let stage = EngineHarness::new();
    let session = session_with(&stage, |spec| {
        spec.budgets.cost_usd = Some(1.0);
        spec.budgets.tools = Some(1);
    })
    .await;
    let submitted = stage.submit(session.id, "work").await;
    for _ in 0..2 {
        let run = stage.control.next_turn().await;
        run.emit(vec![tool("a"), tool_result("a"), tool("b")]).await;
        run.io.cancel.cancelled().await;
        run.emit(vec![usage_event(1, 0.6)]).await;
        end_when_interrupted(run).await;
    }
    // Twice 0.6 exceeds the limit of 1, so there is no second continuation.
    let ended = outcome(submitted.watch).await;
    assert_eq!(ended.status, TurnStatus::Partial);
    assert_eq!(ended.usage.cost_usd, Some(1.2));
}

#[tokio::test(start_paused = true)]
async fn words_for_a_running_turn_reach_it() {
    let stage = EngineHarness::new();
    let session = stage.session().await;
    let submitted = stage.submit(session.id, "work").await;
    let mut run = stage.control.next_turn().await;
    let words = vec![Content::text("and tests")];
    let steered = stage.engine.steer(submitted.turn, words.clone(), options()).await.unwrap();
    assert!(matches!(steered, SteerOutcome::Passed));
    let Some(TurnControl::Steer(got)) = run.io.control.recv().await else { panic!("no words") };
    assert_eq!(got, words);
    run.complete("with tests");
    let events = all_events(submitted.watch).await;
    assert_eq!(notices(&events), ["steered"]);
    let late = stage.engine.steer(submitted.turn, words, options()).await;
    assert!(matches!(late, Err(angelia_core::engine::EngineError::NotRunning)));
}

#[tokio::test(start_paused = true)]
async fn the_cap_stands_still_while_a_callers_tool_is_awaited() {
    let stage = EngineHarness::new();
    let session = session_with(&stage, |spec| spec.timeouts.timeout = Duration::from_mins(3)).await;
    let submitted = stage.submit(session.id, "work").await;
    let mut run = stage.control.next_turn().await;
    run.emit_started().await;
    run.emit(vec![AgentEvent::Activity(Activity::AwaitingToolResult)]).await;
    tokio::time::sleep(Duration::from_mins(9)).await;
    let id = ToolId::new("t");
    let content = vec![Content::text("42")];
    stage.engine.send_tool_result(submitted.turn, id, true, content).await.unwrap();
    assert!(matches!(run.io.control.recv().await, Some(TurnControl::ToolResult { .. })));
    tokio::time::sleep(Duration::from_mins(1)).await;
    run.complete("done");
    assert_eq!(outcome(submitted.watch).await.status, TurnStatus::Completed);
}

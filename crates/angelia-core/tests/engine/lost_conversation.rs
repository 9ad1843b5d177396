//! An agent that has lost its own transcript of a session: the record is carried into a new
//! conversation, and the turn says so.

use std::{sync::Arc, time::Duration};

use angelia_core::{
    engine::{HISTORY_CARRIED_NOTICE, PARKED_NOTICE, RESUME_LOST_NOTICE},
    model::{
        Content, EventKind, Failure, FailureKind, HistoryMessage, MessagePart, Role, SessionId,
        ToolCall, ToolClass, ToolId, ToolResult, TurnEvent, TurnOptions,
    },
    ports::{AgentEvent, AgentOutcome},
};
use angelia_testkit::manual_executor::ManualTurn;

use crate::harness::{EngineHarness, all_events, options};

/// Returns one line per message of text: `user: one`.
fn lines(history: &[HistoryMessage]) -> Vec<String> {
    let line = |message: &HistoryMessage| {
        let [MessagePart::Content(Content::Text(text))] = &*message.parts else {
            panic!("not one text: {message:?}")
        };
        let role = if message.role == Role::User { "user" } else { "assistant" };
        format!("{role}: {text}")
    };
    history.iter().map(line).collect()
}

fn tool_call(id: &str) -> AgentEvent {
    AgentEvent::Event(EventKind::ToolCall(ToolCall {
        id: ToolId::new(id),
        name: "Bash".into(),
        class: ToolClass::Execute,
        input: serde_json::value::RawValue::from_string("{}".to_owned()).unwrap().into(),
        title: "ls".into(),
        parent: None,
    }))
}

fn tool_result(id: &str) -> AgentEvent {
    let id = ToolId::new(id);
    AgentEvent::Event(EventKind::ToolResult(ToolResult::new(id, true, "out")))
}

async fn answer(run: ManualTurn, text: &str) {
    run.emit_started().await;
    run.emit_answer(0, text).await;
    run.complete(text);
}

/// Runs a turn to its end with the given answer.
async fn run_turn(
    stage: &EngineHarness,
    session: SessionId,
    prompt: &str,
    reply: &str,
) -> Vec<TurnEvent> {
    let turn = stage.submit(session, prompt).await;
    answer(stage.control.next_turn().await, reply).await;
    all_events(turn.watch).await
}

fn notice_codes(events: &[TurnEvent]) -> Vec<Arc<str>> {
    let code = |event: &TurnEvent| match &event.kind {
        EventKind::Notice(notice) => Some(Arc::clone(&notice.code)),
        _ => None,
    };
    events.iter().filter_map(code).collect()
}

#[tokio::test(start_paused = true)]
async fn the_record_is_carried_once_and_the_turn_says_so() {
    let stage = EngineHarness::new();
    let session = stage.session().await.id;
    run_turn(&stage, session, "one", "1").await;
    run_turn(&stage, session, "two", "2").await;
    stage.engine.release_session(session).await.unwrap();
    stage.control.lose_conversations();

    let turn = stage.submit(session, "three").await;
    let run = stage.control.next_turn().await;
    assert_eq!(run.resumed, None);
    let carried = lines(&run.spec.history);
    assert_eq!(carried, ["user: one", "assistant: 1", "user: two", "assistant: 2"]);
    answer(run, "3").await;
    let events = all_events(turn.watch).await;
    assert_eq!(notice_codes(&events), [HISTORY_CARRIED_NOTICE.into()]);
    let started = events.iter().find_map(|event| match &event.kind {
        EventKind::Started(started) => Some(started.resumed),
        _ => None,
    });
    assert_eq!(started, Some(false));

    // The new agent has the conversation, and the session itself is as before.
    let events = run_turn(&stage, session, "four", "4").await;
    assert!(notice_codes(&events).is_empty());
    assert_eq!(stage.control.opened_agents(), 2);
    let record = stage.engine.session(session).await.unwrap();
    assert!(record.spec.history.is_empty() && record.native.is_some(), "{record:?}");
    assert_eq!(stage.engine.messages(session).await.unwrap().len(), 8);
}

#[tokio::test(start_paused = true)]
async fn a_session_without_a_record_says_that_nothing_could_be_carried() {
    let stage = EngineHarness::new();
    let session = stage.session().await.id;
    let turn = stage.submit(session, "one").await;
    let run = stage.control.next_turn().await;
    run.emit_started().await;
    run.end(AgentOutcome::failed(Failure::new(FailureKind::Agent, "no")));
    all_events(turn.watch).await;
    stage.engine.release_session(session).await.unwrap();
    stage.control.lose_conversations();
    let events = run_turn(&stage, session, "two", "2").await;
    assert_eq!(notice_codes(&events), [RESUME_LOST_NOTICE.into()]);
}

/// The text of a turn before it was parked belongs to the history as well: the next input is only
/// "continue".
#[tokio::test(start_paused = true)]
async fn a_turn_that_goes_on_has_its_own_words_too() {
    let stage = EngineHarness::new();
    let session = stage.session().await.id;
    run_turn(&stage, session, "one", "1").await;
    let options = TurnOptions { can_park: true, ..options() };
    let input = vec![Content::text("two")];
    let mut turn = stage.engine.submit(session, input, options).await.unwrap();
    let run = stage.control.next_turn().await;
    run.emit_started().await;
    run.emit_answer(0, "half").await;
    let mut failure = Failure::new(FailureKind::RateLimited, "no quota");
    failure.retry_after = Some(Duration::from_mins(1));
    run.end(AgentOutcome::failed(failure));
    loop {
        let batch = turn.watch.next().await.unwrap().unwrap();
        if notice_codes(&batch).contains(&PARKED_NOTICE.into()) {
            break;
        }
    }
    stage.control.lose_conversations();
    let run = stage.control.next_turn().await;
    assert_ne!(run.turn.input, [Content::text("two")]);
    assert_eq!(lines(&run.spec.history)[2..], ["user: two", "assistant: half"]);
    answer(run, "whole").await;
    all_events(turn.watch).await;
}

/// The model APIs refuse a call without a result, and a result that does not follow its call.
#[tokio::test(start_paused = true)]
async fn every_carried_call_is_followed_by_its_result() {
    let stage = EngineHarness::new();
    let session = stage.session().await.id;
    let turn = stage.submit(session, "work").await;
    let run = stage.control.next_turn().await;
    run.emit_started().await;
    run.emit(vec![tool_call("a"), tool_call("b"), tool_result("b")]).await;
    run.emit_answer(0, "meanwhile").await;
    run.emit(vec![tool_result("a"), tool_call("c")]).await;
    run.complete("meanwhile");
    all_events(turn.watch).await;
    let messages = stage.engine.messages(session).await.unwrap();
    let shape: Vec<(Role, Vec<&str>)> = messages
        .iter()
        .map(|message| {
            let part = |part: &'_ MessagePart| match part {
                MessagePart::ToolUse { .. } => "call",
                MessagePart::ToolResult { ok: true, .. } => "result",
                MessagePart::ToolResult { .. } => "error",
                _ => "text",
            };
            (message.role, message.parts.iter().map(part).collect())
        })
        .collect();
    assert_eq!(
        shape,
        [
            (Role::User, vec!["text"]),
            (Role::Assistant, vec!["call", "call"]),
            (Role::User, vec!["result", "result"]),
            (Role::Assistant, vec!["text", "call"]),
            (Role::User, vec!["error"]),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_fork_starts_from_the_record() {
    let stage = EngineHarness::new();
    let session = stage.session().await.id;
    run_turn(&stage, session, "one", "1").await;
    stage.control.lose_conversations();
    let fork = stage.engine.fork_session(session).await.unwrap();
    assert_eq!(fork.native, None);
    let turn = stage.submit(fork.id, "two").await;
    let run = stage.control.next_turn().await;
    assert_eq!(lines(&run.spec.history), ["user: one", "assistant: 1"]);
    answer(run, "2").await;
    all_events(turn.watch).await;
    assert_eq!(stage.engine.messages(fork.id).await.unwrap().len(), 4);
}

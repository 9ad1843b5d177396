//! A quota that is used up: turns are parked, resumed, or moved to another profile.

use std::time::Duration;

use angelia_core::{
    engine::{EngineError, PARKED_NOTICE, SubmittedTurn},
    model::{
        Content, EventKind, Failure, FailureKind, MessagePart, Mode, Role, SessionId, SessionSpec,
        ToolCall, ToolClass, ToolId, TurnOptions, TurnState, TurnStatus,
    },
    ports::{AgentEvent, AgentOutcome},
};
use angelia_testkit::manual_executor::ManualTurn;

use crate::harness::{EngineHarness, all_events, options, outcome};

const HOUR: Duration = Duration::from_hours(1);

fn rate_limited_outcome(wait: Duration) -> AgentOutcome {
    let mut failure = Failure::new(FailureKind::RateLimited, "no quota");
    failure.retry_after = Some(wait);
    AgentOutcome::failed(failure)
}

async fn submit(stage: &EngineHarness, session: SessionId, text: &str) -> SubmittedTurn {
    let options = TurnOptions { can_park: true, ..options() };
    let input = vec![Content::text(text)];
    stage.engine.submit(session, input, options).await.unwrap()
}

async fn wait_until_parked(submitted: &mut SubmittedTurn) {
    while let Some(batch) = submitted.watch.next().await.unwrap() {
        let is_parked = |kind: &EventKind| matches!(kind, EventKind::Notice(notice) if &*notice.code == PARKED_NOTICE);
        if batch.iter().any(|event| is_parked(&event.kind)) {
            return;
        }
    }
    panic!("the turn was not parked");
}

async fn state_of(stage: &EngineHarness, submitted: &SubmittedTurn) -> TurnState {
    stage.engine.turn(submitted.turn).await.unwrap().state
}

fn turn_input(run: &ManualTurn) -> &[Content] {
    &run.turn.input
}

fn bash() -> AgentEvent {
    AgentEvent::Event(EventKind::ToolCall(ToolCall {
        id: ToolId::new("t1"),
        name: "Bash".into(),
        class: ToolClass::Execute,
        input: serde_json::value::RawValue::from_string("{}".to_owned()).unwrap().into(),
        title: "ls".into(),
        parent: None,
    }))
}

#[tokio::test(start_paused = true)]
async fn a_turn_waits_for_the_reset_and_goes_on_by_itself() {
    let stage = EngineHarness::new();
    let session = stage.session().await;
    let mut submitted = submit(&stage, session.id, "work").await;
    let began = stage.now();
    let run = stage.control.next_turn().await;
    run.emit_started().await;
    run.end(rate_limited_outcome(2 * HOUR));
    wait_until_parked(&mut submitted).await;
    let now = state_of(&stage, &submitted).await;
    let TurnState::Parked { resumes_at } = now else { panic!("{now:?}") };
    let wait = resumes_at.duration_since(began).as_secs();
    assert!((7200..7210).contains(&wait), "{wait}");
    assert_eq!(stage.control.closed_agents(), 1, "no process is kept meanwhile");

    let run = stage.control.next_turn().await;
    assert!(stage.now() >= resumes_at);
    // The turn had produced nothing, so its input is sent again.
    assert_eq!(turn_input(&run), [Content::text("work")]);
    let now = state_of(&stage, &submitted).await;
    assert_eq!(now, TurnState::Running);
    run.emit_started().await;
    run.emit_answer(0, "done").await;
    run.complete("done");
    let watch = stage.engine.watch(submitted.turn, 0).await.unwrap();
    assert_eq!(outcome(watch).await.status, TurnStatus::Completed);
    let watch = stage.engine.watch(submitted.turn, 0).await.unwrap();
    let started = |kind: &EventKind| matches!(kind, EventKind::Started(_));
    let events = all_events(watch).await;
    assert_eq!(events.iter().filter(|event| started(&event.kind)).count(), 1);
}

/// With a hot agent, the turn is still being written when the missing quota becomes known.
#[tokio::test(start_paused = true)]
async fn a_hot_session_waits_for_a_reset_that_another_one_has_met() {
    let stage = EngineHarness::new();
    let (hot, other) = (stage.session().await, stage.session().await);
    let first = submit(&stage, hot.id, "one").await;
    stage.control.next_turn().await.complete("1");
    outcome(first.watch).await;
    let mut met = submit(&stage, other.id, "met").await;
    stage.control.next_turn().await.end(rate_limited_outcome(HOUR));
    wait_until_parked(&mut met).await;

    let mut second = submit(&stage, hot.id, "two").await;
    wait_until_parked(&mut second).await;
    let now = state_of(&stage, &second).await;
    assert!(matches!(now, TurnState::Parked { .. }), "{now:?}");
    for _ in 0..2 {
        stage.control.next_turn().await.complete("done");
    }
    let last = all_events(second.watch).await.pop().unwrap();
    let EventKind::Finished(outcome) = last.kind else { panic!("{last:?}") };
    assert_eq!(outcome.status, TurnStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn what_was_begun_is_continued_and_the_answer_is_whole() {
    let stage = EngineHarness::new();
    let session = stage.session().await;
    let submitted = submit(&stage, session.id, "work").await;
    let run = stage.control.next_turn().await;
    run.emit_started().await;
    run.emit_answer(0, "first half").await;
    run.end(rate_limited_outcome(HOUR));
    let run = stage.control.next_turn().await;
    assert_eq!(turn_input(&run), [Content::text("Continue where you left off.")]);
    assert_eq!(run.resumed.as_ref().unwrap().as_str(), "native-1");
    run.emit_started().await;
    run.emit_answer(0, "second half").await;
    run.complete("second half");
    let end = outcome(submitted.watch).await;
    assert_eq!((end.status, &*end.text), (TurnStatus::Completed, "first half\n\nsecond half"));
}

#[tokio::test(start_paused = true)]
async fn who_cannot_wait_is_told_when_and_the_next_one_at_once() {
    let stage = EngineHarness::new();
    let session = stage.session().await;
    let submitted = stage.submit(session.id, "work").await;
    let run = stage.control.next_turn().await;
    run.emit_started().await;
    run.end(rate_limited_outcome(3 * HOUR));
    let failure = |status: TurnStatus| status.failure().cloned().unwrap();
    let first = failure(outcome(submitted.watch).await.status);
    assert_eq!((first.kind, first.retry_after), (FailureKind::RateLimited, Some(3 * HOUR)));

    // No agent is started for another session of the same profile.
    let other = stage.session().await;
    let submitted = stage.submit(other.id, "work").await;
    let second = failure(outcome(submitted.watch).await.status);
    assert_eq!(second.kind, FailureKind::RateLimited);
    let left = second.retry_after.unwrap();
    let reset = 3 * HOUR + Duration::from_secs(1);
    assert!(left <= reset && left > 2 * HOUR, "{left:?}");
    assert_eq!(stage.control.opened_agents(), 1);

    // A single error counts only for a short time.
    tokio::time::sleep(Duration::from_mins(15)).await;
    let submitted = stage.submit(other.id, "work").await;
    let run = stage.control.next_turn().await;
    run.complete("works again");
    assert_eq!(outcome(submitted.watch).await.status, TurnStatus::Completed);
    let submitted = stage.submit(session.id, "work").await;
    stage.control.next_turn().await.complete("here too");
    assert_eq!(outcome(submitted.watch).await.status, TurnStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_reset_in_days_is_tried_within_hours() {
    let stage = EngineHarness::new();
    let session = stage.session().await;
    let mut submitted = submit(&stage, session.id, "work").await;
    stage.control.next_turn().await.end(rate_limited_outcome(100 * HOUR));
    wait_until_parked(&mut submitted).await;
    let parked_at = stage.now();
    let run = stage.control.next_turn().await;
    let waited = stage.now().duration_since(parked_at).as_hours();
    assert_eq!(waited, 6);
    // The quota is still used up, so the same turn is parked again.
    run.end(rate_limited_outcome(94 * HOUR));
    wait_until_parked(&mut submitted).await;
    stage.control.next_turn().await.complete("at last");
    let mut last = None;
    while let Some(batch) = submitted.watch.next().await.unwrap() {
        last = batch.last().map(|event| event.kind.clone());
    }
    assert!(matches!(last, Some(EventKind::Finished(end)) if end.status == TurnStatus::Completed));
}

#[tokio::test(start_paused = true)]
async fn a_parked_turn_survives_a_restart() {
    let stage = EngineHarness::new();
    let session = stage.session().await;
    let mut submitted = submit(&stage, session.id, "work").await;
    let run = stage.control.next_turn().await;
    run.emit_started().await;
    run.emit_answer(0, "first half").await;
    run.end(rate_limited_outcome(HOUR));
    wait_until_parked(&mut submitted).await;
    let stage = stage.restart().await;
    // A viewer is not left waiting.
    assert!(submitted.watch.next().await.unwrap().is_none());
    let now = state_of(&stage, &submitted).await;
    assert!(matches!(now, TurnState::Parked { .. }), "{now:?}");

    assert_eq!(stage.engine.recover_lost_turns().await.unwrap(), 0, "it is not lost");
    assert_eq!(stage.engine.resume_turns().await.unwrap(), 1);
    let watch = stage.engine.watch(submitted.turn, 0).await.unwrap();
    let next = stage.submit(session.id, "next").await;
    let run = stage.control.next_turn().await;
    assert_eq!(turn_input(&run), [Content::text("Continue where you left off.")]);
    run.emit_started().await;
    run.emit_answer(0, "second half").await;
    run.complete("second half");
    let events = all_events(watch).await;
    let seqs: Vec<_> = events.iter().map(|event| event.seq).collect();
    assert!(seqs.is_sorted_by(|a, b| a < b), "{seqs:?}");
    let count =
        |wanted: fn(&EventKind) -> bool| events.iter().filter(|event| wanted(&event.kind)).count();
    assert_eq!(count(|kind| matches!(kind, EventKind::Started(_))), 1);
    assert_eq!(count(|kind| matches!(kind, EventKind::Finished(_))), 1);
    let Some(EventKind::Finished(end)) = events.last().map(|event| &event.kind) else {
        panic!("no end")
    };
    assert_eq!(&*end.text, "first half\n\nsecond half");
    // The turn queued behind it runs after it.
    let run = stage.control.next_turn().await;
    assert_eq!(turn_input(&run), [Content::text("next")]);
    run.complete("");
    assert_eq!(outcome(next.watch).await.status, TurnStatus::Completed);
}

/// Returns a turn that has emitted some text and is parked.
async fn submit_and_park(stage: &EngineHarness) -> SubmittedTurn {
    let session = stage.session().await;
    let mut submitted = submit(stage, session.id, "work").await;
    let run = stage.control.next_turn().await;
    run.emit_answer(0, "so far").await;
    run.end(rate_limited_outcome(HOUR));
    wait_until_parked(&mut submitted).await;
    submitted
}

#[tokio::test(start_paused = true)]
async fn a_parked_turn_can_be_interrupted() {
    let stage = EngineHarness::new();
    let turn = submit_and_park(&stage).await.turn;
    stage.engine.interrupt(turn, false).await.unwrap();
    let watch = stage.engine.watch(turn, 0).await.unwrap();
    let end = outcome(watch).await;
    assert_eq!((end.status, &*end.text), (TurnStatus::Interrupted, "so far"));
}

#[tokio::test(start_paused = true)]
async fn a_parked_turn_that_nobody_waits_with_can_be_interrupted() {
    let stage = EngineHarness::new();
    let turn = submit_and_park(&stage).await.turn;
    let stage = stage.restart().await;
    stage.engine.interrupt(turn, false).await.unwrap();
    let watch = stage.engine.watch(turn, 0).await.unwrap();
    let last = all_events(watch).await.pop().unwrap();
    let EventKind::Finished(end) = last.kind else { panic!("no end") };
    assert_eq!((end.status, &*end.text), (TurnStatus::Interrupted, "so far"));
    let again = stage.engine.interrupt(turn, false).await;
    assert!(matches!(again, Err(EngineError::NotRunning)), "{again:?}");
}

fn with_fallback(mode: Mode, fallback_mode: Mode) -> SessionSpec {
    let spec = |profile: &str, mode| SessionSpec {
        profile: profile.into(),
        mode,
        ..SessionSpec::new("puppet", "/project")
    };
    SessionSpec { fallback: Some(Box::new(spec("second", fallback_mode))), ..spec("first", mode) }
}

#[tokio::test(start_paused = true)]
async fn the_fallback_profile_takes_over_with_what_was_said() {
    let stage = EngineHarness::new();
    let session = stage.session_with(with_fallback(Mode::Agent, Mode::Agent)).await;
    let submitted = submit(&stage, session.id, "hello").await;
    let run = stage.control.next_turn().await;
    run.emit_started().await;
    run.emit(vec![bash()]).await;
    run.emit_answer(0, "hi").await;
    run.complete("hi");
    outcome(submitted.watch).await;

    let submitted = submit(&stage, session.id, "more").await;
    stage.control.next_turn().await.end(rate_limited_outcome(HOUR));
    let run = stage.control.next_turn().await;
    assert_eq!(&*run.spec.profile, "second");
    assert_eq!(run.resumed, None, "another conversation of the agent's");
    let roles: Vec<_> = run.spec.history.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::User]);
    let told = &run.spec.history[1].parts;
    assert!(matches!(&told[0], MessagePart::ToolUse { name, .. } if &**name == "Bash"));
    assert!(matches!(&told[1], MessagePart::Content(Content::Text(text)) if &**text == "hi"));
    assert_eq!(turn_input(&run), [Content::text("more")]);
    run.emit_answer(0, "here").await;
    run.complete("here");
    assert_eq!(outcome(submitted.watch).await.status, TurnStatus::Completed);
    let session = stage.engine.session(session.id).await.unwrap();
    assert_eq!(&*session.spec.profile, "second");
    // The carried history is also in the record, but `messages` returns it only once.
    let told = stage.engine.messages(session.id).await.unwrap();
    let parts = told.iter().flat_map(|message| &message.parts);
    let texts: Vec<_> = parts
        .filter_map(|part| match part {
            MessagePart::Content(Content::Text(text)) => Some(&**text),
            _ => None,
        })
        .collect();
    assert_eq!(texts, ["hello", "hi", "more", "here"]);
}

#[tokio::test(start_paused = true)]
async fn nobody_takes_over_after_a_tool_nor_to_do_more_than_was_allowed() {
    let stage = EngineHarness::new();
    let session = stage.session_with(with_fallback(Mode::Agent, Mode::Agent)).await;
    let mut submitted = submit(&stage, session.id, "work").await;
    let run = stage.control.next_turn().await;
    run.emit(vec![bash()]).await;
    run.end(rate_limited_outcome(HOUR));
    wait_until_parked(&mut submitted).await;
    let run = stage.control.next_turn().await;
    assert_eq!(&*run.spec.profile, "first");
    run.complete("");

    let session = stage.session_with(with_fallback(Mode::Model, Mode::Agent)).await;
    let submitted = stage.submit(session.id, "work").await;
    stage.control.next_turn().await.end(rate_limited_outcome(HOUR));
    let end = outcome(submitted.watch).await;
    assert!(matches!(end.status, TurnStatus::Failed(_)), "{end:?}");
}

//! Failures of an agent, and the hints that say what to do about them.

use std::time::Duration;

use angelia_core::model::{FailureKind, Verdict};

use super::{
    ExecutorFixture,
    processes::{PROCESSES_VISIBLE, assert_no_process, kill_agents},
    session::{AgentSession, TurnViewer, open, resume},
};
use crate::turn_output::TurnOutput;

pub async fn not_logged_in_is_a_failure_with_a_hint(fixture: &impl ExecutorFixture) {
    let (spec, prompt) = fixture.auth_failure();
    let mut session = open(fixture, &spec).await;
    let heard = session.prompt(prompt).await;
    let failure = heard.failure();
    assert_eq!(failure.kind, FailureKind::Auth, "{heard:#?}");
    let hint = failure.hint.as_deref().unwrap_or_default();
    assert!(!hint.trim().is_empty(), "{failure:?}");
    session.close().await;
}

pub async fn a_killed_agent_is_a_failed_turn_and_the_conversation_survives(
    fixture: &impl ExecutorFixture,
) {
    if !PROCESSES_VISIBLE || !fixture.has_process() {
        return;
    }
    let spec = fixture.spec();
    let mut session = open(fixture, &spec).await;
    let first = session.prompt(fixture.say_prompt("said before")).await;

    let words = fixture.words_prompt(2_000, Duration::from_millis(20));
    let speaking = async |view: &mut TurnViewer| {
        view.until_delta().await;
        kill_agents(fixture);
    };
    let heard = session.prompt_watched(words, speaking).await;
    assert_eq!(heard.blocks().concat(), heard.deltas(), "what was said stays");
    let mut session = assert_conversation_survived(fixture, session, &heard, &first).await;

    let asking = async |view: &mut TurnViewer| {
        view.until_approval_request().await;
        kill_agents(fixture);
    };
    let heard = session.prompt_watched(fixture.approval_prompt("mkdir never"), asking).await;
    let mut session = assert_conversation_survived(fixture, session, &heard, &first).await;

    let tool = fixture.escaped_tool();
    let running = async |view: &mut TurnViewer| {
        view.until_tool_runs(&tool).await;
        kill_agents(fixture);
    };
    let heard = session.prompt_watched(tool.prompt.as_str(), running).await;
    assert!(!heard.tool_results()[0].ok, "{heard:#?}");
    let mut session = assert_conversation_survived(fixture, session, &heard, &first).await;

    // An agent that dies between two turns is noticed only by the next turn.
    kill_agents(fixture);
    if session.is_usable() {
        let heard = session.prompt(fixture.say_prompt("to nobody")).await;
        assert_died(&heard);
    }
    session.close().await;
}

pub async fn an_agent_that_ends_itself_is_a_failed_turn(fixture: &impl ExecutorFixture) {
    let Some(prompt) = fixture.exit_prompt() else { return };
    let mut session = open(fixture, &fixture.spec()).await;
    let heard = session.prompt_with_verdict(prompt, Verdict::Once).await;
    assert_died(&heard);
    assert!(!session.is_usable());
    session.close().await;
    assert_no_process(fixture);
}

fn assert_died(heard: &TurnOutput) {
    let failure = heard.failure();
    assert_eq!(failure.kind, FailureKind::Agent, "{heard:#?}");
    assert!(failure.hint.is_some(), "{failure:?}");
}

/// Asserts that the turn failed and the agent is unusable, and that a new agent resumes its
/// conversation.
async fn assert_conversation_survived(
    fixture: &impl ExecutorFixture,
    mut session: AgentSession,
    heard: &TurnOutput,
    first: &TurnOutput,
) -> AgentSession {
    assert_died(heard);
    assert!(!session.is_usable());
    session.close().await;
    assert_no_process(fixture);
    let mut session = resume(fixture, &fixture.spec(), &first.native_session_id()).await;
    let heard = session.prompt(fixture.say_prompt("said after")).await;
    assert!(heard.answer_or_blocks().contains("said after"));
    assert_eq!(heard.native_session_id(), first.native_session_id());
    assert!(heard.started().resumed);
    let remembered = fixture
        .last_model_request()
        .is_none_or(|told| super::json_contains_text(&told, "said before"));
    assert!(remembered, "{heard:#?}");
    session
}

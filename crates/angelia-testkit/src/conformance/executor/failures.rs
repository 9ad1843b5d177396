//! Failures of an agent, and the hints that say what to do about them.

use std::time::Duration;

use angelia_core::model::{FailureKind, Verdict};

use super::{
    ExecutorFixture,
    heard::Heard,
    processes::{ARE_VISIBLE, assert_none, kill_agents},
    session::{Session, View, open, resume},
};

pub async fn not_logged_in_is_a_failure_with_a_hint(fixture: &impl ExecutorFixture) {
    let (spec, prompt) = fixture.fail_auth();
    let mut session = open(fixture, &spec).await;
    let heard = session.say(prompt).await;
    let failure = heard.failure();
    assert_eq!(failure.kind, FailureKind::Auth, "{heard:#?}");
    let hint = failure.hint.as_deref().unwrap_or_default();
    assert!(!hint.trim().is_empty(), "{failure:?}");
    session.close().await;
}

pub async fn a_killed_agent_is_a_failed_turn_and_the_conversation_survives(
    fixture: &impl ExecutorFixture,
) {
    if !ARE_VISIBLE {
        return;
    }
    let spec = fixture.spec();
    let mut session = open(fixture, &spec).await;
    let first = session.say(fixture.say("said before")).await;

    let words = fixture.words(2_000, Duration::from_millis(20));
    let speaking = async |view: &mut View| {
        view.until_delta().await;
        kill_agents(fixture);
    };
    let heard = session.watched(words, speaking).await;
    assert_eq!(heard.blocks().concat(), heard.deltas(), "what was said stays");
    let mut session = survived(fixture, session, &heard, &first).await;

    let asking = async |view: &mut View| {
        view.until_asked().await;
        kill_agents(fixture);
    };
    let heard = session.watched(fixture.ask("mkdir never"), asking).await;
    let mut session = survived(fixture, session, &heard, &first).await;

    let tool = fixture.escaped_tool();
    let running = async |view: &mut View| {
        view.until_running(&tool).await;
        kill_agents(fixture);
    };
    let heard = session.watched(tool.prompt.as_str(), running).await;
    assert!(!heard.tool_results()[0].ok, "{heard:#?}");
    let mut session = survived(fixture, session, &heard, &first).await;

    // An agent that dies between two turns is noticed only by the next turn.
    kill_agents(fixture);
    if session.is_usable() {
        let heard = session.say(fixture.say("to nobody")).await;
        assert_died(&heard);
    }
    session.close().await;
}

pub async fn an_agent_that_ends_itself_is_a_failed_turn(fixture: &impl ExecutorFixture) {
    let Some(prompt) = fixture.die() else { return };
    let mut session = open(fixture, &fixture.spec()).await;
    let heard = session.decided(prompt, Verdict::Once).await;
    assert_died(&heard);
    assert!(!session.is_usable());
    session.close().await;
    assert_none(fixture);
}

fn assert_died(heard: &Heard) {
    let failure = heard.failure();
    assert_eq!(failure.kind, FailureKind::Agent, "{heard:#?}");
    assert!(failure.hint.is_some(), "{failure:?}");
}

/// Asserts that the turn failed and the agent is unusable, and that a new agent resumes its
/// conversation.
async fn survived(
    fixture: &impl ExecutorFixture,
    mut session: Session,
    heard: &Heard,
    first: &Heard,
) -> Session {
    assert_died(heard);
    assert!(!session.is_usable());
    session.close().await;
    assert_none(fixture);
    let mut session = resume(fixture, &fixture.spec(), &first.native()).await;
    let heard = session.say(fixture.say("said after")).await;
    assert!(heard.answer().contains("said after"));
    assert_eq!(heard.native(), first.native());
    assert!(heard.started().resumed);
    let remembered = fixture.told().is_none_or(|told| super::says(&told, "said before"));
    assert!(remembered, "{heard:#?}");
    session
}

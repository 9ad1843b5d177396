//! Interrupts in every state of an agent: the turn ends soon, and the next turn works.

use std::time::Duration;

use angelia_core::model::TurnStatus;

use super::{
    ExecutorFixture,
    processes::{PROCESSES_VISIBLE, stop_agents, wait_for_only_agents},
    session::{AgentSession, TurnViewer, open, resume},
};
use crate::turn_output::TurnOutput;

/// An interrupt must end the turn within this time.
const INTERRUPT_LIMIT: Duration = Duration::from_secs(5);

/// Returns a prompt for an answer that takes longer than any check.
fn long_answer(fixture: &impl ExecutorFixture) -> String {
    fixture.words_prompt(2_000, Duration::from_millis(20))
}

fn assert_interrupted(heard: &TurnOutput) {
    assert_eq!(heard.outcome.status, TurnStatus::Interrupted, "{heard:#?}");
    let reaction = heard.cancel_latency.unwrap();
    assert!(reaction < INTERRUPT_LIMIT, "after {reaction:?}: {heard:#?}");
}

/// Asserts that the next turn works: with this agent, or with a new one when this one is unusable.
async fn assert_session_continues(
    fixture: &impl ExecutorFixture,
    mut session: AgentSession,
    heard: &TurnOutput,
) {
    if !session.is_usable() {
        session.close().await;
        session = resume(fixture, &fixture.spec(), &heard.native_session_id()).await;
    }
    let heard = session.prompt(fixture.say_prompt("going on")).await;
    assert!(heard.answer_or_blocks().contains("going on"));
    assert!(heard.approval_requests().is_empty(), "{heard:#?}");
    session.close().await;
}

pub async fn an_interrupt_while_it_is_silent(fixture: &impl ExecutorFixture) {
    let mut session = open(fixture, &fixture.spec()).await;
    let heard = session
        .prompt_watched(fixture.hang_prompt(), async |view| {
            view.until_silent().await;
            view.cancel();
        })
        .await;
    assert_interrupted(&heard);
    assert_session_continues(fixture, session, &heard).await;
}

pub async fn an_interrupt_while_it_asks(fixture: &impl ExecutorFixture) {
    let mut session = open(fixture, &fixture.spec()).await;
    let heard = session
        .prompt_watched(fixture.approval_prompt("mkdir never-made"), async |view| {
            view.until_approval_request().await;
            view.cancel();
        })
        .await;
    assert_interrupted(&heard);
    assert!(!fixture.spec().cwd.join("never-made").exists());
    assert_session_continues(fixture, session, &heard).await;
}

pub async fn an_interrupt_while_a_tool_runs(fixture: &impl ExecutorFixture) {
    let mut session = open(fixture, &fixture.spec()).await;
    let tool = fixture.long_tool();
    let heard = session
        .prompt_watched(tool.prompt.as_str(), async |view| {
            view.until_tool_runs(&tool).await;
            view.cancel();
        })
        .await;
    assert_interrupted(&heard);
    assert_eq!(heard.tool_calls().len(), 1);
    assert!(!heard.tool_results()[0].ok, "{heard:#?}");
    wait_for_only_agents(fixture).await;
    assert_session_continues(fixture, session, &heard).await;
}

pub async fn an_interrupt_before_and_at_the_beginning(fixture: &impl ExecutorFixture) {
    let mut session = open(fixture, &fixture.spec()).await;
    // Cancelled before the start: the agent never says anything.
    let heard = session.prompt_cancelled(fixture.say_prompt("never said")).await;
    assert_interrupted(&heard);
    assert!(session.is_usable());
    let heard = session.prompt(fixture.say_prompt("said first")).await;
    assert!(heard.answer_or_blocks().contains("said first"));
    assert!(
        !fixture
            .last_model_request()
            .is_some_and(|told| super::json_contains_text(&told, "never said"))
    );

    // Cancelled at once, and as soon as the agent has started the turn.
    let at_once = async |view: &mut TurnViewer| view.cancel();
    let heard = session.prompt_watched(long_answer(fixture), at_once).await;
    assert_interrupted(&heard);
    let native = session.prompt(fixture.say_prompt("in between")).await.native_session_id();
    let started = async |view: &mut TurnViewer| {
        view.until_started().await;
        view.cancel();
    };
    let heard = session.prompt_watched(long_answer(fixture), started).await;
    assert_interrupted(&heard);
    assert_eq!(heard.native_session_id(), native);
    assert_session_continues(fixture, session, &heard).await;
}

pub async fn an_agent_that_does_not_react_is_given_up(fixture: &impl ExecutorFixture) {
    if !PROCESSES_VISIBLE || !fixture.has_process() {
        return;
    }
    let mut session = open(fixture, &fixture.spec()).await;
    let heard = session
        .prompt_watched(long_answer(fixture), async |view| {
            view.until_delta().await;
            // A process under SIGSTOP cannot react to anything, including our interrupt.
            stop_agents(fixture).await;
            view.cancel();
        })
        .await;
    assert_eq!(heard.outcome.status, TurnStatus::Interrupted, "{heard:#?}");
    assert!(heard.cancel_latency.unwrap() < 2 * INTERRUPT_LIMIT, "{heard:#?}");
    assert_eq!(heard.blocks().concat(), heard.deltas(), "what was said stays");
    assert!(!session.is_usable());
    session.close().await;
}

//! Interrupts in every state of an agent: the turn ends soon, and the next turn works.

use std::time::Duration;

use angelia_core::model::Status;

use super::{
    ExecutorFixture,
    heard::Heard,
    processes::{ARE_VISIBLE, only_agents_are_left, stop_agents},
    session::{Session, View, open, resume},
};

/// An interrupt must end the turn within this time.
const SOON: Duration = Duration::from_secs(5);

/// Returns a prompt for an answer that takes longer than any check.
fn long_answer(fixture: &impl ExecutorFixture) -> String {
    fixture.words(2_000, Duration::from_millis(20))
}

fn assert_interrupted(heard: &Heard) {
    assert_eq!(heard.ended.status, Status::Interrupted, "{heard:#?}");
    let reaction = heard.reaction.unwrap();
    assert!(reaction < SOON, "after {reaction:?}: {heard:#?}");
}

/// Asserts that the next turn works: with this agent, or with a new one when this one is unusable.
async fn assert_goes_on(fixture: &impl ExecutorFixture, mut session: Session, heard: &Heard) {
    if !session.is_usable() {
        session.close().await;
        session = resume(fixture, &fixture.spec(), &heard.native()).await;
    }
    let heard = session.say(fixture.say("going on")).await;
    assert!(heard.answer().contains("going on"));
    assert!(heard.asked().is_empty(), "{heard:#?}");
    session.close().await;
}

pub async fn an_interrupt_while_it_speaks(fixture: &impl ExecutorFixture) {
    let mut session = open(fixture, &fixture.spec()).await;
    let heard = session
        .watched(long_answer(fixture), async |view| {
            view.until_delta().await;
            view.cancel();
            // A second cancel changes nothing.
            view.cancel();
        })
        .await;
    assert_interrupted(&heard);
    assert!(!heard.deltas().is_empty());
    assert_eq!(heard.blocks().concat(), heard.deltas(), "what was said stays");
    assert_goes_on(fixture, session, &heard).await;
}

pub async fn an_interrupt_while_it_is_silent(fixture: &impl ExecutorFixture) {
    let mut session = open(fixture, &fixture.spec()).await;
    let heard = session
        .watched(fixture.hang(), async |view| {
            view.until_silent().await;
            view.cancel();
        })
        .await;
    assert_interrupted(&heard);
    assert_goes_on(fixture, session, &heard).await;
}

pub async fn an_interrupt_while_it_asks(fixture: &impl ExecutorFixture) {
    let mut session = open(fixture, &fixture.spec()).await;
    let heard = session
        .watched(fixture.ask("mkdir never-made"), async |view| {
            view.until_asked().await;
            view.cancel();
        })
        .await;
    assert_interrupted(&heard);
    assert!(!fixture.spec().cwd.join("never-made").exists());
    assert_goes_on(fixture, session, &heard).await;
}

pub async fn an_interrupt_while_a_tool_runs(fixture: &impl ExecutorFixture) {
    let mut session = open(fixture, &fixture.spec()).await;
    let tool = fixture.long_tool();
    let heard = session
        .watched(tool.prompt.as_str(), async |view| {
            view.until_running(&tool).await;
            view.cancel();
        })
        .await;
    assert_interrupted(&heard);
    assert_eq!(heard.tool_calls().len(), 1);
    assert!(!heard.tool_results()[0].ok, "{heard:#?}");
    only_agents_are_left(fixture).await;
    assert_goes_on(fixture, session, &heard).await;
}

pub async fn an_interrupt_before_and_at_the_beginning(fixture: &impl ExecutorFixture) {
    let mut session = open(fixture, &fixture.spec()).await;
    // Cancelled before the start: the agent never says anything.
    let heard = session.cancelled_before(fixture.say("never said")).await;
    assert_interrupted(&heard);
    assert!(session.is_usable());
    let heard = session.say(fixture.say("said first")).await;
    assert!(heard.answer().contains("said first"));
    assert!(!fixture.told().is_some_and(|told| super::says(&told, "never said")));

    // Cancelled at once, and as soon as the agent has started the turn.
    let at_once = async |view: &mut View| view.cancel();
    let heard = session.watched(long_answer(fixture), at_once).await;
    assert_interrupted(&heard);
    let native = session.say(fixture.say("in between")).await.native();
    let started = async |view: &mut View| {
        view.until_started().await;
        view.cancel();
    };
    let heard = session.watched(long_answer(fixture), started).await;
    assert_interrupted(&heard);
    assert_eq!(heard.native(), native);
    assert_goes_on(fixture, session, &heard).await;
}

pub async fn an_agent_that_does_not_react_is_given_up(fixture: &impl ExecutorFixture) {
    if !ARE_VISIBLE {
        return;
    }
    let mut session = open(fixture, &fixture.spec()).await;
    let heard = session
        .watched(long_answer(fixture), async |view| {
            view.until_delta().await;
            // A process under SIGSTOP cannot react to anything, including our interrupt.
            stop_agents(fixture).await;
            view.cancel();
        })
        .await;
    assert_eq!(heard.ended.status, Status::Interrupted, "{heard:#?}");
    assert!(heard.reaction.unwrap() < 2 * SOON, "{heard:#?}");
    assert_eq!(heard.blocks().concat(), heard.deltas(), "what was said stays");
    assert!(!session.is_usable());
    session.close().await;
}

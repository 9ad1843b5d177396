//! The end of an agent: no process that it started outlives it.

use std::time::{Duration, Instant};

use super::{
    ExecutorFixture,
    processes::{PROCESSES_VISIBLE, assert_no_process, marked_pids},
    session::{AgentSession, TurnViewer, open},
};
use crate::direct_session::{DEADLINE, wait_until};

/// The agent's grace period, with some slack for a busy machine.
const CLOSE_LIMIT: Duration = Duration::from_secs(10);

/// Runs after every check: closes the executor and asserts that no process carries its mark.
pub async fn nothing_is_left(fixture: &impl ExecutorFixture) {
    let closed = tokio::time::timeout(DEADLINE, fixture.executor().close()).await;
    assert!(closed.is_ok(), "the executor does not close");
    assert_no_process(fixture);
}

pub async fn closing_or_dropping_leaves_no_process(fixture: &impl ExecutorFixture) {
    let session = open(fixture, &fixture.spec()).await;
    let is_visible = PROCESSES_VISIBLE && fixture.has_process();
    let found = !is_visible || !marked_pids(fixture).is_empty();
    assert!(found, "there is something to find");
    close(fixture, session).await;

    // A panic drops the agent without closing it.
    let session = open(fixture, &fixture.spec()).await;
    drop(session);
    wait_until("a dropped agent is still there", || {
        fixture.shares_processes() || marked_pids(fixture).is_empty()
    })
    .await;
}

pub async fn closing_in_the_middle_of_a_turn_leaves_no_process(fixture: &impl ExecutorFixture) {
    let mut session = open(fixture, &fixture.spec()).await;
    let silent = async |view: &mut TurnViewer| view.until_silent().await;
    session.prompt_abandoned(fixture.hang_prompt(), silent).await;
    assert!(!session.is_usable(), "nobody knows what it is doing");
    close(fixture, session).await;

    let mut session = open(fixture, &fixture.spec()).await;
    let tool = fixture.escaped_tool();
    let running = async |view: &mut TurnViewer| view.until_tool_runs(&tool).await;
    session.prompt_abandoned(tool.prompt.as_str(), running).await;
    close(fixture, session).await;
}

async fn close(fixture: &impl ExecutorFixture, session: AgentSession) {
    let began = Instant::now();
    session.close().await;
    let took = began.elapsed();
    assert!(took < CLOSE_LIMIT, "{took:?}");
    if !fixture.shares_processes() {
        assert_no_process(fixture);
    }
}

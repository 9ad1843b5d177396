//! Answers, interrupts, conversations that outlive their process, errors and usage.

use std::time::Duration;

use angelia_core::model::{FailureKind, TurnStatus, Verdict};

use super::reached_model;
use crate::selftest::{
    CheckOutcome, CheckResult, CheckedAgent, Defect, defect::ensure, session::CheckedSession,
    stream,
};

/// An interrupt must end the turn within this time, even on a busy machine.
const INTERRUPT_LIMIT: Duration = Duration::from_secs(10);

pub(super) async fn streams_its_answer(agent: &dyn CheckedAgent) -> CheckResult {
    const COUNT: usize = 20;
    let mut session = CheckedSession::open(agent, &agent.spec()).await?;
    let first = session.prompt(agent.words_prompt(COUNT, Duration::from_millis(2))).await?;
    let answer = first.completed_answer()?;
    let words = answer.split_whitespace().count();
    ensure!(words == COUNT, "the answer has {words} words instead of {COUNT}: `{answer}`");
    let pieces = first.answer_pieces().len();
    ensure!(pieces > 1, "the answer arrived in {pieces} pieces, so it was not streamed");
    let is_whole = first.deltas().trim() == answer.trim();
    ensure!(is_whole, "the pieces of the answer are `{}`, not `{answer}`", first.deltas());
    let is_whole = first.blocks().concat().trim() == answer.trim();
    ensure!(is_whole, "the text is `{}`, not `{answer}`", first.blocks().concat());
    let Some(start) = first.start() else {
        return Err(Defect::new("the turn did not start"));
    };
    let name = agent.executor().name();
    ensure!(*start.executor == *name, "it calls itself {}, not {name}", start.executor);
    let conversation = first.conversation()?;

    ensure!(session.is_usable(), "it accepts no second turn");
    let second = session.prompt(agent.say_prompt("the second turn")).await?;
    let answer = second.completed_answer()?;
    ensure!(answer.contains("the second turn"), "the answer of the second turn is `{answer}`");
    let other = second.conversation()?;
    ensure!(other == conversation, "the second turn belongs to another conversation");
    ensure!(reached_model(agent, "w0 w1 w2"), "the model does not get the first turn again");
    session.close().await?;
    Ok(CheckOutcome::Passed)
}

pub(super) async fn stops_when_interrupted(agent: &dyn CheckedAgent) -> CheckResult {
    let mut session = CheckedSession::open(agent, &agent.spec()).await?;
    let mut turn = session.start(agent.words_prompt(2_000, Duration::from_millis(20)));
    turn.until_delta().await?;
    turn.cancel();
    let trace = turn.finish(Verdict::Deny).await?;
    let status = &trace.outcome.status;
    ensure!(*status == TurnStatus::Interrupted, "the interrupted turn ended as {status:?}");
    let latency = trace.cancel_latency.unwrap_or_default();
    ensure!(latency < INTERRUPT_LIMIT, "it stopped only after {latency:.1?}");
    let is_kept = trace.blocks().concat() == trace.deltas();
    ensure!(is_kept, "what it had said is lost: `{}`", trace.blocks().concat());

    // An agent that does not respond is ended after a while, which also interrupts the turn.
    ensure!(session.is_usable(), "it did not respond to the interrupt, and had to be terminated");
    let next = session.prompt(agent.say_prompt("going on")).await?;
    let answer = next.completed_answer()?;
    ensure!(answer.contains("going on"), "the answer after the interrupt is `{answer}`");
    session.close().await?;
    Ok(CheckOutcome::Passed)
}

pub(super) async fn resumes_in_a_new_process(agent: &dyn CheckedAgent) -> CheckResult {
    const FIRST: &str = "said in the first process";
    if !agent.executor().capabilities().resume {
        return Ok(CheckOutcome::NotApplicable("it keeps no conversations"));
    }
    let mut session = CheckedSession::open(agent, &agent.spec()).await?;
    let first = session.prompt(agent.say_prompt(FIRST)).await?;
    first.completed_answer()?;
    let conversation = first.conversation()?;
    session.close().await?;

    let Some(mut session) = CheckedSession::resume(agent, &conversation).await? else {
        ensure!(!agent.must_resume(), "it no longer has the conversation");
        return Ok(CheckOutcome::NotApplicable(
            "a new process no longer had the conversation; Angelia then tells it again from its own record",
        ));
    };
    let second = session.prompt(agent.say_prompt("said in the second")).await?;
    let answer = second.completed_answer()?;
    ensure!(answer.contains("said in the second"), "the answer of the new process is `{answer}`");
    let is_resumed = second.start().is_some_and(|start| start.resumed);
    ensure!(is_resumed, "the new process began a new conversation");
    let other = second.conversation()?;
    ensure!(other == conversation, "the new process has another conversation");
    let is_remembered = reached_model(agent, FIRST);
    ensure!(is_remembered, "the new process does not tell the model what was said before");
    session.close().await?;
    Ok(CheckOutcome::Passed)
}

pub(super) async fn reports_model_errors(agent: &dyn CheckedAgent) -> CheckResult {
    const MESSAGE: &str = "the scripted model rejects this request";
    let Some(prompt) = agent.model_error_prompt(MESSAGE) else {
        return Ok(CheckOutcome::NotApplicable("it has no model that can fail"));
    };
    let mut session = CheckedSession::open(agent, &agent.spec()).await?;
    let trace = session.prompt(prompt).await?;
    let Some(failure) = trace.outcome.status.failure() else {
        let status = &trace.outcome.status;
        return Err(Defect::new(format!("the model failed, and the turn ended as {status:?}")));
    };
    let blames_itself = matches!(failure.kind, FailureKind::Internal);
    ensure!(!blames_itself, "a model error counts as `{}`", failure.kind.as_str());
    let is_told = failure.message.contains(MESSAGE);
    ensure!(is_told, "what the model said is not in the failure `{}`", failure.message);

    if session.is_usable() {
        let next = session.prompt(agent.say_prompt("going on")).await?;
        let answer = next.completed_answer()?;
        ensure!(answer.contains("going on"), "the answer after the error is `{answer}`");
    }
    session.close().await?;
    Ok(CheckOutcome::Passed)
}

pub(super) async fn reports_usage(agent: &dyn CheckedAgent) -> CheckResult {
    let mut session = CheckedSession::open(agent, &agent.spec()).await?;
    let trace = session.prompt(agent.say_prompt("counted")).await?;
    trace.completed_answer()?;
    stream::check_reported_usage(&trace)?;
    session.close().await?;
    Ok(CheckOutcome::Passed)
}

//! Model mode: the agent gets the caller's prompt and tools, and nothing of the owner's.

use angelia_core::{
    model::{CallerTool, Content, Mode, RawJson, SessionSpec, SystemPrompt, Verdict},
    ports::TurnControl,
};
use serde_json::json;

use super::{json_contains_text, reached_model};
use crate::selftest::{
    CheckOutcome, CheckResult, CheckedAgent, Defect, defect::ensure, session::CheckedSession,
};

const NO_MODEL_MODE: CheckOutcome = CheckOutcome::NotApplicable("it has no model mode");

/// Returns a model-mode specification with a prompt and a tool from the caller.
fn model_spec(agent: &dyn CheckedAgent) -> Result<SessionSpec, Defect> {
    let can = agent.executor().capabilities();
    let mut spec = agent.spec();
    spec.mode = Mode::Model;
    if can.replace_prompt {
        spec.system = SystemPrompt::Replace("MARK-OF-THE-ONLY-PROMPT".into());
    }
    if can.caller_tools {
        let schema = json!({"type": "object", "properties": {}});
        let input_schema: RawJson = serde_json::value::to_raw_value(&schema)
            .map_err(|error| Defect::new(error.to_string()))?
            .into();
        spec.caller_tools.push(CallerTool {
            name: "lookup".into(),
            description: "MARK-OF-THE-TOOL".into(),
            input_schema,
        });
    }
    Ok(spec)
}

pub(super) async fn calls_the_callers_tools(agent: &dyn CheckedAgent) -> CheckResult {
    const RESULT: &str = "FOUND-BY-THE-CALLER";
    let can = agent.executor().capabilities();
    if !can.model_mode || !can.caller_tools {
        return Ok(NO_MODEL_MODE);
    }
    let Some(prompt) = agent.tool_call_prompt("lookup") else {
        return Ok(CheckOutcome::NotApplicable("it cannot call a caller's tools"));
    };
    let mut session = CheckedSession::open(agent, &model_spec(agent)?).await?;
    let mut turn = session.start(prompt);
    let call = turn.until_tool_call().await?;
    ensure!(&*call.name == "lookup", "it calls the tool `{}`, not `lookup`", call.name);
    let content = vec![Content::text(RESULT)];
    turn.send_control(TurnControl::ToolResult { id: call.id, ok: true, content })?;
    let trace = turn.finish(Verdict::Deny).await?;
    trace.completed_answer()?;
    let asked = trace.approval_requests().len();
    ensure!(asked == 0, "it asked for approval of the caller's own tool");
    let is_whole =
        trace.tool_results().iter().any(|result| result.ok && result.output.contains(RESULT));
    ensure!(is_whole, "the result of the tool is not among the events");
    ensure!(reached_model(agent, RESULT), "the result of the tool did not reach the model");
    ensure!(reached_model(agent, "MARK-OF-THE-TOOL"), "the model does not get the tool");
    session.close().await?;
    Ok(CheckOutcome::Passed)
}

pub(super) async fn is_sealed(agent: &dyn CheckedAgent) -> CheckResult {
    const INSTRUCTIONS: &str = "MARK-OF-THE-OWNER";
    let can = agent.executor().capabilities();
    if !can.model_mode {
        return Ok(NO_MODEL_MODE);
    }
    match agent.plant_instructions(INSTRUCTIONS) {
        None => {}
        Some(Err(error)) => return Err(Defect::new(format!("cannot write a file: {error}"))),
        Some(Ok(())) => {
            // Prove that the mark would be noticed: outside model mode, the agent reads this file.
            let mut session = CheckedSession::open(agent, &agent.spec()).await?;
            session.prompt(agent.say_prompt("a word")).await?.completed_answer()?;
            session.close().await?;
            let is_read = reached_model(agent, INSTRUCTIONS);
            ensure!(is_read, "it no longer reads its owner's instructions where it did");
        }
    }
    let spec = model_spec(agent)?;
    let path = spec.cwd.join("made-in-model-mode");
    let mut session = CheckedSession::open(agent, &spec).await?;
    let trace = session.prompt(agent.say_prompt("a word")).await?;
    let answer = trace.completed_answer()?;
    ensure!(answer.contains("a word"), "the answer in model mode is `{answer}`");
    let is_prompted = !can.replace_prompt || reached_model(agent, "MARK-OF-THE-ONLY-PROMPT");
    ensure!(is_prompted, "the model does not get the caller's prompt");
    let request = agent.last_model_request();
    let is_sealed = !request.is_some_and(|request| json_contains_text(&request, INSTRUCTIONS));
    ensure!(is_sealed, "the model gets its owner's instructions");

    // Even if every approval request is allowed, the command must have no effect.
    let prompt = agent.approval_prompt(&format!("mkdir {}", path.display()));
    let trace = session.start(prompt).finish(Verdict::Once).await?;
    trace.completed_answer()?;
    ensure!(!path.exists(), "it ran a command in model mode");
    session.close().await?;
    Ok(CheckOutcome::Passed)
}

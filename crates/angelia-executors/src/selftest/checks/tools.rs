//! Tool calls that need approval.

use std::{fs, path::Path};

use angelia_core::model::{ApprovalKind, ApprovalRequest, FileChange, ToolClass, Verdict};

use crate::selftest::{
    CheckOutcome, CheckResult, CheckedAgent, Defect, TurnTrace, defect::ensure,
    session::CheckedSession,
};

pub(super) async fn asks_and_obeys(agent: &dyn CheckedAgent) -> CheckResult {
    let mut session = CheckedSession::open(agent, &agent.spec()).await?;
    for (folder, verdict) in [("never-made", Verdict::Deny), ("made", Verdict::Once)] {
        let command = format!("mkdir {folder}");
        let mut turn = session.start(agent.approval_prompt(&command));
        let request = turn.until_approval_request().await?;
        let path = agent.spec().cwd.join(folder);
        ensure!(!path.exists(), "it ran `{command}` before it was allowed");
        check_request(&request, &command)?;
        turn.decide(&request, verdict)?;
        let trace = turn.finish(Verdict::Deny).await?;
        trace.completed_answer()?;
        let asked = trace.approval_requests().len();
        ensure!(asked == 1, "it asked {asked} times about one command");
        check_shown(&trace, &request)?;
        let is_allowed = verdict == Verdict::Once;
        if agent.executes_commands() {
            let did = if path.is_dir() { "ran" } else { "did not run" };
            let said = if is_allowed { "allowed" } else { "refused" };
            ensure!(path.is_dir() == is_allowed, "it {did} a command that was {said}");
        }
        let succeeded = trace.tool_results().iter().any(|result| result.ok);
        ensure!(succeeded == is_allowed, "its report of `{command}` is wrong: {succeeded}");
    }
    session.close().await?;
    Ok(CheckOutcome::Passed)
}

fn check_request(request: &ApprovalRequest, command: &str) -> Result<(), Defect> {
    let is_command = request.kind == ApprovalKind::Tool && request.class == ToolClass::Execute;
    ensure!(is_command, "it asked for {:?} of {:?}", request.kind, request.class);
    let is_named = request.title.contains(command) || request.detail.contains(command);
    ensure!(is_named, "it asked `{}` and does not name `{command}`", request.title);
    Ok(())
}

/// Checks that the events include the tool call that a request is about.
fn check_shown(trace: &TurnTrace, request: &ApprovalRequest) -> Result<(), Defect> {
    let calls = trace.tool_calls();
    let is_shown = match &request.tool_id {
        Some(id) => calls.iter().any(|call| call.id == *id),
        None => !calls.is_empty(),
    };
    ensure!(is_shown, "it does not show the call that it asks about");
    Ok(())
}

pub(super) async fn shows_its_edits(agent: &dyn CheckedAgent) -> CheckResult {
    const LINE: &str = "written by the self-test";
    let path = agent.spec().cwd.join("edited.txt");
    let Some(prompt) = agent.write_prompt(&path, LINE) else {
        return Ok(CheckOutcome::NotApplicable("it writes no files"));
    };
    let mut session = CheckedSession::open(agent, &agent.spec()).await?;
    let mut turn = session.start(prompt);
    let request = turn.until_approval_request().await?;
    ensure!(!path.exists(), "it wrote the file before it was allowed");
    ensure!(shows_line(&request, &path, LINE), "its request does not show what it writes");
    turn.decide(&request, Verdict::Once)?;
    let trace = turn.finish(Verdict::Once).await?;
    trace.completed_answer()?;
    let content = fs::read_to_string(&path).unwrap_or_default();
    ensure!(content.trim_end() == LINE, "the file contains `{content}` after the edit");
    session.close().await?;
    Ok(CheckOutcome::Passed)
}

fn shows_line(request: &ApprovalRequest, path: &Path, line: &str) -> bool {
    request.edits.iter().any(|edit| {
        let shows = match &edit.change {
            FileChange::Write(text) => text.contains(line),
            FileChange::Replace(replacement) => replacement.new.contains(line),
            FileChange::Patch { hunks, .. } => hunks.contains(line),
            FileChange::Cell { .. } | FileChange::Delete => false,
        };
        shows && edit.path.file_name() == path.file_name()
    })
}

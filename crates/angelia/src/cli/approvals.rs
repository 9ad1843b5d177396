//! `angelia approvals …`: lists approvals and passes the owner's decisions to the daemon.
//!
//! Listing works without a daemon. Deciding needs one, because a decision must reach the process
//! that runs the turn.
//!
//! - `decision_args`: turns the command-line arguments into a decision that fits the approval.

mod decision_args;
#[cfg(test)]
mod tests;

use std::{io::Write as _, sync::Arc};

use angelia_core::{
    model::{ApprovalId, ApprovalKind, Question},
    ports::{ApprovalFilter, Page},
};
use angelia_frontends::{
    http::resources::ApprovalResource,
    turn_service::{TurnErrorKind, TurnService as _},
};

use self::decision_args::DecisionArgs;
use super::{
    args::{ApprovalsCommand, ListArgs},
    error::{CommandError, Exit},
    print,
};
use crate::{assemble::App, records::Records};

pub(crate) async fn run(app: &Arc<App>, command: ApprovalsCommand) -> Result<Exit, CommandError> {
    let (id, args) = match command {
        ApprovalsCommand::List { list: args, all } => {
            return print::bytes(&list(&Records::open(app).await?, &args, all).await?);
        }
        ApprovalsCommand::Approve { id, session, note, answers } => {
            (id, DecisionArgs::allow(session, note, answers))
        }
        ApprovalsCommand::Deny { id, stop, note } => (id, DecisionArgs::refuse(stop, note)),
    };
    let id = parse_approval_id(&id)?;
    print::line(&decide(&Records::open(app).await?, id, &args).await?)
}

fn parse_approval_id(id: &str) -> Result<ApprovalId, CommandError> {
    id.parse().map_err(|_| {
        CommandError::usage(format!("`{id}` is not an approval id"))
            .with_hint("`angelia approvals list` prints them")
    })
}

/// Sends a decision to the daemon, and returns a line that says what was decided.
async fn decide(
    records: &Records,
    id: ApprovalId,
    args: &DecisionArgs,
) -> Result<String, CommandError> {
    let approval = records.approval(id).await?;
    refuse_if_decided(&approval)?;
    let decision = args.to_decision(&approval.approval_kind())?;
    let Records::Daemon(daemon) = records else {
        return Err(not_in_daemon_error());
    };
    let done = if decision.verdict.allows() { "approved" } else { "denied" };
    match daemon.decide(id, decision).await {
        Ok(()) => Ok(format!("{done}: {}", replace_control_chars(&approval.title))),
        // Either another client decided first, or the daemon does not run this turn. The record
        // tells which.
        Err(error) if error.kind == TurnErrorKind::NotPending => {
            refuse_if_decided(&records.approval(id).await?)?;
            Err(not_in_daemon_error())
        }
        Err(error) => Err(error.into()),
    }
}

fn refuse_if_decided(approval: &ApprovalResource) -> Result<(), CommandError> {
    let Some(decided) = &approval.decided else {
        return Ok(());
    };
    let message = format!(
        "the approval has been decided already: {} by {}, {}",
        decided.verdict,
        replace_control_chars(&decided.by),
        print::format_minute(decided.at)
    );
    Err(CommandError::new(Exit::Failed, message)
        .with_hint("`angelia approvals list` prints what still waits"))
}

/// The error for a turn that no daemon runs. Such a turn runs in the terminal it was started from.
fn not_in_daemon_error() -> CommandError {
    CommandError::new(Exit::Failed, "the turn does not run in a daemon").with_hint(
        "answer in the terminal where `angelia run` was started; if that has been killed, the next \
         start of angelia counts this as declined",
    )
}

async fn list(records: &Records, args: &ListArgs, all: bool) -> Result<Vec<u8>, CommandError> {
    let which = if all { ApprovalFilter::All } else { ApprovalFilter::Pending };
    let mut out = Vec::new();
    for approval in records.approvals(which, Page::first(args.limit)).await? {
        if args.json {
            print::json_line(&approval, &mut out)?;
        } else {
            write_approval(&approval, &mut out);
        }
    }
    Ok(out)
}

/// Writes one line for the approval; below a pending one, the details that a decision needs.
fn write_approval(approval: &ApprovalResource, out: &mut Vec<u8>) {
    let status = match &approval.decided {
        None => "pending".to_owned(),
        Some(decided) => format!("{} by {}", decided.verdict, replace_control_chars(&decided.by)),
    };
    // Writing to a vector cannot fail.
    let _infallible = writeln!(
        out,
        "{}  {}  {status:16}  {}  {}",
        approval.id,
        print::format_minute(approval.asked_at),
        replace_control_chars(&approval.tool),
        replace_control_chars(&approval.title),
    );
    if approval.decided.is_some() {
        return;
    }
    for line in approval.detail.lines() {
        let _infallible = writeln!(out, "    {}", replace_control_chars(line));
    }
    if let ApprovalKind::Question(questions) = approval.approval_kind() {
        for (index, question) in questions.iter().enumerate() {
            write_question(index + 1, question, out);
        }
    }
    let until = print::format_minute(approval.expires_at);
    let _infallible = writeln!(out, "    turn {}, declined at {until}", approval.turn_id);
}

fn write_question(number: usize, question: &Question, out: &mut Vec<u8>) {
    let text = replace_control_chars(&question.text);
    let several = if question.multiple { " (one or several)" } else { "" };
    let _infallible = writeln!(out, "    {number}. {text}{several}");
    for (index, option) in question.options.iter().enumerate() {
        let (label, description) =
            (replace_control_chars(&option.label), replace_control_chars(&option.description));
        let line = format!("       {}. {label}  {description}", index + 1);
        let _infallible = writeln!(out, "{}", line.trim_end());
    }
}

/// Replaces control characters, so that text written by an agent stays on one line and cannot move
/// the cursor: the owner decides by what is shown here.
fn replace_control_chars(text: &str) -> String {
    let visible = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(visible).collect()
}

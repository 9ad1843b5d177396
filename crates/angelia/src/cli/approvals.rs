//! `angelia approvals …`: lists approvals and passes the owner's decisions to the daemon.
//!
//! Listing works without a daemon. Deciding needs one, because a decision must reach the process
//! that runs the turn.
//!
//! - `rules`: lists and removes what was allowed for good.
//! - `answers`: assigns the answers of the command line to the questions of an approval.

pub(crate) mod answers;
mod rules;
#[cfg(test)]
mod tests;

use std::{io::Write as _, sync::Arc};

use angelia_core::{
    model::{ApprovalId, ApprovalKind, Decision, Question, Verdict},
    ports::{ApprovalFilter, Page},
};
use angelia_frontends::{http::resources::ApprovalResource, turn_service::TurnErrorKind};

use super::{
    args::{ApprovalsCommand, DecideCommand, ListArgs},
    error::{CommandError, Exit},
    print,
};
use crate::{assemble::App, records::Records};

pub(crate) async fn run(app: &Arc<App>, command: ApprovalsCommand) -> Result<Exit, CommandError> {
    match command {
        ApprovalsCommand::List { list: args, all } => {
            print::bytes(&list(&Records::open(app).await?, &args, all).await?)
        }
        ApprovalsCommand::Rules(command) => rules::run(app, command).await,
        ApprovalsCommand::Decide(command) => {
            let (id, decision, answers) = parse_decision(command)?;
            print::line(&decide(&Records::open(app).await?, id, decision, &answers).await?)
        }
    }
}

/// Returns the approval's id, the decision without its answers, and the `--answer` values. Which
/// question each of these answers is known only when the approval has been read.
fn parse_decision(
    command: DecideCommand,
) -> Result<(ApprovalId, Decision, Vec<String>), CommandError> {
    let (id, verdict, rule, note, answers) = match command {
        DecideCommand::Approve { id, session, always, rule, note, answers } => {
            let verdict = match (session, always) {
                (_, true) => Verdict::Always,
                (true, false) => Verdict::Session,
                (false, false) if rule.is_some() => {
                    return Err(CommandError::usage("--rule needs --session or --always"));
                }
                (false, false) => Verdict::Once,
            };
            (id, verdict, rule, note, answers)
        }
        DecideCommand::Deny { id, stop, note } => {
            (id, if stop { Verdict::Stop } else { Verdict::Deny }, None, note, Vec::new())
        }
    };
    let mut decision = Decision::new(verdict, "owner");
    decision.note = note.map(Into::into);
    decision.rule = rule.map(Into::into);
    Ok((parse_approval_id(&id)?, decision, answers))
}

fn parse_approval_id(id: &str) -> Result<ApprovalId, CommandError> {
    id.parse().map_err(|_| {
        CommandError::usage(format!("`{id}` is not an approval id"))
            .with_hint("`angelia approvals list` prints them")
    })
}

/// Sends a decision, with the `--answer` values, to the process that runs the turn, and returns a
/// line that says what was decided.
async fn decide(
    records: &Records,
    id: ApprovalId,
    mut decision: Decision,
    answers: &[String],
) -> Result<String, CommandError> {
    let approval = records.approval(id).await?;
    refuse_if_decided(&approval)?;
    answers::add_to_decision(&mut decision, answers, &approval.approval_kind())?;
    let Some(turns) = records.shared_turns() else {
        return Err(not_in_daemon_error());
    };
    let done = if decision.verdict.allows() { "approved" } else { "denied" };
    match turns.decide(id, decision).await {
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
    for (index, rule) in approval.rules.iter().enumerate() {
        let label = if index == 0 { "for the session or always" } else { "or, wider" };
        let _infallible = writeln!(out, "    {label}: {}", replace_control_chars(rule));
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

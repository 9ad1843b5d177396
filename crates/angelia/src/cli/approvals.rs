//! `angelia approvals …`: lists approvals and passes the owner's decisions to the daemon.
//!
//! Listing works without a daemon. Deciding needs one, because a decision must reach the process
//! that runs the turn.
//!
//! - `rules`: lists and removes the rules that were granted permanently.
//! - `answers`: matches the answers on the command line to the questions of an approval.

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
    local_time, print,
    table::{self, Column, Table},
};
use crate::{assemble::App, records::Records, resolve};

/// Number of diff lines shown in a list.
const MAX_DIFF_LINES: usize = 40;

pub(crate) async fn run(app: &Arc<App>, command: ApprovalsCommand) -> Result<Exit, CommandError> {
    match command {
        ApprovalsCommand::List { list: args, all } => {
            let width = table::terminal_width();
            let listed = list(&Records::open(app).await?, &args, all, width).await?;
            if listed.is_empty() && !args.json {
                print::note("nothing waits for a decision");
            }
            print::bytes(&listed)
        }
        ApprovalsCommand::Show { id, json } => {
            let records = Records::open(app).await?;
            let id = resolve::approval(&records, &id).await?;
            print::bytes(&show(&records, id, json).await?)
        }
        ApprovalsCommand::Rules(command) => rules::run(app, command).await,
        ApprovalsCommand::Decide(command) => {
            let (id, decision, answers) = parse_decision(command)?;
            let records = Records::open(app).await?;
            let id = resolve::approval(&records, &id).await?;
            print::line(&decide(&records, id, decision, &answers).await?)
        }
    }
}

/// Returns the text that names the approval, the decision without its answers, and the `--answer`
/// values, which can be matched to the questions only after the approval has been read.
fn parse_decision(command: DecideCommand) -> Result<(String, Decision, Vec<String>), CommandError> {
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
    Ok((id, decision, answers))
}

/// Sends a decision with the `--answer` values to the process that runs the turn. Returns a line
/// that reports the decision.
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

/// Returns the error for a turn that no daemon runs. Such a turn runs in the terminal in which it
/// was started.
fn not_in_daemon_error() -> CommandError {
    CommandError::new(Exit::Failed, "the turn does not run in a daemon").with_hint(
        "answer in the terminal where `angelia run` was started; if that has been killed, the next \
         start of angelia counts this as declined",
    )
}

async fn list(
    records: &Records,
    args: &ListArgs,
    all: bool,
    width: Option<usize>,
) -> Result<Vec<u8>, CommandError> {
    let which = if all { ApprovalFilter::All } else { ApprovalFilter::Pending };
    let before = match &args.before {
        Some(id) => Some(resolve::approval(records, id).await?.as_uuid()),
        None => None,
    };
    let approvals = records.approvals(which, Page { limit: args.limit, before }).await?;
    let mut out = Vec::new();
    if args.json {
        for approval in &approvals {
            print::json_line(approval, &mut out)?;
        }
        return Ok(out);
    }
    let mut table = Table::new([
        Column { header: "ID", min_width: None, rank: 0 },
        Column { header: "ASKED", min_width: None, rank: 3 },
        Column { header: "STATE", min_width: Some(7), rank: 2 },
        Column { header: "TOOL", min_width: Some(6), rank: 4 },
        Column { header: "WHAT", min_width: Some(12), rank: 1 },
    ]);
    for approval in &approvals {
        let state = match &approval.decided {
            None => "pending".to_owned(),
            Some(decided) => format!("{} by {}", decided.verdict, decided.by),
        };
        table.push([
            approval.short_id.clone().unwrap_or_else(|| approval.id.to_string()),
            local_time::ago(approval.asked_at),
            state,
            approval.tool.clone(),
            approval.title.clone(),
        ]);
    }
    let mut lines = table.lines(width).into_iter();
    if let Some(header) = lines.next().filter(|_| !approvals.is_empty()) {
        // Writing to a vector cannot fail.
        let _infallible = writeln!(out, "{header}");
    }
    for (line, approval) in lines.zip(&approvals) {
        let _infallible = writeln!(out, "{line}");
        if approval.decided.is_none() {
            write_details(approval, MAX_DIFF_LINES, &mut out);
        }
    }
    Ok(out)
}

async fn show(records: &Records, id: ApprovalId, json: bool) -> Result<Vec<u8>, CommandError> {
    let approval = records.approval(id).await?;
    let mut out = Vec::new();
    if json {
        print::json_line(&approval, &mut out)?;
        return Ok(out);
    }
    write_head(&approval, &mut out);
    write_details(&approval, usize::MAX, &mut out);
    Ok(out)
}

/// Writes the line that identifies an approval.
fn write_head(approval: &ApprovalResource, out: &mut Vec<u8>) {
    let status = match &approval.decided {
        None => "pending".to_owned(),
        Some(decided) => format!("{} by {}", decided.verdict, replace_control_chars(&decided.by)),
    };
    // Writing to a vector cannot fail.
    let _infallible = writeln!(
        out,
        "{}  {}  {status}  {}  {}",
        approval.id,
        local_time::ago(approval.asked_at),
        replace_control_chars(&approval.tool),
        replace_control_chars(&approval.title),
    );
}

/// Writes the details needed for a decision, with up to this many lines of the diff.
fn write_details(approval: &ApprovalResource, diff_lines: usize, out: &mut Vec<u8>) {
    match approval.approval_kind() {
        ApprovalKind::Tool => {
            for line in approval.detail.lines() {
                let _infallible = writeln!(out, "    {}", replace_control_chars(line));
            }
        }
        ApprovalKind::Question(questions) => {
            // The title is the first question.
            let is_title = questions.len() == 1 && *questions[0].text == *approval.title;
            for (index, question) in questions.iter().enumerate() {
                let text = (!is_title).then_some(index + 1);
                write_question(text, question, out);
            }
        }
    }
    if let Some(diff) = &approval.diff {
        for line in diff.lines().take(diff_lines) {
            let _infallible = writeln!(out, "    {}", replace_control_chars(line));
        }
        let more = diff.lines().count().saturating_sub(diff_lines);
        if more > 0 {
            let id = approval.id;
            let _infallible = writeln!(out, "    … {more} more lines: angelia approvals show {id}");
        }
    }
    for (index, rule) in approval.rules.iter().enumerate() {
        let label = if index == 0 { "for the session or always" } else { "or, wider" };
        let _infallible = writeln!(out, "    {label}: {}", replace_control_chars(rule));
    }
    let until = print::format_minute(approval.expires_at);
    if let Some(session) = &approval.session {
        let title = session.title.as_deref().unwrap_or_default();
        let line = format!("profile {}, session {} {title}", session.profile, session.id);
        let _infallible = writeln!(out, "    {}", replace_control_chars(line.trim_end()));
    }
    let _infallible = match &approval.decided {
        None => writeln!(out, "    turn {}, declined at {until}", approval.turn_id),
        Some(_) => writeln!(out, "    turn {}", approval.turn_id),
    };
}

/// Writes a question with its options. Without a number, omits the text, because the title already
/// contains it.
fn write_question(number: Option<usize>, question: &Question, out: &mut Vec<u8>) {
    let several = if question.multiple { " (one or several)" } else { "" };
    if let Some(number) = number {
        let text = replace_control_chars(&question.text);
        let _infallible = writeln!(out, "    {number}. {text}{several}");
    } else if question.multiple {
        let _infallible = writeln!(out, "   {several}");
    }
    for (index, option) in question.options.iter().enumerate() {
        let (label, description) =
            (replace_control_chars(&option.label), replace_control_chars(&option.description));
        let line = format!("       {}. {label}  {description}", index + 1);
        let _infallible = writeln!(out, "{}", line.trim_end());
    }
}

/// Replaces control characters, so that text written by an agent stays on one line and cannot move
/// the cursor. The owner decides based on the text on the screen.
fn replace_control_chars(text: &str) -> String {
    let visible = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(visible).collect()
}

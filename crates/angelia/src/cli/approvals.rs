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
    engine::EngineError,
    model::{ApprovalId, ApprovalKind, ApprovalRecord, Question},
    ports::{ApprovalFilter, Page, Store},
};
use angelia_frontends::http::resources;
use uuid::Uuid;

use self::decision_args::DecisionArgs;
use super::{
    args::{ApprovalsCommand, ListArgs},
    error::{CommandError, Exit},
    print, run,
};
use crate::{
    assemble::{App, LocalEngine},
    client::{ClientError, DaemonClient},
};

pub(crate) async fn run(app: &Arc<App>, command: ApprovalsCommand) -> Result<Exit, CommandError> {
    let (id, wish) = match command {
        ApprovalsCommand::List { list: args, all } => {
            let records = LocalEngine::start(app, "show", false).await?;
            return print::bytes(&list(&*records.store, &args, all).await?);
        }
        ApprovalsCommand::Approve { id, session, note, answers } => {
            (id, DecisionArgs::allow(session, note, answers))
        }
        ApprovalsCommand::Deny { id, stop, note } => (id, DecisionArgs::refuse(stop, note)),
    };
    let id = parse_approval_id(&id)?;
    let records = LocalEngine::start(app, "show", false).await?;
    let daemon = run::TurnHost::find_daemon(app).await;
    let done = decide(&*records.store, daemon.as_ref(), id, &wish).await?;
    print::line(&done)
}

fn parse_approval_id(id: &str) -> Result<ApprovalId, CommandError> {
    id.parse().map_err(|_| {
        CommandError::usage(format!("`{id}` is not an approval id"))
            .with_hint("`angelia approvals list` prints them")
    })
}

/// Sends a decision to the daemon, and returns a line that says what was decided.
async fn decide(
    store: &dyn Store,
    daemon: Option<&DaemonClient>,
    id: ApprovalId,
    wish: &DecisionArgs,
) -> Result<String, CommandError> {
    let record = find_approval(store, id).await?;
    refuse_if_decided(&record)?;
    let decision = wish.to_decision(&record.approval)?;
    let Some(daemon) = daemon else {
        return Err(not_in_daemon_error());
    };
    match daemon.decide(id, &decision).await {
        Ok(()) => {
            let done = if decision.verdict.allows() { "approved" } else { "denied" };
            Ok(format!("{done}: {}", replace_control_chars(&record.approval.title)))
        }
        // Either another client decided first, or the daemon does not run this turn. The store
        // tells which.
        Err(ClientError::Refused(detail)) if detail.kind == "conflict" => {
            refuse_if_decided(&find_approval(store, id).await?)?;
            Err(not_in_daemon_error())
        }
        Err(error) => Err(error.into()),
    }
}

async fn find_approval(store: &dyn Store, id: ApprovalId) -> Result<ApprovalRecord, CommandError> {
    // The store has no lookup by id, so read a page of one record that starts at this id.
    let next = id.as_uuid().as_u128().checked_add(1);
    let page = Page { limit: 1, before: next.map(Uuid::from_u128) };
    let found = store.approvals(ApprovalFilter::All, page).await?;
    let found = found.into_iter().find(|record| record.approval.id == id);
    found.ok_or_else(|| {
        CommandError::from(EngineError::NotFound("approval"))
            .with_hint("`angelia approvals list --all` prints those there are")
    })
}

fn refuse_if_decided(record: &ApprovalRecord) -> Result<(), CommandError> {
    let Some((resolution, at)) = &record.resolution else {
        return Ok(());
    };
    let message = format!(
        "the approval has been decided already: {} by {}, {}",
        resolution.verdict.as_str(),
        replace_control_chars(&resolution.by),
        print::format_minute(*at)
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

async fn list(store: &dyn Store, args: &ListArgs, all: bool) -> Result<Vec<u8>, CommandError> {
    let which = if all { ApprovalFilter::All } else { ApprovalFilter::Pending };
    let mut out = Vec::new();
    for record in store.approvals(which, Page::first(args.limit)).await? {
        if args.json {
            print::json_line(&resources::ApprovalResource::from(&record), &mut out)?;
        } else {
            write_approval(&record, &mut out);
        }
    }
    Ok(out)
}

/// Writes one line for the approval; below a pending one, the details that a decision needs.
fn write_approval(record: &ApprovalRecord, out: &mut Vec<u8>) {
    let approval = &record.approval;
    let status = match &record.resolution {
        None => "pending".to_owned(),
        Some((resolution, _)) => {
            let verdict = resolution.verdict.as_str();
            format!("{verdict} by {}", replace_control_chars(&resolution.by))
        }
    };
    // Writing to a vector cannot fail.
    let _infallible = writeln!(
        out,
        "{}  {}  {status:16}  {}  {}",
        approval.id,
        print::format_minute(record.requested_at),
        replace_control_chars(&approval.tool_name),
        replace_control_chars(&approval.title),
    );
    if record.resolution.is_some() {
        return;
    }
    for line in approval.detail.lines() {
        let _infallible = writeln!(out, "    {}", replace_control_chars(line));
    }
    if let ApprovalKind::Question(questions) = &approval.kind {
        for (index, question) in questions.iter().enumerate() {
            write_question(index + 1, question, out);
        }
    }
    let until = print::format_minute(approval.expires_at);
    let _infallible = writeln!(out, "    turn {}, declined at {until}", record.turn);
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

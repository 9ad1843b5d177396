//! `angelia approvals …`: lists approvals and passes the owner's decisions to the daemon.
//!
//! Listing works without a daemon. Deciding needs one, because a decision must reach the process
//! that runs the turn.
//!
//! - `decision_args`: turns the command-line arguments into a decision that fits the approval.

#[cfg(test)]
mod tests;
mod wish;

use std::{io::Write as _, sync::Arc};

use angelia_core::{
    engine::EngineError,
    model::{ApprovalId, ApprovalKind, ApprovalRecord, Question},
    ports::{Approvals, Page, Store},
};
use angelia_frontends::http::resources;
use uuid::Uuid;

use self::wish::Wish;
use super::{
    args::{ApprovalsCommand, ListArgs},
    error::{CommandError, Exit},
    print, run,
};
use crate::{
    assemble::{App, Local},
    client::{ClientError, Daemon},
};

pub(crate) async fn run(app: &Arc<App>, command: ApprovalsCommand) -> Result<Exit, CommandError> {
    let (id, wish) = match command {
        ApprovalsCommand::List { list: args, all } => {
            let records = Local::start(app, "show", false).await?;
            return print::bytes(&list(&*records.store, &args, all).await?);
        }
        ApprovalsCommand::Approve { id, session, note, answers } => {
            (id, Wish::allow(session, note, answers))
        }
        ApprovalsCommand::Deny { id, stop, note } => (id, Wish::refuse(stop, note)),
    };
    let id = parse(&id)?;
    let records = Local::start(app, "show", false).await?;
    let daemon = run::Place::daemon(app).await;
    let done = decide(&*records.store, daemon.as_ref(), id, &wish).await?;
    print::line(&done)
}

fn parse(id: &str) -> Result<ApprovalId, CommandError> {
    id.parse().map_err(|_| {
        CommandError::usage(format!("`{id}` is not an approval id"))
            .with_hint("`angelia approvals list` prints them")
    })
}

/// Sends a decision to the daemon, and returns a line that says what was decided.
async fn decide(
    store: &dyn Store,
    daemon: Option<&Daemon>,
    id: ApprovalId,
    wish: &Wish,
) -> Result<String, CommandError> {
    let record = find(store, id).await?;
    refuse_if_decided(&record)?;
    let decision = wish.decision(&record.approval)?;
    let Some(daemon) = daemon else {
        return Err(elsewhere());
    };
    match daemon.decide(id, &decision).await {
        Ok(()) => {
            let done = if decision.verdict.allows() { "approved" } else { "denied" };
            Ok(format!("{done}: {}", plain(&record.approval.title)))
        }
        // Either another client decided first, or the daemon does not run this turn. The store
        // tells which.
        Err(ClientError::Refused(detail)) if detail.kind == "conflict" => {
            refuse_if_decided(&find(store, id).await?)?;
            Err(elsewhere())
        }
        Err(error) => Err(error.into()),
    }
}

async fn find(store: &dyn Store, id: ApprovalId) -> Result<ApprovalRecord, CommandError> {
    // The store has no lookup by id, so read a page of one record that starts at this id.
    let next = id.as_uuid().as_u128().checked_add(1);
    let page = Page { limit: 1, before: next.map(Uuid::from_u128) };
    let found = store.approvals(Approvals::All, page).await?;
    let found = found.into_iter().find(|record| record.approval.id == id);
    found.ok_or_else(|| {
        CommandError::from(EngineError::NotFound("approval"))
            .with_hint("`angelia approvals list --all` prints those there are")
    })
}

fn refuse_if_decided(record: &ApprovalRecord) -> Result<(), CommandError> {
    let Some((resolution, at)) = &record.decided else {
        return Ok(());
    };
    let message = format!(
        "the approval has been decided already: {} by {}, {}",
        resolution.verdict.as_str(),
        plain(&resolution.by),
        print::minute(*at)
    );
    Err(CommandError::new(Exit::Failed, message)
        .with_hint("`angelia approvals list` prints what still waits"))
}

/// The error for a turn that no daemon runs. Such a turn runs in the terminal it was started from.
fn elsewhere() -> CommandError {
    CommandError::new(Exit::Failed, "the turn does not run in a daemon").with_hint(
        "answer in the terminal where `angelia run` was started; if that has been killed, the next \
         start of angelia counts this as declined",
    )
}

async fn list(store: &dyn Store, args: &ListArgs, all: bool) -> Result<Vec<u8>, CommandError> {
    let which = if all { Approvals::All } else { Approvals::Pending };
    let mut out = Vec::new();
    for record in store.approvals(which, Page::first(args.limit)).await? {
        if args.json {
            print::json_line(&resources::Approval::from(&record), &mut out)?;
        } else {
            show(&record, &mut out);
        }
    }
    Ok(out)
}

/// Writes one line for the approval; below a pending one, the details that a decision needs.
fn show(record: &ApprovalRecord, out: &mut Vec<u8>) {
    let approval = &record.approval;
    let status = match &record.decided {
        None => "pending".to_owned(),
        Some((resolution, _)) => {
            let verdict = resolution.verdict.as_str();
            format!("{verdict} by {}", plain(&resolution.by))
        }
    };
    // Writing to a vector cannot fail.
    let _infallible = writeln!(
        out,
        "{}  {}  {status:16}  {}  {}",
        approval.id,
        print::minute(record.asked_at),
        plain(&approval.tool_name),
        plain(&approval.title),
    );
    if record.decided.is_some() {
        return;
    }
    for line in approval.detail.lines() {
        let _infallible = writeln!(out, "    {}", plain(line));
    }
    if let ApprovalKind::Question(questions) = &approval.kind {
        for (index, question) in questions.iter().enumerate() {
            show_question(index + 1, question, out);
        }
    }
    let until = print::minute(approval.expires_at);
    let _infallible = writeln!(out, "    turn {}, declined at {until}", record.turn);
}

fn show_question(number: usize, question: &Question, out: &mut Vec<u8>) {
    let text = plain(&question.text);
    let several = if question.multiple { " (one or several)" } else { "" };
    let _infallible = writeln!(out, "    {number}. {text}{several}");
    for (index, option) in question.options.iter().enumerate() {
        let (label, description) = (plain(&option.label), plain(&option.description));
        let line = format!("       {}. {label}  {description}", index + 1);
        let _infallible = writeln!(out, "{}", line.trim_end());
    }
}

/// Replaces control characters, so that text written by an agent stays on one line and cannot move
/// the cursor: the owner decides by what is shown here.
fn plain(text: &str) -> String {
    let visible = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(visible).collect()
}

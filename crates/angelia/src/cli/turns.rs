//! `angelia turns …`: single turns, running or finished.

mod list;

use std::{fmt::Write as _, io::Write as _, sync::Arc};

use angelia_core::model::{Approval, EventKind, ToolResult, TurnId};
use angelia_frontends::turn_service::TurnService;

use super::{
    args::TurnsCommand,
    error::{CommandError, Exit},
    print, run,
    view::{Style, View, diff_style},
};
use crate::{
    assemble::App,
    home_turns::{HomeTurns, TurnsUse},
    records::Records,
    resolve,
};

pub(crate) async fn run(app: &Arc<App>, command: TurnsCommand) -> Result<Exit, CommandError> {
    match command {
        TurnsCommand::List { list: args, session } => {
            list::print(&Records::open(app).await?, &args, session.as_deref()).await
        }
        TurnsCommand::Show { id, diff, json } => {
            let records = Records::open(app).await?;
            let id = resolve::turn(&records, &id).await?;
            show(&records, id, json).await?;
            if diff {
                return print_diffs(&records, id, &View::of_stdout(&app.environment)).await;
            }
            Ok(Exit::Done)
        }
        TurnsCommand::Watch { id, json } => {
            let id = resolve::turn(&Records::open(app).await?, &id).await?;
            run::watch(app, id, json).await
        }
        TurnsCommand::Interrupt { id, kill } => {
            let id = resolve::turn(&Records::open(app).await?, &id).await?;
            HomeTurns::with(TurnsUse::Existing, app, "show", |turns| interrupt(turns, id, kill))
                .await
        }
    }
}

/// Interrupts a turn of the daemon or, without a daemon, a parked turn. A running turn belongs to
/// the terminal in which it was started, but a parked one runs in no process, so this process may
/// end it.
async fn interrupt(
    turns: Arc<dyn TurnService>,
    id: TurnId,
    kill: bool,
) -> Result<Exit, CommandError> {
    let done = format!("{}: {id}", if kill { "killed" } else { "interrupted" });
    let turn = turns.turn(id).await?;
    if turn.finished_at.is_some() {
        return Err(CommandError::new(Exit::Failed, "the turn is over already"));
    }
    if turns.is_shared() {
        turns.interrupt(id, kill).await?;
        return print::line(&done);
    }
    if turn.resumes_at.is_none() {
        return Err(CommandError::new(Exit::Failed, "the turn does not run in a daemon")
            .with_hint("press Ctrl-C where it was started"));
    }
    turns.interrupt(id, kill).await?;
    // The engine ends the turn asynchronously; the end of its events proves that the outcome is
    // recorded.
    let mut events = turns.watch(id).await?;
    while events.next().await?.is_some() {}
    print::line(&done)
}

/// Prints the diff of each edit, and how the edit was decided.
async fn print_diffs(records: &Records, id: TurnId, view: &View) -> Result<Exit, CommandError> {
    let events = records.events(id).await?;
    let mut out = String::new();
    for event in &events {
        let (title, decided, diff) = match &event.kind {
            EventKind::Approval(Approval { id, title, diff: Some(diff), .. }) => {
                let verdict = events.iter().find_map(|event| match &event.kind {
                    EventKind::Resolved(resolved) if resolved.id == *id => {
                        Some(format!("{} by {}", resolved.verdict.as_str(), resolved.by))
                    }
                    _ => None,
                });
                (Some(title), verdict.unwrap_or_else(|| "pending".to_owned()), diff)
            }
            EventKind::ToolResult(ToolResult { id, diff: Some(diff), .. }) => {
                let title = events.iter().find_map(|event| match &event.kind {
                    EventKind::ToolCall(call) if call.id == *id => Some(&call.title),
                    _ => None,
                });
                (title, "nobody was asked".to_owned(), diff)
            }
            _ => continue,
        };
        let head = format!("{} · {decided}", title.map_or("an edit", |title| &**title));
        // Writing to a string cannot fail.
        let _infallible = writeln!(out, "\n{}", view.rest(Style::Bold, &head, 0));
        for line in diff.lines() {
            let _infallible = writeln!(out, "{}", view.paint(diff_style(line), line));
        }
    }
    if out.is_empty() {
        out.push_str("\nno edits; what commands have changed is not shown\n");
    }
    print::styled(&out)
}

async fn show(records: &Records, id: TurnId, json: bool) -> Result<Exit, CommandError> {
    let turn = records.turn(id).await?;
    let mut out = Vec::new();
    if json {
        print::json_line(&turn, &mut out)?;
        return print::bytes(&out);
    }
    let _infallible = writeln!(out, "id       {}\nsession  {}", turn.id, turn.session_id);
    let _infallible = writeln!(
        out,
        "created  {}\nstatus   {}",
        print::format_minute(turn.created_at),
        turn.status
    );
    if let Some(reason) = turn.reason {
        let _infallible = writeln!(out, "reason   {reason}");
    }
    if let Some(failure) = turn.failure {
        let _infallible = writeln!(out, "failure  {}", failure.0);
    }
    if let Some(text) = turn.text {
        let _infallible = writeln!(out, "\n{text}");
    }
    print::bytes(&out)
}

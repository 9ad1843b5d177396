//! `angelia turns …`: single turns, running or finished.

use std::{io::Write as _, sync::Arc};

use angelia_core::{
    model::{TurnId, TurnState},
    ports::Page,
};
use angelia_frontends::{event_json::time::Rfc3339, turn_service::TurnService as _};

use super::{
    args::{ListArgs, TurnsCommand},
    error::{CommandError, Exit},
    print, run,
    sessions::parse_session_id,
};
use crate::{
    assemble::{App, LocalEngine},
    home_turns::find_daemon,
    records::Records,
};

pub(crate) async fn run(app: &Arc<App>, command: TurnsCommand) -> Result<Exit, CommandError> {
    match command {
        TurnsCommand::List { list: args, session } => {
            list(&Records::open(app).await?, &args, session.as_deref()).await
        }
        TurnsCommand::Show { id, json } => {
            show(&Records::open(app).await?, parse_turn_id(&id)?, json).await
        }
        TurnsCommand::Watch { id, json } => run::watch(app, parse_turn_id(&id)?, json).await,
        TurnsCommand::Interrupt { id, kill } => {
            let id = parse_turn_id(&id)?;
            let Some(daemon) = find_daemon(app).await else {
                let local = LocalEngine::start(app, "show", false).await?;
                let interrupted = interrupt_parked(&local, id).await;
                local.stop().await;
                return interrupted.map(|()| Exit::Done);
            };
            daemon.interrupt(id, kill).await?;
            Ok(Exit::Done)
        }
    }
}

fn parse_turn_id(id: &str) -> Result<TurnId, CommandError> {
    id.parse().map_err(|_| {
        CommandError::usage(format!("`{id}` is not a turn id"))
            .with_hint("`angelia turns list` prints them")
    })
}

/// Interrupts a parked turn. Without a daemon, a running turn belongs to the terminal it was
/// started from; a parked one runs in no process, so this process may end it.
async fn interrupt_parked(local: &LocalEngine, id: TurnId) -> Result<(), CommandError> {
    match local.engine.turn(id).await?.state {
        TurnState::Finished { .. } => {
            Err(CommandError::new(Exit::Failed, "the turn is over already"))
        }
        TurnState::Parked { .. } => {
            local.engine.interrupt(id, false).await?;
            let mut watch = local.engine.watch(id, 0).await?;
            // The engine ends the turn asynchronously; the end of its events proves that the
            // outcome is recorded.
            while watch.next().await?.is_some() {}
            Ok(())
        }
        _ => Err(CommandError::new(Exit::Failed, "the turn does not run in a daemon")
            .with_hint("press Ctrl-C where it was started")),
    }
}

async fn list(
    records: &Records,
    args: &ListArgs,
    session: Option<&str>,
) -> Result<Exit, CommandError> {
    let session = session.map(parse_session_id).transpose()?;
    let mut out = Vec::new();
    for turn in records.turns(session, Page::first(args.limit)).await? {
        if args.json {
            print::json_line(&turn, &mut out)?;
        } else {
            let created = print::format_minute(turn.created_at);
            // Writing to a vector cannot fail.
            let _infallible =
                writeln!(out, "{}  {created}  {:17}  {}", turn.id, turn.status, turn.session_id);
        }
    }
    print::bytes(&out)
}

async fn show(records: &Records, id: TurnId, json: bool) -> Result<Exit, CommandError> {
    let turn = records.turn(id).await?;
    let mut out = Vec::new();
    if json {
        print::json_line(&turn, &mut out)?;
        return print::bytes(&out);
    }
    let _infallible = writeln!(out, "id       {}\nsession  {}", turn.id, turn.session_id);
    let _infallible =
        writeln!(out, "created  {}\nstatus   {}", Rfc3339(turn.created_at), turn.status);
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

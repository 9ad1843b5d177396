//! `angelia turns …`: single turns, running or finished.

use std::{io::Write as _, sync::Arc};

use angelia_core::{
    engine::EngineError,
    model::{TurnId, TurnRecord, TurnState, TurnStatus},
    ports::Page,
};
use angelia_frontends::http::resources;

use super::{
    args::{ListArgs, TurnsCommand},
    error::{CommandError, Exit},
    print, run,
    sessions::parse_session_id as parse_session,
};
use crate::assemble::{App, LocalEngine};

pub(crate) async fn run(app: &Arc<App>, command: TurnsCommand) -> Result<Exit, CommandError> {
    match command {
        TurnsCommand::List { list: args, session } => {
            list(&LocalEngine::start(app, "show", false).await?, &args, session.as_deref()).await
        }
        TurnsCommand::Show { id, json } => {
            show(&LocalEngine::start(app, "show", false).await?, parse_turn_id(&id)?, json).await
        }
        TurnsCommand::Watch { id, json } => run::watch(app, parse_turn_id(&id)?, json).await,
        TurnsCommand::Interrupt { id, kill } => {
            let id = parse_turn_id(&id)?;
            let Some(daemon) = run::TurnHost::find_daemon(app).await else {
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
    match find_turn(local, id).await?.state {
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
    records: &LocalEngine,
    args: &ListArgs,
    session: Option<&str>,
) -> Result<Exit, CommandError> {
    let session = session.map(parse_session).transpose()?;
    let mut out = Vec::new();
    for turn in records.store.turns(session, Page::first(args.limit)).await? {
        if args.json {
            print::json_line(&resources::TurnResource::from(&turn), &mut out)?;
        } else {
            // Writing to a vector cannot fail.
            let _infallible = writeln!(
                out,
                "{}  {}  {:17}  {}",
                turn.id,
                print::format_minute(turn.created_at),
                turn.state.as_str(),
                turn.session
            );
        }
    }
    print::bytes(&out)
}

async fn find_turn(records: &LocalEngine, id: TurnId) -> Result<TurnRecord, CommandError> {
    let turn = records.store.turn(id).await?;
    turn.ok_or_else(|| EngineError::NotFound("turn").into())
}

async fn show(records: &LocalEngine, id: TurnId, json: bool) -> Result<Exit, CommandError> {
    let turn = find_turn(records, id).await?;
    let mut out = Vec::new();
    if json {
        print::json_line(&resources::TurnResource::from(&turn), &mut out)?;
        return print::bytes(&out);
    }
    let _infallible = writeln!(out, "id       {}\nsession  {}", turn.id, turn.session);
    let _infallible =
        writeln!(out, "created  {}\nstatus   {}", turn.created_at, turn.state.as_str());
    if let Some(outcome) = turn.state.outcome() {
        let _infallible = writeln!(out, "reason   {}", outcome.reason);
        if let TurnStatus::Failed(failure) = &outcome.status {
            let _infallible = writeln!(out, "failure  {failure}");
        }
        let _infallible = writeln!(out, "\n{}", outcome.text);
    }
    print::bytes(&out)
}

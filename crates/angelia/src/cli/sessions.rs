//! `angelia sessions …`: recorded conversations.

pub(super) mod adopt;
pub(super) mod list;
pub(crate) mod search;
#[cfg(test)]
mod tests;
mod transcript;

use std::sync::Arc;

use angelia_core::{model::SessionId, ports::Store};
use angelia_frontends::event_json::write_event;
use jiff::tz::TimeZone;

use self::transcript::Transcript;
use super::{
    args::{RunArgs, SessionsCommand},
    error::{CommandError, Exit},
    pager, print, run,
    view::View,
};
use crate::{
    assemble::{App, HomeStore},
    home_turns::{HomeTurns, TurnsUse},
    records::{PAGE_SIZE, Records},
    resolve,
};

pub(crate) async fn run(app: &Arc<App>, command: SessionsCommand) -> Result<Exit, CommandError> {
    match command {
        SessionsCommand::List(args) => list::print(app, &Records::open(app).await?, &args).await,
        SessionsCommand::Show { id, json } => {
            let records = Records::open(app).await?;
            let id = resolve::session_id(&records, &id).await?;
            if json {
                let mut out = Vec::new();
                print::json_line(&records.session(id).await?, &mut out)?;
                return print::bytes(&out);
            }
            let view = View::of_stdout(&app.environment);
            let text = Transcript::read(&records, id).await?.render(&view, &TimeZone::system());
            pager::print(&app.environment, &view, text).await
        }
        SessionsCommand::Search(args) => {
            let view = View::of_stdout(&app.environment);
            search::run(&Records::open(app).await?, &args, &view).await
        }
        SessionsCommand::Export { id, md, .. } => {
            if md {
                let records = Records::Store(HomeStore::open_for_reading(app, "show")?);
                let id = resolve::session_id(&records, &id).await?;
                let text = Transcript::read(&records, id).await?.markdown();
                return print::bytes(text.as_bytes());
            }
            // The daemon's event stream of a running turn does not end, so read its store directly.
            let store = HomeStore::open_for_reading(app, "show")?;
            let id = resolve::session_id(&Records::Store(Arc::clone(&store)), &id).await?;
            export(&store, id).await
        }
        SessionsCommand::Resume { id, json, prompt } => {
            // `run` would create a session under an unknown name, but only an existing session can
            // be resumed.
            let id = resolve::session_id(&Records::open(app).await?, &id).await?;
            let args =
                RunArgs { session: Some(id.to_string()), json, prompt, ..RunArgs::default() };
            run::run(app, None, args).await
        }
        SessionsCommand::Adopt(args) => adopt::run(app, &args).await,
        SessionsCommand::Fork { id } => {
            let id = resolve::session_id(&Records::open(app).await?, &id).await?;
            let forked = HomeTurns::with(TurnsUse::Existing, app, "run", |turns| async move {
                Ok(turns.fork_session(id).await?)
            })
            .await;
            print::line(&forked?.id.to_string())
        }
        SessionsCommand::Delete { ids } => {
            let records = Records::open(app).await?;
            let mut sessions = Vec::new();
            for id in &ids {
                sessions.push(resolve::session_id(&records, id).await?);
            }
            HomeTurns::with(TurnsUse::Existing, app, "run", |turns| async move {
                for id in sessions {
                    turns.delete_session(id).await?;
                    print::line(&format!("deleted: {id}"))?;
                }
                Ok(Exit::Done)
            })
            .await
        }
    }
}

/// Prints the session, then each turn followed by its events, oldest first.
async fn export(store: &Arc<dyn Store>, id: SessionId) -> Result<Exit, CommandError> {
    let records = Records::Store(Arc::clone(store));
    let mut out = Vec::new();
    print::json_line(&records.session(id).await?, &mut out)?;
    print::bytes(&out)?;
    for turn in records.all_turns(id).await?.iter().rev() {
        out.clear();
        print::json_line(turn, &mut out)?;
        let mut after = 0;
        loop {
            let events = store.replay(turn.id, after, PAGE_SIZE).await?;
            let Some(last) = events.last() else { break };
            after = last.seq;
            for event in &events {
                write_event(event, &mut out);
                out.push(b'\n');
            }
        }
        print::bytes(&out)?;
    }
    Ok(Exit::Done)
}

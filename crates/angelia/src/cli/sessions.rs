//! `angelia sessions …`: recorded conversations.

use std::{io::Write as _, sync::Arc};

use angelia_core::{
    engine::EngineError,
    model::{Content, SessionId, SessionRecord},
    ports::{Page, Store},
};
use angelia_frontends::{event_json::write_event, http::resources};

use super::{
    args::{ListArgs, RunArgs, SessionsCommand},
    error::{CommandError, Exit},
    print, run,
};
use crate::assemble::{App, LocalEngine};

/// How many records one query reads where all records are needed.
const PAGE_SIZE: usize = 256;

pub(crate) async fn run(app: &Arc<App>, command: SessionsCommand) -> Result<Exit, CommandError> {
    match command {
        SessionsCommand::List(args) => {
            list(&LocalEngine::start(app, "show", false).await?, &args).await
        }
        SessionsCommand::Show { id, json } => {
            show(&LocalEngine::start(app, "show", false).await?, parse_session_id(&id)?, json).await
        }
        SessionsCommand::Export { id } => {
            export(&LocalEngine::start(app, "show", false).await?, parse_session_id(&id)?).await
        }
        SessionsCommand::Resume { id, json, prompt } => {
            // `run` would start a new session under an unknown name, but only an existing session
            // can be resumed, so only ids are accepted.
            parse_session_id(&id)?;
            let args =
                RunArgs { profile: None, session: Some(id), cwd: None, model: None, json, prompt };
            run::run(app, args).await
        }
        SessionsCommand::Fork { id } => {
            let id = parse_session_id(&id)?;
            let place = run::TurnHost::find(app).await?;
            let forked = place.fork(id).await;
            place.close().await;
            print::line(&forked?.to_string())
        }
        SessionsCommand::Delete { ids } => {
            let ids: Vec<_> =
                ids.iter().map(|id| parse_session_id(id)).collect::<Result<_, _>>()?;
            let place = run::TurnHost::find(app).await?;
            let mut deleted = Ok(Exit::Done);
            for id in ids {
                if let Err(error) = place.delete(id).await {
                    deleted = Err(error);
                    break;
                }
            }
            place.close().await;
            deleted
        }
    }
}

pub(crate) fn parse_session_id(id: &str) -> Result<SessionId, CommandError> {
    id.parse().map_err(|_| {
        CommandError::usage(format!("`{id}` is not a session id"))
            .with_hint("`angelia sessions list` prints them")
    })
}

async fn list(records: &LocalEngine, args: &ListArgs) -> Result<Exit, CommandError> {
    let sessions = records.store.sessions(Page::first(args.limit)).await?;
    let mut out = Vec::new();
    for session in sessions {
        if args.json {
            print::json_line(&resources::SessionResource::from(&session), &mut out)?;
        } else {
            let title = match &session.title {
                Some(title) => title.to_string(),
                None => first_prompt_line(&*records.store, session.id).await?,
            };
            // Writing to a vector cannot fail.
            let _infallible = writeln!(
                out,
                "{}  {}  {:8}  {}",
                session.id,
                print::format_minute(session.updated_at),
                session.spec.executor,
                title
            );
        }
    }
    print::bytes(&out)
}

/// Returns the first line of the first prompt, which stands in for a missing title.
async fn first_prompt_line(store: &dyn Store, session: SessionId) -> Result<String, CommandError> {
    let turns = store.turns(Some(session), Page::first(PAGE_SIZE)).await?;
    let first = turns.last().and_then(|turn| turn.input.first());
    Ok(match first {
        Some(Content::Text(text)) => {
            let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            line.chars().filter(|c| !c.is_control()).take(60).collect()
        }
        Some(Content::Image { .. }) => "(an image)".to_owned(),
        None => "(no turns yet)".to_owned(),
    })
}

async fn find_session(records: &LocalEngine, id: SessionId) -> Result<SessionRecord, CommandError> {
    let session = records.store.session(id).await?;
    session.ok_or_else(|| EngineError::NotFound("session").into())
}

async fn show(records: &LocalEngine, id: SessionId, json: bool) -> Result<Exit, CommandError> {
    let session = find_session(records, id).await?;
    let mut out = Vec::new();
    if json {
        print::json_line(&resources::SessionResource::from(&session), &mut out)?;
        return print::bytes(&out);
    }
    let spec = &session.spec;
    let native = session.native.as_ref().map_or("-", |native| native.as_str());
    let rows = [
        ("id", session.id.to_string()),
        ("title", session.title.as_deref().unwrap_or("-").to_owned()),
        ("profile", spec.profile.to_string()),
        ("executor", spec.executor.to_string()),
        ("mode", spec.mode.as_str().to_owned()),
        ("model", spec.model.as_deref().unwrap_or("(the agent's default)").to_owned()),
        ("cwd", spec.cwd.display().to_string()),
        ("native session", native.to_owned()),
        ("forked from", session.forked_from.map_or_else(|| "-".to_owned(), |id| id.to_string())),
        ("created", session.created_at.to_string()),
        ("updated", session.updated_at.to_string()),
    ];
    for (name, value) in rows {
        let _infallible = writeln!(out, "{name:15} {value}");
    }
    let _infallible = writeln!(out, "\nturns");
    for turn in records.store.turns(Some(id), Page::first(PAGE_SIZE)).await? {
        let state = turn.state.as_str();
        let _infallible =
            writeln!(out, "{}  {}  {state}", turn.id, print::format_minute(turn.created_at));
    }
    print::bytes(&out)
}

/// Prints the session, then each turn followed by its events, oldest first.
async fn export(records: &LocalEngine, id: SessionId) -> Result<Exit, CommandError> {
    let session = find_session(records, id).await?;
    let mut out = Vec::new();
    print::json_line(&resources::SessionResource::from(&session), &mut out)?;
    print::bytes(&out)?;
    // The store pages from the newest turn to the oldest; the loop below reverses the order.
    let mut turns = Vec::new();
    let mut page = Page::first(PAGE_SIZE);
    loop {
        let more = records.store.turns(Some(id), page).await?;
        let Some(last) = more.last() else { break };
        page.before = Some(last.id.as_uuid());
        turns.extend(more);
    }
    for turn in turns.iter().rev() {
        out.clear();
        print::json_line(&resources::TurnResource::from(turn), &mut out)?;
        let mut after = 0;
        loop {
            let events = records.store.replay(turn.id, after, PAGE_SIZE).await?;
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

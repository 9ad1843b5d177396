//! `angelia sessions …`: recorded conversations.

#[cfg(test)]
mod tests;

use std::{io::Write as _, sync::Arc};

use angelia_core::{
    model::SessionId,
    ports::{Page, Store},
};
use angelia_frontends::{
    event_json::{time::Rfc3339, write_event},
    http::resources::InputPart,
};

use super::{
    args::{ListArgs, RunArgs, SessionsCommand},
    error::{CommandError, Exit},
    print, run,
};
use crate::{
    assemble::{App, HomeStore},
    home_turns::HomeTurns,
    records::{PAGE_SIZE, Records},
};

pub(crate) async fn run(app: &Arc<App>, command: SessionsCommand) -> Result<Exit, CommandError> {
    match command {
        SessionsCommand::List(args) => {
            print::bytes(&list(&Records::open(app).await?, &args).await?)
        }
        SessionsCommand::Show { id, json } => {
            let id = parse_session_id(&id)?;
            print::bytes(&show(&Records::open(app).await?, id, json).await?)
        }
        SessionsCommand::Export { id } => {
            let id = parse_session_id(&id)?;
            // A daemon has no end of a running turn's events to offer, but its store is this file.
            export(&HomeStore::open(app, "show")?.store, id).await
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
            let forked =
                HomeTurns::with(
                    app,
                    "run",
                    |turns| async move { Ok(turns.fork_session(id).await?) },
                )
                .await;
            print::line(&forked?.id.to_string())
        }
        SessionsCommand::Delete { ids } => {
            let ids: Vec<_> =
                ids.iter().map(|id| parse_session_id(id)).collect::<Result<_, _>>()?;
            HomeTurns::with(app, "run", |turns| async move {
                for id in ids {
                    turns.delete_session(id).await?;
                }
                Ok(Exit::Done)
            })
            .await
        }
    }
}

pub(crate) fn parse_session_id(id: &str) -> Result<SessionId, CommandError> {
    id.parse().map_err(|_| {
        CommandError::usage(format!("`{id}` is not a session id"))
            .with_hint("`angelia sessions list` prints them")
    })
}

async fn list(records: &Records, args: &ListArgs) -> Result<Vec<u8>, CommandError> {
    let mut out = Vec::new();
    for session in records.sessions(Page::first(args.limit)).await? {
        if args.json {
            print::json_line(&session, &mut out)?;
            continue;
        }
        let title = match session.title {
            Some(title) => title,
            None => first_prompt_line(records, session.id).await?,
        };
        // Writing to a vector cannot fail.
        let _infallible = writeln!(
            out,
            "{}  {}  {:8}  {title}",
            session.id,
            print::format_minute(session.updated_at),
            session.executor,
        );
    }
    Ok(out)
}

/// Returns the first line of the first prompt, which stands in for a missing title.
async fn first_prompt_line(records: &Records, session: SessionId) -> Result<String, CommandError> {
    let turns = records.all_turns(session).await?;
    Ok(match turns.last().and_then(|turn| turn.input.first()) {
        Some(InputPart::Text { text }) => {
            let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            line.chars().filter(|c| !c.is_control()).take(60).collect()
        }
        Some(InputPart::Image { .. }) => "(an image)".to_owned(),
        None => "(no turns yet)".to_owned(),
    })
}

async fn show(records: &Records, id: SessionId, json: bool) -> Result<Vec<u8>, CommandError> {
    let session = records.session(id).await?;
    let mut out = Vec::new();
    if json {
        print::json_line(&session, &mut out)?;
        return Ok(out);
    }
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let rows = [
        ("id", session.id.to_string()),
        ("title", or_dash(session.title)),
        ("profile", session.profile),
        ("executor", session.executor),
        ("mode", session.mode),
        ("model", session.model.unwrap_or_else(|| "(the agent's default)".to_owned())),
        ("cwd", session.cwd.display().to_string()),
        ("native session", or_dash(session.native_session_id)),
        ("forked from", or_dash(session.forked_from.map(|id| id.to_string()))),
        ("created", Rfc3339(session.created_at).to_string()),
        ("updated", Rfc3339(session.updated_at).to_string()),
    ];
    for (name, value) in rows {
        let _infallible = writeln!(out, "{name:15} {value}");
    }
    let _infallible = writeln!(out, "\nturns");
    for turn in records.all_turns(id).await? {
        let created = print::format_minute(turn.created_at);
        let _infallible = writeln!(out, "{}  {created}  {}", turn.id, turn.status);
    }
    Ok(out)
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

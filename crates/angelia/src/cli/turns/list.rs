//! `angelia turns list`.

use std::collections::HashMap;

use angelia_core::{
    model::{Content, SessionId, first_words},
    ports::Page,
};
use angelia_frontends::http::resources::{InputPart, SessionResource, TurnResource};

use crate::{
    cli::{
        args::ListArgs,
        error::{CommandError, Exit},
        local_time, print,
        sessions::list::{agent, short},
        table::{self, Column, Table},
    },
    records::Records,
    resolve,
};

pub(crate) async fn print(
    records: &Records,
    args: &ListArgs,
    session: Option<&str>,
) -> Result<Exit, CommandError> {
    let session = match session {
        Some(session) => Some(resolve::session_id(records, session).await?),
        None => None,
    };
    let before = match &args.before {
        Some(turn) => Some(resolve::turn(records, turn).await?.as_uuid()),
        None => None,
    };
    let page = Page { limit: args.limit.saturating_add(1), before };
    let mut turns = records.turns(session, page).await?;
    let has_more = turns.len() > args.limit;
    turns.truncate(args.limit);
    if args.json {
        let mut out = Vec::new();
        for turn in &turns {
            print::json_line(turn, &mut out)?;
        }
        return print::bytes(&out);
    }
    if turns.is_empty() && args.starts_at_newest() {
        print::note("there are no turns; `angelia run` runs one");
        return Ok(Exit::Done);
    }
    let mut sessions = HashMap::new();
    for turn in &turns {
        if !sessions.contains_key(&turn.session_id)
            && let Some(session) = records.find_session(turn.session_id).await?
        {
            sessions.insert(turn.session_id, session);
        }
    }
    let exit = print::bytes(&table(&turns, &sessions, local_time::ago).render())?;
    if let Some(last) = turns.last().filter(|_| has_more) {
        table::note_more("turns list", &short_turn(last));
    }
    Ok(exit)
}

fn table(
    turns: &[TurnResource],
    sessions: &HashMap<SessionId, SessionResource>,
    when: impl Fn(jiff::Timestamp) -> String,
) -> Table<6> {
    let mut table = Table::new([
        Column { header: "ID", min_width: None, rank: 0 },
        Column { header: "STARTED", min_width: None, rank: 3 },
        Column { header: "STATE", min_width: Some(9), rank: 2 },
        Column { header: "SESSION", min_width: Some(8), rank: 4 },
        Column { header: "AGENT", min_width: Some(8), rank: 5 },
        Column { header: "FIRST WORDS", min_width: Some(12), rank: 1 },
    ]);
    for turn in turns {
        let session = sessions.get(&turn.session_id);
        let name = session.map(|session| session.name.clone().unwrap_or_else(|| short(session)));
        table.push([
            short_turn(turn),
            when(turn.created_at),
            turn.status.clone(),
            name.unwrap_or_else(|| turn.session_id.to_string()),
            session.map(agent).unwrap_or_default(),
            words(&turn.input),
        ]);
    }
    table
}

fn short_turn(turn: &TurnResource) -> String {
    turn.short_id.clone().unwrap_or_else(|| turn.id.to_string())
}

fn words(input: &[InputPart]) -> String {
    let input = input.iter().map(|part| match part {
        InputPart::Text { text } => Content::text(text.as_str()),
        InputPart::Image { media_type, .. } => {
            Content::Image { media_type: media_type.as_str().into(), data: [].into() }
        }
    });
    first_words(&input.collect::<Vec<_>>()).unwrap_or_default()
}

//! `angelia sessions list`.

use std::path::Path;

use angelia_core::ports::{Page, SessionFilter};
use angelia_frontends::http::resources::SessionResource;
use clap::Args;
use jiff::Timestamp;

use crate::{
    assemble::App,
    cli::{
        args::ListArgs,
        audit::parse_since,
        error::{CommandError, Exit},
        local_time, print,
        table::{self, Column, Table},
    },
    records::Records,
    resolve,
};

#[derive(Debug, Args)]
pub(crate) struct SessionListArgs {
    /// Only sessions with all of these words in their title, name or first words; `sessions search`
    /// finds what was said.
    words: Vec<String>,

    /// Only sessions whose newest turn has one of these states: `running,failed`.
    #[arg(long, value_name = "STATE", value_delimiter = ',')]
    status: Vec<String>,

    /// Only sessions of this profile.
    #[arg(long)]
    profile: Option<String>,

    /// Only sessions of this agent program: `claude`, `codex` …
    #[arg(long)]
    executor: Option<String>,

    /// Only sessions from this origin: `terminal`, `http`, `bus`, `key`, `key:NAME` …
    #[arg(long, value_name = "PLACE")]
    origin: Option<String>,

    /// Only sessions used since this time: `2026-01-31`, `2026-01-31T12:00:00Z`, or how long ago: `7d`.
    #[arg(long, value_name = "TIME")]
    since: Option<String>,

    #[command(flatten)]
    pub(super) list: ListArgs,
}

impl SessionListArgs {
    /// Selects all sessions.
    pub(crate) const fn all(list: ListArgs) -> Self {
        Self {
            words: Vec::new(),
            status: Vec::new(),
            profile: None,
            executor: None,
            origin: None,
            since: None,
            list,
        }
    }

    fn filter(&self) -> Result<SessionFilter, CommandError> {
        let text = |field: &Option<String>| field.as_deref().map(Into::into);
        let words = self.words.iter().flat_map(|words| words.split_whitespace());
        let since = self.since.as_deref().map(|text| parse_since(text, Timestamp::now()));
        Ok(SessionFilter {
            words: words.map(Into::into).collect(),
            statuses: self.status.iter().map(|status| status.trim().into()).collect(),
            profile: text(&self.profile),
            executor: text(&self.executor),
            source: text(&self.origin),
            since: since.transpose()?,
            cwd: None,
        })
    }
}

pub(crate) async fn print(
    app: &App,
    records: &Records,
    args: &SessionListArgs,
) -> Result<Exit, CommandError> {
    let (sessions, has_more) = read(records, args).await?;
    let is_filtered = !args.filter()?.is_empty();
    let args = &args.list;
    let mut out = Vec::new();
    if args.json {
        for session in &sessions {
            print::json_line(session, &mut out)?;
        }
        return print::bytes(&out);
    }
    if sessions.is_empty() && args.starts_at_newest() {
        print::note(if is_filtered {
            "no session matches; `angelia sessions list` lists all"
        } else {
            "there are no sessions; `angelia run` starts one"
        });
        return Ok(Exit::Done);
    }
    let home = app.environment.home();
    let table = table(&sessions, home.as_deref(), local_time::ago);
    let exit = print::bytes(&table.render())?;
    if let Some(last) = sessions.last().filter(|_| has_more) {
        table::note_more("sessions list", &short(last));
    }
    Ok(exit)
}

/// Returns the sessions of the requested page, and whether there are more.
pub(super) async fn read(
    records: &Records,
    args: &SessionListArgs,
) -> Result<(Vec<SessionResource>, bool), CommandError> {
    let filter = args.filter()?;
    let args = &args.list;
    let before = match &args.before {
        Some(session) => Some(resolve::session_id(records, session).await?.as_uuid()),
        None => None,
    };
    let page = Page { limit: args.limit.saturating_add(1), before };
    let mut sessions = records.find_sessions(filter, page).await?;
    let has_more = sessions.len() > args.limit;
    sessions.truncate(args.limit);
    Ok((sessions, has_more))
}

/// Builds the table. `when` formats a time.
pub(super) fn table(
    sessions: &[SessionResource],
    home: Option<&Path>,
    when: impl Fn(jiff::Timestamp) -> String,
) -> Table<8> {
    let mut table = Table::new([
        Column { header: "ID", min_width: None, rank: 0 },
        Column { header: "NAME", min_width: Some(8), rank: 3 },
        Column { header: "USED", min_width: None, rank: 2 },
        Column { header: "STATE", min_width: Some(9), rank: 4 },
        Column { header: "AGENT", min_width: Some(8), rank: 5 },
        Column { header: "DIRECTORY", min_width: Some(12), rank: 6 },
        Column { header: "SOURCE", min_width: Some(8), rank: 7 },
        Column { header: "FIRST WORDS", min_width: Some(12), rank: 1 },
    ]);
    for session in sessions {
        let words = session.title.as_ref().or(session.first_words.as_ref());
        table.push([
            short(session),
            session.name.clone().unwrap_or_default(),
            when(session.updated_at),
            session.status.clone().unwrap_or_else(|| "new".to_owned()),
            agent(session),
            tilde(&session.cwd, home),
            session.source.as_deref().map(source).unwrap_or_default(),
            words.cloned().unwrap_or_default(),
        ]);
    }
    table
}

pub(crate) fn short(session: &SessionResource) -> String {
    session.short_id.clone().unwrap_or_else(|| session.id.to_string())
}

/// Returns the executor and the model as text.
pub(crate) fn agent(session: &SessionResource) -> String {
    match &session.model {
        Some(model) => format!("{}/{model}", session.executor),
        None => session.executor.clone(),
    }
}

/// Returns a source in words that people use.
fn source(source: &str) -> String {
    match source.split_once(':') {
        Some(("key", name)) => format!("http {name}"),
        Some(("bus", endpoint)) => format!("bus {endpoint}"),
        Some(("adopted", executor)) => format!("from {executor}"),
        _ => source.to_owned(),
    }
}

/// Returns a path with `~` for the user's home.
pub(crate) fn tilde(path: &Path, home: Option<&Path>) -> String {
    match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    }
}

//! `angelia sessions adopt`: adopts a conversation that was started in an agent's own program.
//!
//! It works in this process, even if a daemon runs: the person's shell knows where the program
//! keeps its conversations, and the daemon finds the session in the store.

use std::{path::PathBuf, sync::Arc};

use angelia_core::{
    engine::NewSession,
    model::{ExternalName, IdPrefix, Mode, PastConversation, SessionSource, SessionSpec},
    ports::{Executor, ExecutorTarget, Page, ProfileRequest, Profiles as _},
};
use serde_json::json;

use super::list::tilde;
use crate::{
    assemble::{App, LocalEngine},
    cli::{
        agent_use::ensure_owner_works_alone,
        args::AdoptArgs,
        error::{CommandError, Exit},
        local_time, print,
        table::{Column, Table},
    },
    records::{PAGE_SIZE, Records},
    resolve,
};

pub(crate) async fn run(app: &Arc<App>, args: &AdoptArgs) -> Result<Exit, CommandError> {
    let local = LocalEngine::start(app, "run", false).await?;
    let done = async {
        let adopter = Adopter::open(&local, args).await?;
        if args.id.is_some() || args.last {
            adopter.adopt(args).await
        } else {
            adopter.list(app, args)
        }
    };
    let done = done.await;
    local.stop().await;
    done
}

/// Returns the agent whose program has a conversation with this id.
pub(crate) async fn find_owner(
    app: &Arc<App>,
    id: &str,
) -> Result<Option<&'static str>, CommandError> {
    ensure_owner_works_alone(&app.environment)?;
    let local = LocalEngine::start(app, "show", false).await?;
    let mut found = None;
    for executor in local.engine.executors() {
        // An agent that is not set up has no conversations either.
        let Ok(spec) = resolve_spec(&local, executor.name(), None, None).await else { continue };
        let known = executor.past_conversations(&spec).await.unwrap_or_default();
        if known.iter().any(|one| one.id.as_str() == id) {
            found = Some(executor.name());
            break;
        }
    }
    local.stop().await;
    Ok(found)
}

/// The conversations of one agent's program.
struct Adopter<'a> {
    local: &'a LocalEngine,
    agent: &'static str,
    here: PathBuf,
    /// Those from this directory first, then by last use.
    conversations: Vec<PastConversation>,
}

impl<'a> Adopter<'a> {
    async fn open(local: &'a LocalEngine, args: &AdoptArgs) -> Result<Self, CommandError> {
        let executor = find_executor(local, &args.agent)?;
        let spec = resolve_spec(local, executor.name(), args.profile.as_deref(), None).await?;
        let here = std::env::current_dir().map_err(CommandError::internal)?;
        let mut conversations = executor.past_conversations(&spec).await?;
        let ours = natives_of_sessions(local).await?;
        conversations.retain(|one| !ours.iter().any(|native| native == one.id.as_str()));
        // The sort is stable, so conversations stay ordered by last use.
        conversations.sort_by_key(|one| one.cwd != here);
        Ok(Self { local, agent: executor.name(), here, conversations })
    }

    fn list(&self, app: &App, args: &AdoptArgs) -> Result<Exit, CommandError> {
        let shown = self.conversations.iter().take(args.limit);
        if args.json {
            let mut out = Vec::new();
            for one in shown {
                let line = json!({
                    "id": one.id.as_str(), "cwd": one.cwd, "used_at": one.used_at.to_string(),
                    "first_words": one.first_words,
                });
                print::json_line(&line, &mut out)?;
            }
            return print::bytes(&out);
        }
        let home = app.environment.home();
        let mut table = Table::new([
            Column { header: "ID", min_width: None, rank: 0 },
            Column { header: "USED", min_width: None, rank: 2 },
            Column { header: "DIRECTORY", min_width: Some(10), rank: 3 },
            Column { header: "FIRST WORDS", min_width: Some(12), rank: 1 },
        ]);
        for one in shown {
            let is_here = one.cwd == self.here;
            table.push([
                self.short_id(one),
                local_time::ago(one.used_at),
                if is_here { ".".to_owned() } else { tilde(&one.cwd, home.as_deref()) },
                one.first_words.as_deref().unwrap_or_default().to_owned(),
            ]);
        }
        let exit = print::bytes(&table.render())?;
        if self.conversations.is_empty() {
            print::note(&format!("angelia: {} has no conversations to adopt", self.agent));
        }
        Ok(exit)
    }

    async fn adopt(&self, args: &AdoptArgs) -> Result<Exit, CommandError> {
        let chosen = self.choose(args)?;
        if let Some(name) = &args.name {
            resolve::check_new_name(name)?;
            let records = Records::Store(Arc::clone(&self.local.store));
            if name == resolve::LAST || records.session_named(name).await?.is_some() {
                return Err(CommandError::usage(format!("a session is called `{name}` already"))
                    .with_hint("choose another name"));
            }
        }
        let profile = args.profile.as_deref();
        let cwd = Some(chosen.cwd.clone());
        let spec = resolve_spec(self.local, self.agent, profile, cwd).await?;
        let owners = |name: &String| ExternalName {
            scope: ExternalName::OWNER_SCOPE.into(),
            name: name.as_str().into(),
        };
        let new = NewSession {
            spec,
            title: None,
            name: args.name.as_ref().map(owners),
            source: Some(SessionSource::Adopted(self.agent.into())),
        };
        let session = self.local.engine.adopt_conversation(new, &chosen.id).await?;
        let id = session.id.to_string();
        let call = args.name.as_deref().unwrap_or("last");
        print::note(&format!(
            "angelia: adopted from {}; `angelia run -s {call} …` continues it, and the original stays \
             as it is",
            self.agent
        ));
        print::line(&id)
    }

    fn choose(&self, args: &AdoptArgs) -> Result<&PastConversation, CommandError> {
        let list = format!("`angelia sessions adopt {} --list` shows them", self.agent);
        let Some(wanted) = &args.id else {
            return self.conversations.first().ok_or_else(|| {
                CommandError::usage(format!("{} has no conversations to adopt", self.agent))
                    .with_hint(format!("begin one in {} itself, or use `angelia run`", self.agent))
            });
        };
        let exact = self.conversations.iter().find(|one| one.id.as_str() == wanted);
        let is_start = wanted.len() >= IdPrefix::MIN_DIGITS;
        let mut starting = self
            .conversations
            .iter()
            .filter(|one| is_start && one.id.as_str().starts_with(wanted.as_str()));
        match (exact, starting.next(), starting.next()) {
            (Some(found), ..) | (None, Some(found), None) => Ok(found),
            (None, Some(_), Some(_)) => {
                Err(CommandError::usage(format!("`{wanted}` matches several conversations"))
                    .with_hint(list))
            }
            (None, None, _) => Err(CommandError::usage(format!(
                "{} has no conversation `{wanted}` that is not a session already",
                self.agent
            ))
            .with_hint(list)),
        }
    }

    /// Returns the shortest unique prefix of an id, at least eight characters long.
    fn short_id(&self, one: &PastConversation) -> String {
        let id = one.id.as_str();
        let others: Vec<&str> = self
            .conversations
            .iter()
            .map(|other| other.id.as_str())
            .filter(|it| *it != id)
            .collect();
        let is_unique = |start: &str| !others.iter().any(|other| other.starts_with(start));
        let lengths = 8..id.len();
        let start = lengths.filter_map(|length| id.get(..length)).find(|start| is_unique(start));
        start.unwrap_or(id).trim_end_matches('-').to_owned()
    }
}

fn find_executor<'a>(
    local: &'a LocalEngine,
    name: &str,
) -> Result<&'a Arc<dyn Executor>, CommandError> {
    let found = local.engine.executors().iter().find(|executor| executor.name() == name);
    found.ok_or_else(|| {
        let known: Vec<_> = local.engine.executors().iter().map(|one| one.name()).collect();
        CommandError::usage(format!("there is no agent `{name}`"))
            .with_hint(format!("known agents: {}", known.join(", ")))
    })
}

/// Returns the specification for a session of this agent: that of the named profile, or else of the
/// first profile that uses the agent, or else of the agent with its default settings.
async fn resolve_spec(
    local: &LocalEngine,
    agent: &str,
    profile: Option<&str>,
    cwd: Option<PathBuf>,
) -> Result<SessionSpec, CommandError> {
    let uses_agent = |mode, executor: &str| mode == Mode::Agent && executor == agent;
    let mut profiles = local.profiles.list();
    profiles.retain(|one| uses_agent(one.mode, &one.executor));
    let profile = profile.map(Into::into).or_else(|| Some(Arc::clone(&profiles.first()?.name)));
    let target = ExecutorTarget { executor: agent.into(), mode: Mode::Agent };
    let wanted = ProfileRequest {
        target: profile.is_none().then_some(target),
        profile,
        cwd,
        caller_cwd: std::env::current_dir().ok(),
        at_terminal: true,
        ..ProfileRequest::default()
    };
    let spec = local.profiles.resolve(wanted).await?;
    if !uses_agent(spec.mode, &spec.executor) {
        return Err(CommandError::usage(format!(
            "the profile `{}` does not use {agent} in agent mode",
            spec.profile
        ))
        .with_hint("name another profile, or none"));
    }
    Ok(spec)
}

/// Returns the agents' own ids of the conversations that already are sessions.
async fn natives_of_sessions(local: &LocalEngine) -> Result<Vec<String>, CommandError> {
    let mut natives = Vec::new();
    let mut page = Page::first(PAGE_SIZE);
    loop {
        let sessions = local.store.sessions(page).await?;
        let Some(last) = sessions.last() else { return Ok(natives) };
        page.before = Some(last.id.as_uuid());
        natives.extend(sessions.iter().filter_map(|one| Some(one.native.as_ref()?.to_string())));
    }
}

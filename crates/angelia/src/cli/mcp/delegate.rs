//! Runs a turn on another profile: checks whether the caller may delegate to it, and starts it in
//! the daemon or in this process.

use angelia_core::{
    engine::NewSession,
    model::{Content, SessionId, SessionRecord, TurnId, TurnOptions, TurnOrigin},
    ports::{ProfileRequest, Profiles as _},
};
use angelia_frontends::mcp::{
    DelegateResult, ProgressReporter, ToolCallError, arguments::DelegateArgs, lineage,
};
use tokio_util::sync::CancellationToken;

use super::{
    backend::{HomeToolBackend, MAX_CONCURRENT_TURNS},
    follow::{follow, to_answer},
};
use crate::{
    cli::{
        error::CommandError,
        run::{RunningTurn, TurnHost},
    },
    client::{DaemonClient, DelegatedTurn, NewSessionRequest},
    config::ResolveContext,
    delegation::{DelegatingSession, Privileges},
};

pub(super) async fn run(
    desk: &HomeToolBackend,
    task: DelegateArgs,
    progress: ProgressReporter,
    stop: CancellationToken,
) -> Result<DelegateResult, ToolCallError> {
    if task.task.trim().is_empty() {
        return Err(ToolCallError::new("task: there is nothing to do"));
    }
    let caller = match desk.origin.session(&desk.app)? {
        None => None,
        Some(session) => {
            let store = &*desk.local().await?.store;
            Some(DelegatingSession::load(store, session).await?)
        }
    };
    let mut order = Delegation::check(desk, task, caller).await?;
    // Callers with a cost limit share what is left of it, so their turns run one after the other:
    // each takes all slots.
    let places = match &order.caller {
        Some(caller) if caller.remaining_cost_usd.is_some() => MAX_CONCURRENT_TURNS,
        _ => 1,
    };
    let waited = tokio::select! {
        permit = desk.turn_slots.acquire_many(places) => permit,
        () = stop.cancelled() => return Err(ToolCallError::new("given up before it began")),
    };
    let _permit = waited.map_err(|_| ToolCallError::new("angelia mcp is ending"))?;
    // Turns that ran while this one waited have spent part of the limit, so it is read again.
    if let Some(caller) = &mut order.caller
        && caller.remaining_cost_usd.is_some()
    {
        let store = &*desk.local().await?.store;
        *caller = DelegatingSession::load(store, caller.session.id).await?;
    }
    let until = order.caller.as_ref().and_then(|caller| caller.deadline);
    let (session, id, turn) = order.start(desk).await?;
    let (outcome, ended) = follow(turn, until, &progress, &stop).await?;
    Ok(to_answer(session, id, &outcome, ended))
}

/// A task that the caller is allowed to delegate.
struct Delegation {
    task: DelegateArgs,
    caller: Option<DelegatingSession>,
    session: Option<SessionId>,
}

impl Delegation {
    async fn check(
        desk: &HomeToolBackend,
        task: DelegateArgs,
        caller: Option<DelegatingSession>,
    ) -> Result<Self, ToolCallError> {
        let config = &desk.app.config;
        let (profile, allowed): (&str, Vec<&str>) = match &caller {
            None => (&desk.profile, config.all_delegates(&desk.profile)),
            Some(caller) => {
                let spec = &caller.session.spec;
                let names = config.delegates(&spec.profile, &spec.executor).iter();
                (&spec.profile, names.map(String::as_str).collect())
            }
        };
        if !allowed.contains(&task.profile.as_str()) {
            return Err(not_listed_error(&task.profile, profile, &allowed));
        }
        if let Some(caller) = &caller {
            if caller.depth >= lineage::MAX_DELEGATION_DEPTH {
                let what = format!(
                    "this work has been handed on {} times already, and no further",
                    caller.depth
                );
                return Err(ToolCallError::new(what).with_hint("do it yourself"));
            }
            check_privileges(desk, &task.profile, caller)?;
        }
        let session = match &task.session {
            None => None,
            Some(id) => Some(find_session(desk, id, &task.profile, caller.as_ref()).await?),
        };
        Ok(Self { task, caller, session })
    }

    /// Starts the turn, in the daemon of this home or in this process.
    async fn start(
        self,
        desk: &HomeToolBackend,
    ) -> Result<(SessionId, TurnId, RunningTurn), ToolCallError> {
        match TurnHost::find_daemon(&desk.app).await {
            Some(daemon) => Ok(self.start_in_daemon(daemon).await?),
            None => self.start_locally(desk).await,
        }
    }

    async fn start_in_daemon(
        self,
        daemon: DaemonClient,
    ) -> Result<(SessionId, TurnId, RunningTurn), CommandError> {
        let session = if let Some(known) = self.session {
            known
        } else {
            let new = NewSessionRequest {
                profile: Some(self.task.profile.clone()),
                caller_cwd: self.cwd(),
                title: Some(self.title()),
                ..NewSessionRequest::default()
            };
            daemon.create_session(&new).await?.id
        };
        let caller = self.caller.as_ref();
        let turn = DelegatedTurn {
            input: &self.task.task,
            // The owner sees pending approvals in the daemon, and decides there.
            can_ask: caller.is_none_or(|caller| caller.can_ask),
            can_park: false,
            delegated_by: caller.map(|caller| caller.session.id.to_string()),
            max_cost_usd: caller.and_then(|caller| caller.remaining_cost_usd),
        };
        let turn = daemon.delegate(session, &turn).await?.id;
        let events = daemon.hold_turn(turn).await?;
        Ok((session, turn, RunningTurn::in_daemon(daemon, turn, events)))
    }

    async fn start_locally(
        self,
        desk: &HomeToolBackend,
    ) -> Result<(SessionId, TurnId, RunningTurn), ToolCallError> {
        let local = desk.local().await?;
        let session = if let Some(known) = self.session {
            known
        } else {
            let wanted = ProfileRequest {
                profile: Some(self.task.profile.as_str().into()),
                caller_cwd: self.cwd(),
                ..ProfileRequest::default()
            };
            let spec = local.profiles.resolve(wanted).await;
            let new = NewSession {
                spec: spec.map_err(CommandError::from)?,
                title: Some(self.title().into()),
                name: None,
            };
            let session = local.engine.create_session(new).await;
            session.map_err(CommandError::from)?.id
        };
        let caller = self.caller.as_ref();
        let options = TurnOptions {
            caller: caller.map(|caller| lineage::caller_name(caller.session.id)),
            max_cost_usd: caller.and_then(|caller| caller.remaining_cost_usd),
            ..TurnOptions::new(TurnOrigin::Remote)
        };
        let input = vec![Content::text(self.task.task)];
        let submitted = local.engine.submit(session, input, options).await;
        let submitted = submitted.map_err(CommandError::from)?;
        let turn = submitted.turn;
        let running = RunningTurn::local(local.engine.clone(), turn, submitted.watch);
        Ok((session, turn, running))
    }

    /// Returns the directory for a profile that names none.
    fn cwd(&self) -> Option<std::path::PathBuf> {
        match &self.caller {
            Some(caller) => Some(caller.session.spec.cwd.clone()),
            None => std::env::current_dir().ok(),
        }
    }

    fn title(&self) -> String {
        let words = self.task.task.lines().find(|line| !line.trim().is_empty());
        let words = words.unwrap_or_default().chars();
        let words: String = words.filter(|c| !c.is_control()).take(60).collect();
        format!("delegated: {words}")
    }
}

fn not_listed_error(wanted: &str, profile: &str, allowed: &[&str]) -> ToolCallError {
    let what = format!("profile `{profile}` may not hand work to `{wanted}`");
    ToolCallError::new(what).with_hint(match allowed {
        [] => "it may hand work to nobody (delegate_to is empty)".to_owned(),
        some => format!("it may to: {}", some.join(", ")),
    })
}

/// Checks that the target profile may do nothing that the calling session may not. The
/// configuration was checked when it was loaded, but the session may have started under another
/// configuration, in another folder.
fn check_privileges(
    desk: &HomeToolBackend,
    target: &str,
    caller: &DelegatingSession,
) -> Result<(), ToolCallError> {
    let app = &desk.app;
    let call = ResolveContext {
        environment: &app.environment,
        home: &app.home,
        named_cwd: None,
        caller_cwd: Some(&caller.session.spec.cwd),
        at_terminal: false,
    };
    let own = Privileges::of(&caller.session.spec);
    let refused = |what: &dyn std::fmt::Display| ToolCallError::new(what.to_string());
    for name in app.config.with_fallbacks(target) {
        let specs = app.config.resolve(Some(name), &call);
        for spec in specs.map_err(|error| refused(&error))? {
            if let Some(more) = Privileges::of(&spec).excess_over(&own) {
                return Err(excess_error(target, &more));
            }
        }
    }
    Ok(())
}

fn excess_error(target: &str, more: &str) -> ToolCallError {
    let what = format!("`{target}` may do more than this session: {more}");
    ToolCallError::new(what).with_hint("do it yourself, or choose another profile")
}

/// Returns an earlier session of the same profile; for an agent, only one that it started itself.
async fn find_session(
    desk: &HomeToolBackend,
    id: &str,
    profile: &str,
    caller: Option<&DelegatingSession>,
) -> Result<SessionId, ToolCallError> {
    let unknown = || {
        ToolCallError::new(format!("there is no session `{id}` to go on with"))
            .with_hint("leave `session` out to begin one")
    };
    let id: SessionId = id.parse().map_err(|_| unknown())?;
    let store = &*desk.local().await?.store;
    let session: SessionRecord = store.session(id).await?.ok_or_else(unknown)?;
    if let Some(caller) = caller {
        let own = caller.session.id;
        if id == own || !lineage::is_same_or_descendant(store, id, own).await? {
            return Err(unknown());
        }
        if let Some(more) =
            Privileges::of(&session.spec).excess_over(&Privileges::of(&caller.session.spec))
        {
            return Err(excess_error(profile, &more));
        }
    }
    if &*session.spec.profile != profile {
        let has = &session.spec.profile;
        return Err(ToolCallError::new(format!("the session is of profile `{has}`")));
    }
    Ok(id)
}

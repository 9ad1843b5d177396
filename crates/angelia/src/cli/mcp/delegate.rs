//! Runs a turn on another profile: checks whether the caller may delegate to it, and starts it in
//! the daemon or in this process.

use angelia_core::{
    engine::NewSession,
    model::{Content, Origin, SessionId, SessionRecord, TurnId, TurnOptions},
    ports::{Profiles as _, Wanted},
};
use angelia_frontends::mcp::{Answer, Progress, Refused, arguments::Task, lineage};
use tokio_util::sync::CancellationToken;

use super::{
    desk::{AT_ONCE, HomeDesk},
    follow::{answer, follow},
};
use crate::{
    cli::{
        error::CommandError,
        run::{Place, RunningTurn},
    },
    client::{Daemon, DelegatedTurn, NewSessionRequest},
    config::Call,
    delegation::{Caller, Reach},
};

pub(super) async fn run(
    desk: &HomeDesk,
    task: Task,
    progress: Progress,
    stop: CancellationToken,
) -> Result<Answer, Refused> {
    if task.task.trim().is_empty() {
        return Err(Refused::new("task: there is nothing to do"));
    }
    let caller = match desk.starter.session(&desk.app)? {
        None => None,
        Some(session) => {
            let store = &*desk.local().await?.store;
            Some(Caller::look_up(store, session).await?)
        }
    };
    let mut order = Order::check(desk, task, caller).await?;
    // Callers with a cost limit share what is left of it, so their turns run one after the other:
    // each takes all slots.
    let places = match &order.caller {
        Some(caller) if caller.cost_usd.is_some() => AT_ONCE,
        _ => 1,
    };
    let waited = tokio::select! {
        permit = desk.running.acquire_many(places) => permit,
        () = stop.cancelled() => return Err(Refused::new("given up before it began")),
    };
    let _permit = waited.map_err(|_| Refused::new("angelia mcp is ending"))?;
    // Turns that ran while this one waited have spent part of the limit, so it is read again.
    if let Some(caller) = &mut order.caller
        && caller.cost_usd.is_some()
    {
        let store = &*desk.local().await?.store;
        *caller = Caller::look_up(store, caller.session.id).await?;
    }
    let until = order.caller.as_ref().and_then(|caller| caller.until);
    let (session, id, turn) = order.begin(desk).await?;
    let (outcome, ended) = follow(turn, until, &progress, &stop).await?;
    Ok(answer(session, id, &outcome, ended))
}

/// A task that the caller is allowed to delegate.
struct Order {
    task: Task,
    caller: Option<Caller>,
    session: Option<SessionId>,
}

impl Order {
    async fn check(desk: &HomeDesk, task: Task, caller: Option<Caller>) -> Result<Self, Refused> {
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
            return Err(not_listed(&task.profile, profile, &allowed));
        }
        if let Some(caller) = &caller {
            if caller.depth >= lineage::DEEPEST {
                let what = format!(
                    "this work has been handed on {} times already, and no further",
                    caller.depth
                );
                return Err(Refused::new(what).with_hint("do it yourself"));
            }
            check_reach(desk, &task.profile, caller)?;
        }
        let session = match &task.session {
            None => None,
            Some(id) => Some(known(desk, id, &task.profile, caller.as_ref()).await?),
        };
        Ok(Self { task, caller, session })
    }

    /// Starts the turn, in the daemon of this home or in this process.
    async fn begin(self, desk: &HomeDesk) -> Result<(SessionId, TurnId, RunningTurn), Refused> {
        match Place::daemon(&desk.app).await {
            Some(daemon) => Ok(self.begin_in(daemon).await?),
            None => self.begin_here(desk).await,
        }
    }

    async fn begin_in(
        self,
        daemon: Daemon,
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
            max_cost_usd: caller.and_then(|caller| caller.cost_usd),
        };
        let turn = daemon.delegate(session, &turn).await?.id;
        let events = daemon.hold(turn).await?;
        Ok((session, turn, RunningTurn::in_daemon(daemon, turn, events)))
    }

    async fn begin_here(
        self,
        desk: &HomeDesk,
    ) -> Result<(SessionId, TurnId, RunningTurn), Refused> {
        let local = desk.local().await?;
        let session = if let Some(known) = self.session {
            known
        } else {
            let wanted = Wanted {
                profile: Some(self.task.profile.as_str().into()),
                caller_cwd: self.cwd(),
                ..Wanted::default()
            };
            let spec = local.profiles.spec(wanted).await;
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
            max_cost_usd: caller.and_then(|caller| caller.cost_usd),
            ..TurnOptions::new(Origin::Remote)
        };
        let input = vec![Content::text(self.task.task)];
        let submitted = local.engine.submit(session, input, options).await;
        let submitted = submitted.map_err(CommandError::from)?;
        let turn = submitted.turn;
        let running = RunningTurn::here(local.engine.clone(), turn, submitted.watch);
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

fn not_listed(wanted: &str, profile: &str, allowed: &[&str]) -> Refused {
    let what = format!("profile `{profile}` may not hand work to `{wanted}`");
    Refused::new(what).with_hint(match allowed {
        [] => "it may hand work to nobody (delegate_to is empty)".to_owned(),
        some => format!("it may to: {}", some.join(", ")),
    })
}

/// Checks that the target profile may do nothing that the calling session may not. The
/// configuration was checked when it was loaded, but the session may have started under another
/// configuration, in another folder.
fn check_reach(desk: &HomeDesk, target: &str, caller: &Caller) -> Result<(), Refused> {
    let app = &desk.app;
    let call = Call {
        environment: &app.environment,
        home: &app.home,
        named_cwd: None,
        caller_cwd: Some(&caller.session.spec.cwd),
        at_terminal: false,
    };
    let own = Reach::of(&caller.session.spec);
    let refused = |what: &dyn std::fmt::Display| Refused::new(what.to_string());
    for name in app.config.with_fallbacks(target) {
        let specs = app.config.resolve(Some(name), &call);
        for spec in specs.map_err(|error| refused(&error))? {
            if let Some(more) = Reach::of(&spec).beyond(&own) {
                return Err(wider(target, &more));
            }
        }
    }
    Ok(())
}

fn wider(target: &str, more: &str) -> Refused {
    let what = format!("`{target}` may do more than this session: {more}");
    Refused::new(what).with_hint("do it yourself, or choose another profile")
}

/// Returns an earlier session of the same profile; for an agent, only one that it started itself.
async fn known(
    desk: &HomeDesk,
    id: &str,
    profile: &str,
    caller: Option<&Caller>,
) -> Result<SessionId, Refused> {
    let unknown = || {
        Refused::new(format!("there is no session `{id}` to go on with"))
            .with_hint("leave `session` out to begin one")
    };
    let id: SessionId = id.parse().map_err(|_| unknown())?;
    let store = &*desk.local().await?.store;
    let session: SessionRecord = store.session(id).await?.ok_or_else(unknown)?;
    if let Some(caller) = caller {
        let own = caller.session.id;
        if id == own || !lineage::is_below(store, id, own).await? {
            return Err(unknown());
        }
        if let Some(more) = Reach::of(&session.spec).beyond(&Reach::of(&caller.session.spec)) {
            return Err(wider(profile, &more));
        }
    }
    if &*session.spec.profile != profile {
        let has = &session.spec.profile;
        return Err(Refused::new(format!("the session is of profile `{has}`")));
    }
    Ok(id)
}

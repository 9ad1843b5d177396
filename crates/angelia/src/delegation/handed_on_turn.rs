//! Runs a turn with another profile: checks whether the caller may delegate to it, and starts the turn in the
//! daemon or in this process.

use std::sync::Arc;

use angelia_core::{
    model::{Content, SessionId, SessionRecord, SessionSource, TurnId, TurnOrigin},
    ports::{DelegateResult, DelegatedWork, Store},
};
use angelia_frontends::{
    http::{NewSessionBody, TurnBody, TurnInput},
    mcp::{ProgressReporter, ToolCallError, lineage},
    turn_service::{TurnService, TurnSubmission},
};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{
    DelegatingSession,
    follow::{follow, to_answer},
    policy,
};
use crate::{
    assemble::App,
    cli::{error::CommandError, run::RunningTurn},
};

/// Maximum number of turns that one client or session may have delegated at once. Further ones wait.
pub(crate) const MAX_CONCURRENT_TURNS: u32 = 4;

/// The caller that delegates work.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Delegator<'a> {
    Session(SessionId),
    /// One of the owner's clients, which may do what this profile may.
    Owner {
        profile: &'a str,
    },
}

/// Delegates work for one caller.
pub(crate) struct DelegationDesk<'a> {
    pub(crate) app: &'a App,
    pub(crate) store: &'a dyn Store,
    /// The caller's [`MAX_CONCURRENT_TURNS`] slots.
    pub(crate) slots: &'a Semaphore,
    pub(crate) caller: Delegator<'a>,
    /// Whether the owner sees the approvals of the turn and can decide them.
    pub(crate) can_ask: bool,
}

impl DelegationDesk<'_> {
    /// Runs the work to its end. `turns` resolves to the service that runs the turn.
    pub(crate) async fn hand_on(
        &self,
        work: DelegatedWork,
        turns: impl Future<Output = Result<Arc<dyn TurnService>, ToolCallError>>,
        progress: &ProgressReporter,
        stop: &CancellationToken,
    ) -> Result<DelegateResult, ToolCallError> {
        if work.task.trim().is_empty() {
            return Err(ToolCallError::new("task: there is nothing to do"));
        }
        let caller = match self.caller {
            Delegator::Owner { .. } => None,
            Delegator::Session(session) => {
                Some(DelegatingSession::load(self.store, session).await?)
            }
        };
        let mut order = Delegation::check(self, work, caller).await?;
        // The delegated turns of a caller with a cost limit share what is left of it, so they run one after
        // the other: each takes all slots.
        let places = match &order.caller {
            Some(caller) if caller.remaining_cost_usd.is_some() => MAX_CONCURRENT_TURNS,
            _ => 1,
        };
        let waited = tokio::select! {
            permit = self.slots.acquire_many(places) => permit,
            () = stop.cancelled() => return Err(ToolCallError::new("given up before it began")),
        };
        let _permit = waited.map_err(|_| ToolCallError::new("angelia is ending"))?;
        // Turns that ran while this one waited have spent part of the limit, so read it again.
        if let Some(caller) = &mut order.caller
            && caller.remaining_cost_usd.is_some()
        {
            *caller = DelegatingSession::load(self.store, caller.session.id).await?;
        }
        let until = order.caller.as_ref().and_then(|caller| caller.deadline);
        let service = turns.await?;
        let can_ask = self.can_ask || service.is_shared();
        let StartedTurn { session, id, turn } = order.start(service, can_ask).await?;
        let (outcome, ended) = follow(turn, until, progress, stop).await?;
        Ok(to_answer(session, id, &outcome, ended))
    }
}

struct StartedTurn {
    session: SessionId,
    id: TurnId,
    turn: RunningTurn,
}

/// A task that the caller is allowed to delegate.
struct Delegation {
    work: DelegatedWork,
    caller: Option<DelegatingSession>,
    session: Option<SessionId>,
}

impl Delegation {
    async fn check(
        desk: &DelegationDesk<'_>,
        work: DelegatedWork,
        caller: Option<DelegatingSession>,
    ) -> Result<Self, ToolCallError> {
        if let Some(caller) = &caller {
            policy::check_profile(desk.app, caller, &work.profile)?;
        }
        if let Delegator::Owner { profile } = desk.caller {
            let allowed = desk.app.config.all_delegates(profile);
            policy::check_listed(&work.profile, profile, &allowed)?;
        }
        let session = match &work.session {
            None => None,
            Some(id) => Some(find_session(desk.store, id, &work.profile, caller.as_ref()).await?),
        };
        Ok(Self { work, caller, session })
    }

    async fn start(
        self,
        service: Arc<dyn TurnService>,
        can_ask: bool,
    ) -> Result<StartedTurn, CommandError> {
        let session = if let Some(known) = self.session {
            known
        } else {
            let new = NewSessionBody {
                profile: Some(self.work.profile.as_str().into()),
                caller_cwd: self.cwd(),
                title: Some(self.title().into()),
                source: Some(SessionSource::Agent.to_string()),
                ..NewSessionBody::default()
            };
            service.create_session(new, false).await?.id
        };
        let caller = self.caller.as_ref();
        let body = TurnBody {
            // In a daemon, the owner sees pending approvals and decides them.
            can_ask: Some(can_ask && caller.is_none_or(|caller| caller.can_ask)),
            can_park: Some(false),
            delegated_by: caller.map(|caller| caller.session.id.to_string()),
            max_cost_usd: caller.and_then(|caller| caller.remaining_cost_usd),
            one_off: false,
            input: TurnInput(vec![Content::text(self.work.task)]),
        };
        let origin = TurnOrigin::Remote;
        let submission = TurnSubmission { session, body, origin, key: None, hold: true };
        let accepted = service.submit(submission).await?;
        let id = accepted.turn;
        Ok(StartedTurn { session, id, turn: RunningTurn::new(service, accepted, false) })
    }

    /// Returns the directory for a profile that names none.
    fn cwd(&self) -> Option<std::path::PathBuf> {
        match &self.caller {
            Some(caller) => Some(caller.session.spec.cwd.clone()),
            None => std::env::current_dir().ok(),
        }
    }

    fn title(&self) -> String {
        let words = self.work.task.lines().find(|line| !line.trim().is_empty());
        let words = words.unwrap_or_default().chars();
        let words: String = words.filter(|c| !c.is_control()).take(60).collect();
        format!("delegated: {words}")
    }
}

/// Returns an earlier session of the same profile. For an agent, it must have started the session itself.
async fn find_session(
    store: &dyn Store,
    id: &str,
    profile: &str,
    caller: Option<&DelegatingSession>,
) -> Result<SessionId, ToolCallError> {
    let unknown = || {
        ToolCallError::new(format!("there is no session `{id}` to continue"))
            .with_hint("leave `session` out to begin one")
    };
    let id: SessionId = id.parse().map_err(|_| unknown())?;
    let session: SessionRecord = store.session(id).await?.ok_or_else(unknown)?;
    if let Some(caller) = caller {
        let own = caller.session.id;
        if id == own || !lineage::is_same_or_descendant(store, id, own).await? {
            return Err(unknown());
        }
        policy::check_spec(caller, &session.spec)?;
    }
    if &*session.spec.profile != profile {
        let has = &session.spec.profile;
        return Err(ToolCallError::new(format!("the session belongs to profile `{has}`")));
    }
    Ok(id)
}

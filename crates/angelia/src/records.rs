//! The recorded sessions, turns and approvals, for commands that only read, and the schedules. Such commands
//! ask the daemon if there is one; otherwise they open the store and start nothing.

mod lost_turns;
mod schedules;

use std::{path::Path, sync::Arc};

use angelia_core::{
    engine::{EngineError, short_id},
    model::{
        ApprovalId, ExternalName, IdPrefix, SearchQuery, SessionId, TurnEvent, TurnId, TurnRecord,
        UsageQuery,
    },
    ports::{
        ApprovalFilter, AuditQuery, Page, RecordKind, SessionFilter, SessionOrder, SessionQuery,
        Store, StoreError, TurnFilter,
    },
};
use angelia_frontends::{
    http::{
        resources::{
            ApprovalResource, AuditResource, DaemonResource, QuotaResource, SearchResource,
            SessionResource, StatusResource, TurnResource, UsageResource,
        },
        today_begins,
    },
    turn_service::{TurnErrorKind, TurnService},
};
use uuid::Uuid;

use self::lost_turns::LostTurns;

use crate::{
    assemble::{App, HomeStore},
    cli::{agent_use::ensure_owner_works_alone, error::CommandError},
    client::DaemonClient,
    home_turns::running_daemon,
};

/// Number of records that one query reads when all records are needed.
pub(crate) const PAGE_SIZE: usize = 256;

pub(crate) enum Records {
    Daemon(DaemonClient),
    Store(Arc<dyn Store>),
}

impl Records {
    pub(crate) async fn open(app: &App) -> Result<Self, CommandError> {
        if let Some(daemon) = running_daemon(app).await {
            return Ok(Self::Daemon(daemon));
        }
        ensure_owner_works_alone(&app.environment)?;
        Ok(Self::Store(HomeStore::open_for_reading(app, "show")?))
    }

    /// Returns the turns that any of the owner's processes can decide: those of the daemon.
    pub(crate) fn shared_turns(&self) -> Option<&dyn TurnService> {
        match self {
            Self::Daemon(daemon) => Some(daemon),
            Self::Store(_) => None,
        }
    }

    pub(crate) async fn session(&self, id: SessionId) -> Result<SessionResource, CommandError> {
        let found = self.find_session(id).await?;
        found.ok_or_else(|| EngineError::NotFound("session").into())
    }

    /// Returns the session with this id, if there is one.
    pub(crate) async fn find_session(
        &self,
        id: SessionId,
    ) -> Result<Option<SessionResource>, CommandError> {
        match self {
            Self::Daemon(daemon) => match daemon.session(id).await {
                Ok(session) => Ok(Some(session)),
                Err(error) if error.kind == TurnErrorKind::NotFound => Ok(None),
                Err(error) => Err(error.into()),
            },
            Self::Store(store) => {
                let found = list_sessions(&**store, SessionQuery::One(id)).await?;
                Ok(found.into_iter().next())
            }
        }
    }

    /// Returns the session with the name that the owner gave it.
    pub(crate) async fn session_named(
        &self,
        name: &str,
    ) -> Result<Option<SessionResource>, CommandError> {
        match self {
            Self::Daemon(daemon) => Ok(daemon.find_session(name).await?),
            Self::Store(store) => {
                let scope = ExternalName::OWNER_SCOPE.into();
                let name = ExternalName { scope, name: name.into() };
                match store.find_by_name(&name).await? {
                    Some(id) => self.find_session(id).await,
                    None => Ok(None),
                }
            }
        }
    }

    /// Lists the sessions of one directory or of all, most recently used first.
    pub(crate) async fn sessions_by_use(
        &self,
        cwd: Option<&Path>,
        page: Page,
    ) -> Result<Vec<SessionResource>, CommandError> {
        match self {
            Self::Daemon(daemon) => Ok(daemon.sessions_by_use(cwd, page).await?),
            Self::Store(store) => {
                let cwd = cwd.map(Path::to_path_buf);
                list_sessions(&**store, SessionQuery::last_used(cwd, page)).await
            }
        }
    }

    /// Lists the sessions that match the filter, most recently used first.
    pub(crate) async fn find_sessions(
        &self,
        filter: SessionFilter,
        page: Page,
    ) -> Result<Vec<SessionResource>, CommandError> {
        match self {
            Self::Daemon(daemon) => Ok(daemon.find_sessions(&filter, page).await?),
            Self::Store(store) => {
                let statuses = filter.statuses.clone();
                let query = SessionQuery::Find { filter, order: SessionOrder::Used, page };
                let mut found = list_sessions(&**store, query).await?;
                // A turn that was running when its process died has failed, although its record does not say
                // so yet.
                found.retain(|session| {
                    let is_wanted = |status: &str| statuses.iter().any(|one| **one == *status);
                    statuses.is_empty() || session.status.as_deref().is_some_and(is_wanted)
                });
                Ok(found)
            }
        }
    }

    /// Returns up to `limit` sessions whose ids have this prefix.
    pub(crate) async fn sessions_starting(
        &self,
        start: &str,
        limit: usize,
    ) -> Result<Vec<SessionResource>, CommandError> {
        match self {
            Self::Daemon(daemon) => {
                Ok(daemon.find_by_prefix("/api/sessions", start, limit).await?)
            }
            Self::Store(store) => {
                let mut found = Vec::new();
                for id in ids_starting(&**store, RecordKind::Session, start, limit).await? {
                    found.extend(self.find_session(SessionId::from_uuid(id)).await?);
                }
                Ok(found)
            }
        }
    }

    pub(crate) async fn turns_starting(
        &self,
        start: &str,
        limit: usize,
    ) -> Result<Vec<TurnResource>, CommandError> {
        match self {
            Self::Daemon(daemon) => Ok(daemon.find_by_prefix("/api/turns", start, limit).await?),
            Self::Store(store) => {
                let mut found = Vec::new();
                for id in ids_starting(&**store, RecordKind::Turn, start, limit).await? {
                    found.extend(store.turn(TurnId::from_uuid(id)).await?);
                }
                Ok(to_turns(&**store, &found).await?)
            }
        }
    }

    pub(crate) async fn approvals_starting(
        &self,
        start: &str,
        limit: usize,
    ) -> Result<Vec<ApprovalResource>, CommandError> {
        match self {
            Self::Daemon(daemon) => {
                Ok(daemon.find_by_prefix("/api/approvals", start, limit).await?)
            }
            Self::Store(store) => {
                let mut found = Vec::new();
                for id in ids_starting(&**store, RecordKind::Approval, start, limit).await? {
                    found.push(self.approval(ApprovalId::from_uuid(id)).await?);
                }
                Ok(found)
            }
        }
    }

    /// Returns rows of the audit log.
    pub(crate) async fn audit(
        &self,
        query: AuditQuery,
    ) -> Result<Vec<AuditResource>, CommandError> {
        match self {
            Self::Daemon(daemon) => Ok(daemon.audit(query).await?),
            Self::Store(store) => Ok(store.audit(query).await?.iter().map(Into::into).collect()),
        }
    }

    pub(crate) async fn turn(&self, id: TurnId) -> Result<TurnResource, CommandError> {
        match self {
            Self::Daemon(daemon) => Ok(daemon.turn(id).await?),
            Self::Store(store) => match store.turn(id).await? {
                Some(turn) => {
                    let lost = LostTurns::find(&**store, std::iter::once(&turn)).await?;
                    let mut resource = (&turn).into();
                    lost.mark_turn(&mut resource);
                    Ok(resource)
                }
                None => Err(EngineError::NotFound("turn").into()),
            },
        }
    }

    /// Returns turns of one session or of all.
    pub(crate) async fn turns(
        &self,
        session: Option<SessionId>,
        page: Page,
    ) -> Result<Vec<TurnResource>, CommandError> {
        match self {
            Self::Daemon(daemon) => Ok(daemon.turns(session, page).await?),
            Self::Store(store) => {
                let found = store.turns(session, page).await?;
                Ok(to_turns(&**store, &found).await?)
            }
        }
    }

    pub(crate) async fn all_turns(
        &self,
        session: SessionId,
    ) -> Result<Vec<TurnResource>, CommandError> {
        let mut turns: Vec<TurnResource> = Vec::new();
        loop {
            let before = turns.last().map(|turn| turn.id.as_uuid());
            let older = self.turns(Some(session), Page { limit: PAGE_SIZE, before }).await?;
            if older.is_empty() {
                return Ok(turns);
            }
            turns.extend(older);
        }
    }

    /// Returns the whole status or, without a daemon, the part that is in the record.
    pub(crate) async fn status(&self) -> Result<StatusResource, CommandError> {
        let store = match self {
            Self::Daemon(daemon) => return Ok(daemon.status().await?),
            Self::Store(store) => store,
        };
        let mut unfinished =
            store.find_turns(TurnFilter::unfinished(), Page::first(PAGE_SIZE)).await?;
        let lost = LostTurns::find(&**store, unfinished.iter()).await?;
        unfinished.retain(|turn| !lost.contains(turn.id));
        let today = UsageQuery { from: today_begins(), ..UsageQuery::default() };
        Ok(StatusResource {
            daemon: DaemonResource::default(),
            agents: Vec::new(),
            max_agents: None,
            turns: to_resources(&unfinished),
            approvals: self.approvals(ApprovalFilter::Pending, Page::first(PAGE_SIZE)).await?,
            schedules: StatusResource::waiting_schedules(self.schedules().await?),
            bus: None,
            channels: Vec::new(),
            quotas: self.quotas().await?,
            usage_today: self.usage(today).await?.into_iter().next().unwrap_or_default(),
        })
    }

    pub(crate) async fn usage(
        &self,
        query: UsageQuery,
    ) -> Result<Vec<UsageResource>, CommandError> {
        match self {
            Self::Daemon(daemon) => Ok(daemon.usage(query).await?),
            Self::Store(store) => Ok(to_resources(&store.usage(query).await?)),
        }
    }

    pub(crate) async fn quotas(&self) -> Result<Vec<QuotaResource>, CommandError> {
        match self {
            Self::Daemon(daemon) => Ok(daemon.quotas().await?),
            Self::Store(store) => Ok(to_resources(&store.quotas().await?)),
        }
    }

    /// Searches the texts of conversations. Returns one match per session, newest first.
    pub(crate) async fn search(
        &self,
        words: &str,
        query: SearchQuery,
    ) -> Result<Vec<SearchResource>, CommandError> {
        let store = match self {
            Self::Daemon(daemon) => return Ok(daemon.search(words, query.limit).await?),
            Self::Store(store) => store,
        };
        let mut found = Vec::new();
        for one in store.search(query).await? {
            let session = store.session(one.session).await?;
            let title = session.as_ref().and_then(|session| session.title.as_deref());
            found.push(SearchResource::new(&one, title));
        }
        Ok(found)
    }

    /// Returns the recorded events of a finished turn.
    pub(crate) async fn events(&self, turn: TurnId) -> Result<Vec<TurnEvent>, CommandError> {
        let mut events = Vec::new();
        match self {
            Self::Daemon(daemon) => {
                let mut source = daemon.watch(turn).await?;
                while let Some(batch) = source.next().await? {
                    events.extend(batch.iter().cloned());
                }
            }
            Self::Store(store) => loop {
                let after = events.last().map_or(0, |event: &TurnEvent| event.seq);
                let page = store.replay(turn, after, PAGE_SIZE).await?;
                if page.is_empty() {
                    break;
                }
                events.extend(page);
            },
        }
        Ok(events)
    }

    pub(crate) async fn approvals(
        &self,
        which: ApprovalFilter,
        page: Page,
    ) -> Result<Vec<ApprovalResource>, CommandError> {
        match self {
            Self::Daemon(daemon) => Ok(daemon.approvals(which, page).await?),
            Self::Store(store) => {
                let mut approvals = Vec::new();
                for record in store.approvals(which, page).await? {
                    let session = store.session(record.session).await?;
                    let mut approval = ApprovalResource::new(&record, session.as_ref());
                    let id = approval.id.as_uuid();
                    approval.short_id = Some(short_id(&**store, RecordKind::Approval, id).await?);
                    approvals.push(approval);
                }
                Ok(approvals)
            }
        }
    }

    pub(crate) async fn approval(&self, id: ApprovalId) -> Result<ApprovalResource, CommandError> {
        let page = Page::starting_at(id.as_uuid());
        let mut found = self.approvals(ApprovalFilter::All, page).await?.into_iter();
        found.find(|approval| approval.id == id).ok_or_else(|| {
            CommandError::from(EngineError::NotFound("approval"))
                .with_hint("`angelia approvals list --all` prints all of them")
        })
    }
}

/// Reads sessions with their short ids.
async fn list_sessions(
    store: &dyn Store,
    query: SessionQuery,
) -> Result<Vec<SessionResource>, CommandError> {
    let found = store.list_sessions(query).await?;
    let mut sessions: Vec<SessionResource> = found.iter().map(SessionResource::from).collect();
    LostTurns::mark_sessions(store, &mut sessions).await?;
    for session in &mut sessions {
        let short = short_id(store, RecordKind::Session, session.id.as_uuid()).await?;
        session.short_id = Some(short);
    }
    Ok(sessions)
}

async fn to_turns(
    store: &dyn Store,
    found: &[TurnRecord],
) -> Result<Vec<TurnResource>, StoreError> {
    let mut turns: Vec<TurnResource> = found.iter().map(TurnResource::from).collect();
    let lost = LostTurns::find(store, found.iter()).await?;
    for turn in &mut turns {
        lost.mark_turn(turn);
        turn.short_id = Some(short_id(store, RecordKind::Turn, turn.id.as_uuid()).await?);
    }
    Ok(turns)
}

async fn ids_starting(
    store: &dyn Store,
    kind: RecordKind,
    start: &str,
    limit: usize,
) -> Result<Vec<Uuid>, StoreError> {
    match IdPrefix::parse(start) {
        Some(prefix) => store.find_ids(kind, prefix, limit).await,
        None => Ok(Vec::new()),
    }
}

fn to_resources<'a, Record, Resource>(records: &'a [Record]) -> Vec<Resource>
where
    Resource: From<&'a Record>,
{
    records.iter().map(Resource::from).collect()
}

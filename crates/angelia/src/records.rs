//! The recorded sessions, turns and approvals, for commands that only read. They ask the daemon, if
//! there is one; otherwise they open the store, and start nothing.

use std::sync::Arc;

use angelia_core::{
    engine::EngineError,
    model::{ApprovalId, SessionId, TurnId},
    ports::{ApprovalFilter, AuditQuery, Page, Store},
};
use angelia_frontends::{
    http::resources::{ApprovalResource, AuditResource, SessionResource, TurnResource},
    turn_service::TurnService,
};

use crate::{
    assemble::{App, HomeStore},
    cli::{agent_use::ensure_owner_works_alone, error::CommandError},
    client::DaemonClient,
    home_turns::find_daemon,
};

/// How many records one query reads where all records are needed.
pub(crate) const PAGE_SIZE: usize = 256;

pub(crate) enum Records {
    Daemon(DaemonClient),
    Store(Arc<dyn Store>),
}

impl Records {
    pub(crate) async fn open(app: &App) -> Result<Self, CommandError> {
        if let Some(daemon) = find_daemon(app).await {
            return Ok(Self::Daemon(daemon));
        }
        ensure_owner_works_alone(&app.environment)?;
        Ok(Self::Store(HomeStore::open(app, "show")?.store))
    }

    /// Returns the turns that any process of the owner can decide: those of the daemon.
    pub(crate) fn shared_turns(&self) -> Option<&dyn TurnService> {
        match self {
            Self::Daemon(daemon) => Some(daemon),
            Self::Store(_) => None,
        }
    }

    pub(crate) async fn session(&self, id: SessionId) -> Result<SessionResource, CommandError> {
        match self {
            Self::Daemon(daemon) => Ok(daemon.session(id).await?),
            Self::Store(store) => match store.session(id).await? {
                Some(session) => Ok((&session).into()),
                None => Err(EngineError::NotFound("session").into()),
            },
        }
    }

    /// Returns rows of the audit.
    pub(crate) async fn audit(
        &self,
        query: AuditQuery,
    ) -> Result<Vec<AuditResource>, CommandError> {
        match self {
            Self::Daemon(daemon) => Ok(daemon.audit(query).await?),
            Self::Store(store) => Ok(store.audit(query).await?.iter().map(Into::into).collect()),
        }
    }

    /// Newest first, like every list here.
    pub(crate) async fn sessions(&self, page: Page) -> Result<Vec<SessionResource>, CommandError> {
        match self {
            Self::Daemon(daemon) => Ok(daemon.sessions(page).await?),
            Self::Store(store) => Ok(to_resources(&store.sessions(page).await?)),
        }
    }

    pub(crate) async fn turn(&self, id: TurnId) -> Result<TurnResource, CommandError> {
        match self {
            Self::Daemon(daemon) => Ok(daemon.turn(id).await?),
            Self::Store(store) => match store.turn(id).await? {
                Some(turn) => Ok((&turn).into()),
                None => Err(EngineError::NotFound("turn").into()),
            },
        }
    }

    /// Returns turns of one session, or of all.
    pub(crate) async fn turns(
        &self,
        session: Option<SessionId>,
        page: Page,
    ) -> Result<Vec<TurnResource>, CommandError> {
        match self {
            Self::Daemon(daemon) => Ok(daemon.turns(session, page).await?),
            Self::Store(store) => Ok(to_resources(&store.turns(session, page).await?)),
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

    pub(crate) async fn approvals(
        &self,
        which: ApprovalFilter,
        page: Page,
    ) -> Result<Vec<ApprovalResource>, CommandError> {
        match self {
            Self::Daemon(daemon) => Ok(daemon.approvals(which, page).await?),
            Self::Store(store) => Ok(to_resources(&store.approvals(which, page).await?)),
        }
    }

    pub(crate) async fn approval(&self, id: ApprovalId) -> Result<ApprovalResource, CommandError> {
        let page = Page::starting_at(id.as_uuid());
        let mut found = self.approvals(ApprovalFilter::All, page).await?.into_iter();
        found.find(|approval| approval.id == id).ok_or_else(|| {
            CommandError::from(EngineError::NotFound("approval"))
                .with_hint("`angelia approvals list --all` prints those there are")
        })
    }
}

fn to_resources<'a, Record, Resource>(records: &'a [Record]) -> Vec<Resource>
where
    Resource: From<&'a Record>,
{
    records.iter().map(Resource::from).collect()
}

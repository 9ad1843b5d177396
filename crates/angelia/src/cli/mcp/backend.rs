//! Implements the MCP tools on this home.

use std::{sync::Arc, time::Duration};

use angelia_core::ports::{BoxFuture, DelegateProfile, DelegateResult, DelegatedWork, Store};
use angelia_frontends::{
    mcp::{
        ProgressReporter, SERVER_NAME, ToolBackend, ToolCallError, Visibility, VisibleRecords,
        arguments::{BusSendArgs, DelegateArgs},
    },
    turn_service::{SpecOverrides, TurnService},
};
use tokio::{
    sync::{OnceCell, Semaphore},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::bus;
use crate::{
    assemble::{App, HomeStore, LocalEngine},
    cli::error::CommandError,
    delegation::{DelegationDesk, Delegator, MAX_CONCURRENT_TURNS, ProcessOrigin},
    home_turns::find_daemon,
};

/// How long interrupted turns may take to end after the client has disconnected.
const TURN_END_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) struct HomeToolBackend {
    pub(super) app: Arc<App>,
    pub(super) origin: ProcessOrigin,
    /// The profile whose `delegate_to` applies to the owner's own clients.
    pub(super) profile: String,
    /// Opened on first use.
    opened: OnceCell<HomeStore>,
    /// Started on first use, for turns while no daemon runs.
    local: OnceCell<LocalEngine>,
    turn_slots: Semaphore,
}

impl HomeToolBackend {
    pub(super) fn new(app: &Arc<App>, profile: String) -> Self {
        Self {
            app: Arc::clone(app),
            origin: ProcessOrigin::detect(app),
            profile,
            opened: OnceCell::new(),
            local: OnceCell::new(),
            turn_slots: Semaphore::new(MAX_CONCURRENT_TURNS as usize),
        }
    }

    async fn opened(&self) -> Result<&HomeStore, ToolCallError> {
        let open = || async { HomeStore::open(&self.app, "mcp") };
        Ok(self.opened.get_or_try_init(open).await?)
    }

    /// Returns the store, for reading.
    pub(super) async fn store(&self) -> Result<&Arc<dyn Store>, ToolCallError> {
        Ok(&self.opened().await?.store)
    }

    /// Returns the turn service of the daemon if one runs now, or that of an engine in this
    /// process.
    pub(super) async fn turns(&self) -> Result<Arc<dyn TurnService>, ToolCallError> {
        if let Some(daemon) = find_daemon(&self.app).await {
            return Ok(Arc::new(daemon));
        }
        let opened = self.opened().await?;
        let start = || LocalEngine::start_on(opened.clone(), &self.app, false);
        Ok(self.local.get_or_try_init(start).await?.turns(SpecOverrides::default()))
    }

    /// Waits for the turns that are being interrupted, then stops the local engine.
    pub(super) async fn close(&self) {
        // Every delegated turn holds a slot, so all slots are free once all turns have ended.
        let all =
            timeout(TURN_END_TIMEOUT, self.turn_slots.acquire_many(MAX_CONCURRENT_TURNS)).await;
        if all.is_err() {
            tracing::warn!("some turns did not end in time");
        }
        self.turn_slots.close();
        if let Some(local) = self.local.get() {
            local.stop().await;
        }
    }
}

impl ToolBackend for HomeToolBackend {
    fn check_permission<'a>(&'a self, tool: &'a str) -> BoxFuture<'a, Result<(), ToolCallError>> {
        Box::pin(async move {
            // The owner's own clients ask the owner themselves. The tool itself refuses a caller
            // whose session is unknown.
            let Ok(Some(id)) = self.origin.session(&self.app) else {
                return Ok(());
            };
            let Some(session) = self.store().await?.session(id).await? else {
                return Ok(());
            };
            let name = format!("mcp__{SERVER_NAME}__{tool}");
            let permissions = &session.spec.permissions;
            permissions.denial_reason(&name).map_or(Ok(()), |why| {
                Err(ToolCallError::new(format!("this may not be used here: {why}")))
            })
        })
    }

    fn delegates(&self) -> Vec<DelegateProfile> {
        let config = &self.app.config;
        config.delegate_profiles(config.all_delegates(&self.profile))
    }

    fn records(&self) -> BoxFuture<'_, Result<VisibleRecords, ToolCallError>> {
        Box::pin(async move {
            let visibility = match self.origin.session(&self.app)? {
                None => Visibility::Everything,
                Some(session) => Visibility::SessionTree(session),
            };
            let store = Arc::clone(self.store().await?);
            Ok(VisibleRecords { store, visibility })
        })
    }

    fn delegate(
        &self,
        task: DelegateArgs,
        progress: ProgressReporter,
        stop: CancellationToken,
    ) -> BoxFuture<'_, Result<DelegateResult, ToolCallError>> {
        Box::pin(async move {
            let desk = DelegationDesk {
                app: &self.app,
                store: &**self.store().await?,
                slots: &self.turn_slots,
                caller: match self.origin.session(&self.app)? {
                    Some(session) => Delegator::Session(session),
                    None => Delegator::Owner { profile: &self.profile },
                },
                can_ask: false,
            };
            let DelegateArgs { profile, task, session } = task;
            let work = DelegatedWork { profile, task, session };
            desk.hand_on(work, self.turns(), &progress, &stop).await
        })
    }

    fn bus_send(&self, message: BusSendArgs) -> BoxFuture<'_, Result<String, ToolCallError>> {
        Box::pin(bus::send(self, message))
    }

    fn bus_status(&self) -> BoxFuture<'_, Result<String, ToolCallError>> {
        Box::pin(bus::status(self))
    }

    fn bus_info(&self) -> BoxFuture<'_, Result<String, ToolCallError>> {
        Box::pin(bus::info(self))
    }
}

impl From<CommandError> for ToolCallError {
    fn from(error: CommandError) -> Self {
        Self { message: error.message, hint: error.hint }
    }
}

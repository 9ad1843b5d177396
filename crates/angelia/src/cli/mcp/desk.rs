//! Implements the MCP tools on this home.

use std::{sync::Arc, time::Duration};

use angelia_core::ports::BoxFuture;
use angelia_frontends::mcp::{
    Answer, Delegate, Desk, Progress, Records, Refused, SERVER, Sight,
    arguments::{BusSend, Task},
};
use tokio::{
    sync::{OnceCell, Semaphore},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{bus, delegate};
use crate::{
    assemble::{App, Local},
    cli::error::CommandError,
    delegation::Starter,
};

/// How many turns one client may have delegated at once; further ones wait.
pub(super) const AT_ONCE: u32 = 4;

/// How long interrupted turns get to end after the client has disconnected.
const LAST_TURNS: Duration = Duration::from_secs(30);

pub(super) struct HomeDesk {
    pub(super) app: Arc<App>,
    pub(super) starter: Starter,
    /// The profile whose `delegate_to` applies to the owner's own clients.
    pub(super) profile: String,
    /// Started on first use: for the record, and for turns when no daemon runs.
    local: OnceCell<Local>,
    pub(super) running: Semaphore,
}

impl HomeDesk {
    pub(super) fn new(app: &Arc<App>, profile: String) -> Self {
        Self {
            app: Arc::clone(app),
            starter: Starter::find(app),
            profile,
            local: OnceCell::new(),
            running: Semaphore::new(AT_ONCE as usize),
        }
    }

    pub(super) async fn local(&self) -> Result<&Local, Refused> {
        let start = || Local::start(&self.app, "mcp", false);
        Ok(self.local.get_or_try_init(start).await?)
    }

    /// Waits for the turns that are being interrupted, then stops the local engine.
    pub(super) async fn close(&self) {
        // Every delegated turn holds a slot, so all slots are free when all turns have ended.
        let all = timeout(LAST_TURNS, self.running.acquire_many(AT_ONCE)).await;
        if all.is_err() {
            tracing::warn!("some turns did not end in time");
        }
        self.running.close();
        if let Some(local) = self.local.get() {
            local.close().await;
        }
    }
}

impl Desk for HomeDesk {
    fn permitted<'a>(&'a self, tool: &'a str) -> BoxFuture<'a, Result<(), Refused>> {
        Box::pin(async move {
            // The owner's own clients ask the owner themselves. A caller whose session is unknown
            // is refused by the tool itself.
            let Ok(Some(id)) = self.starter.session(&self.app) else {
                return Ok(());
            };
            let Some(session) = self.local().await?.store.session(id).await? else {
                return Ok(());
            };
            let name = format!("mcp__{SERVER}__{tool}");
            let permissions = &session.spec.permissions;
            permissions.refusal(&name, None).map_or(Ok(()), |why| {
                Err(Refused::new(format!("this may not be used here: {why}")))
            })
        })
    }

    fn delegates(&self) -> Vec<Delegate> {
        let names = self.app.config.all_delegates(&self.profile);
        let summaries = self.app.config.summaries();
        let known = names
            .iter()
            .filter_map(|name| summaries.iter().find(|summary| &*summary.name == *name));
        known
            .map(|profile| Delegate {
                name: Arc::clone(&profile.name),
                about: match &profile.model {
                    Some(model) => format!("{} {model}", profile.executor),
                    None => profile.executor.to_string(),
                },
            })
            .collect()
    }

    fn records(&self) -> BoxFuture<'_, Result<Records, Refused>> {
        Box::pin(async move {
            let sight = match self.starter.session(&self.app)? {
                None => Sight::Everything,
                Some(session) => Sight::From(session),
            };
            let store = Arc::clone(&self.local().await?.store);
            Ok(Records { store, sight })
        })
    }

    fn delegate(
        &self,
        task: Task,
        progress: Progress,
        stop: CancellationToken,
    ) -> BoxFuture<'_, Result<Answer, Refused>> {
        Box::pin(delegate::run(self, task, progress, stop))
    }

    fn send(&self, message: BusSend) -> BoxFuture<'_, Result<String, Refused>> {
        Box::pin(bus::send(self, message))
    }

    fn bus_status(&self) -> BoxFuture<'_, Result<String, Refused>> {
        Box::pin(bus::status(self))
    }

    fn bus_info(&self) -> BoxFuture<'_, Result<String, Refused>> {
        Box::pin(bus::info(self))
    }
}

impl From<CommandError> for Refused {
    fn from(error: CommandError) -> Self {
        Self { message: error.message, hint: error.hint }
    }
}

//! The running app-server processes, one per [`AppServerSpec`]. A process is started on first use,
//! shared by all threads with the same specification, and replaced after it has exited.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use angelia_core::model::Failure;
use futures_util::future::join_all;

use super::{app_server::AppServer, launch::AppServerSpec};
use crate::host::ExecutorHost;

/// How long a process has to exit at shutdown.
const GRACE: Duration = Duration::from_secs(4);

type ServerSlot = Arc<tokio::sync::Mutex<Option<AppServer>>>;

#[derive(Debug, Default)]
pub(super) struct AppServerPool {
    slots: Mutex<HashMap<AppServerSpec, ServerSlot>>,
}

impl AppServerPool {
    /// Returns a process for `shape` that accepts threads. Starts one if there is none.
    pub(super) async fn get(
        &self,
        host: &ExecutorHost,
        shape: &AppServerSpec,
    ) -> Result<AppServer, Failure> {
        let slot = self.slot(shape);
        // Concurrent callers wait here for the same start.
        let mut current = slot.lock().await;
        if let Some(server) = current.as_ref() {
            if server.accepts_threads() {
                return Ok(server.clone());
            }
            if !server.is_running() {
                // A process locks its open conversations; wait until the locks are released.
                server.wait_gone().await;
            }
        }
        let server = AppServer::start(host, shape).await?;
        *current = Some(server.clone());
        Ok(server)
    }

    fn slot(&self, shape: &AppServerSpec) -> ServerSlot {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(slots.entry(shape.clone()).or_default())
    }

    pub(super) async fn close(&self) {
        let slots: Vec<ServerSlot> = {
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            slots.drain().map(|(_, slot)| slot).collect()
        };
        let closing = slots.into_iter().map(|slot| async move {
            if let Some(server) = slot.lock().await.take() {
                server.close(GRACE).await;
            }
        });
        join_all(closing).await;
    }
}

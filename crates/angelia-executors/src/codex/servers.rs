//! The running processes, one per shape: started by the first who needs it, shared by everybody
//! else, and replaced when it has ended.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use angelia_core::model::Failure;
use futures_util::future::join_all;

use super::{launch::Shape, server::Server};
use crate::host::Host;

/// What a process gets to end by itself when everything ends.
const GRACE: Duration = Duration::from_secs(4);

type Slot = Arc<tokio::sync::Mutex<Option<Server>>>;

#[derive(Debug, Default)]
pub(super) struct Servers {
    slots: Mutex<HashMap<Shape, Slot>>,
}

impl Servers {
    /// A process of this shape that takes threads.
    pub(super) async fn get(&self, host: &Host, shape: &Shape) -> Result<Server, Failure> {
        let slot = self.slot(shape);
        // Whoever comes meanwhile waits for the same start.
        let mut current = slot.lock().await;
        if let Some(server) = current.as_ref() {
            if server.takes_threads() {
                return Ok(server.clone());
            }
            if !server.is_open() {
                // Conversations are locked by the process that has them open.
                server.gone().await;
            }
        }
        let server = Server::start(host, shape).await?;
        *current = Some(server.clone());
        Ok(server)
    }

    fn slot(&self, shape: &Shape) -> Slot {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(slots.entry(shape.clone()).or_default())
    }

    pub(super) async fn close(&self) {
        let slots: Vec<Slot> = {
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

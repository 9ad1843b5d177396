//! Ends the processes that a thread has started. Commands and MCP servers of a thread carry a
//! process mark of the thread's own, not that of the app-server process they share. So they are
//! ended with their session, although the app-server lives on.

use std::{mem, path::PathBuf, time::Duration};

use angelia_core::{
    model::{Failure, SessionId},
    task::Tasks,
};

use crate::{
    host::Host,
    process::{Mark, bound::Bound, sweep::sweep_agent},
};

/// The time between asking the processes to exit and killing them.
const GRACE: Duration = Duration::from_millis(500);

/// Owns the process mark of one thread. Dropping it ends the marked processes in the background.
#[derive(Debug)]
pub(super) struct Leash {
    mark: Mark,
    ledger: PathBuf,
    tasks: Tasks,
    is_held: bool,
    bound: Option<Bound>,
}

impl Leash {
    pub(super) fn new(host: &Host) -> Result<Self, Failure> {
        Ok(Self {
            mark: host.fresh_mark()?,
            ledger: host.ledger.clone(),
            tasks: host.tasks.clone(),
            is_held: true,
            bound: None,
        })
    }

    /// Records which session the marked processes belong to, so that Angelia's own programs among
    /// them can look it up.
    pub(super) fn bind(&mut self, host: &Host, session: SessionId) {
        self.bound = Some(host.bind(&self.mark, session));
    }

    pub(super) fn mark(&self) -> &Mark {
        &self.mark
    }

    /// Ends every process that carries the mark.
    pub(super) async fn pull(mut self) {
        self.is_held = false;
        let swept = sweep_agent(&self.mark, &self.ledger, GRACE).await;
        if !swept.is_empty() {
            tracing::debug!(?swept, "ended processes that a thread left behind");
        }
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        let has_runtime = tokio::runtime::Handle::try_current().is_ok();
        if mem::take(&mut self.is_held) && has_runtime {
            let (mark, ledger) = (self.mark.clone(), self.ledger.clone());
            self.tasks.spawn(async move {
                sweep_agent(&mark, &ledger, GRACE).await;
            });
        }
    }
}

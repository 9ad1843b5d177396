//! What holds a thread's own processes together. Commands and MCP servers of a thread carry a mark of
//! its own, and not that of the process they share: so that nothing outlives its session, although
//! the process does.

use std::{mem, path::PathBuf, time::Duration};

use angelia_core::{
    model::{Failure, SessionId},
    task::Tasks,
};

use crate::{
    host::Host,
    process::{Mark, bound::Bound, sweep::sweep_agent},
};

/// Between asking and killing.
const GRACE: Duration = Duration::from_millis(500);

/// Dropped, it ends them in the background.
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

    /// Tells programs of ours on it which session they are of.
    pub(super) fn bind(&mut self, host: &Host, session: SessionId) {
        self.bound = Some(host.bind(&self.mark, session));
    }

    pub(super) fn mark(&self) -> &Mark {
        &self.mark
    }

    /// Ends everything on it.
    pub(super) async fn pull(mut self) {
        self.is_held = false;
        let swept = sweep_agent(&self.mark, &self.ledger, GRACE).await;
        if !swept.is_empty() {
            tracing::debug!(?swept, "a thread had left processes behind");
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

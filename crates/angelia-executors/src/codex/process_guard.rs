//! Ends the processes that a thread has started. A thread's commands and MCP servers carry the
//! thread's own process mark, not that of the app-server process that they share, so they end with
//! their session although the app-server keeps running.

use std::{mem, path::PathBuf, time::Duration};

use angelia_core::{
    model::{Failure, SessionId},
    task::TaskGroup,
};

use crate::{
    host::ExecutorHost,
    process::{ProcessMark, session_binding::SessionBinding, sweep::sweep_agent},
};

/// The time between asking the processes to exit and killing them.
const GRACE: Duration = Duration::from_millis(500);

/// Owns the process mark of one thread. Dropping it ends the marked processes in the background.
#[derive(Debug)]
pub(super) struct ProcessGuard {
    mark: ProcessMark,
    ledger: PathBuf,
    tasks: TaskGroup,
    is_armed: bool,
    session_binding: Option<SessionBinding>,
}

impl ProcessGuard {
    pub(super) fn new(host: &ExecutorHost) -> Result<Self, Failure> {
        Ok(Self {
            mark: host.fresh_mark()?,
            ledger: host.ledger.clone(),
            tasks: host.tasks.clone(),
            is_armed: true,
            session_binding: None,
        })
    }

    /// Records which session the marked processes belong to, so that Angelia's own programs among
    /// them can look it up.
    pub(super) fn bind_session(&mut self, host: &ExecutorHost, session: SessionId) {
        self.session_binding = Some(host.bind_session(&self.mark, session));
    }

    pub(super) fn mark(&self) -> &ProcessMark {
        &self.mark
    }

    /// Ends every process that carries the mark.
    pub(super) async fn end_processes(mut self) {
        self.is_armed = false;
        let swept = sweep_agent(&self.mark, &self.ledger, GRACE).await;
        if !swept.is_empty() {
            tracing::debug!(?swept, "ended processes that a thread left behind");
        }
    }
}

impl Drop for ProcessGuard {
    fn drop(&mut self) {
        let has_runtime = tokio::runtime::Handle::try_current().is_ok();
        if mem::take(&mut self.is_armed) && has_runtime {
            let (mark, ledger) = (self.mark.clone(), self.ledger.clone());
            self.tasks.spawn(async move {
                sweep_agent(&mark, &ledger, GRACE).await;
            });
        }
    }
}

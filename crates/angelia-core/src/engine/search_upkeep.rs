//! Keeps the search index complete and free of deleted words, without slowing down turns.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::{sync::broadcast::error::RecvError, time::sleep};

use super::{engine_state::EngineState, facade::Engine};
use crate::ports::SearchUpkeep;

/// Delay after a change, and between two checks for running turns.
const QUIET_DELAY: Duration = Duration::from_secs(2);
/// Delay between two steps, so that other writers get a chance to write.
const STEP_DELAY: Duration = Duration::from_millis(5);
/// Delay after a failed step.
const RETRY_DELAY: Duration = Duration::from_mins(1);

impl Engine {
    /// Indexes new texts whenever no turn runs. Runs for as long as the engine lives.
    pub async fn keep_search_complete(&self) {
        let mut changes = self.subscribe_changes();
        loop {
            sleep(QUIET_DELAY).await;
            while self.shared.count_logs().turns.running == 0 {
                match self.shared.store.maintain_search().await {
                    Ok(SearchUpkeep::Complete) => match changes.recv().await {
                        Ok(_) | Err(RecvError::Lagged(_)) => break,
                        Err(RecvError::Closed) => return,
                    },
                    Ok(_) => sleep(STEP_DELAY).await,
                    Err(error) => {
                        tracing::debug!(%error, "the search could not be completed");
                        sleep(RETRY_DELAY).await;
                    }
                }
            }
        }
    }
}

impl EngineState {
    /// Removes the traces of deleted words in the background. A shutdown waits for it.
    pub(super) fn purge_deleted_words(self: &Arc<Self>) {
        if self.is_purging.swap(true, Ordering::AcqRel) {
            return;
        }
        let state = Arc::clone(self);
        self.tasks.spawn(async move {
            loop {
                state.purge().await;
                state.is_purging.store(false, Ordering::Release);
                // A session may have been deleted since the last step.
                let left = state.store.maintain_search().await;
                let has_more = matches!(left, Ok(SearchUpkeep::HasDeletedWords));
                if !has_more || state.is_purging.swap(true, Ordering::AcqRel) {
                    return;
                }
            }
        });
    }

    async fn purge(&self) {
        loop {
            match self.store.maintain_search().await {
                Ok(SearchUpkeep::HasDeletedWords) => sleep(STEP_DELAY).await,
                Ok(_) => return,
                Err(error) => {
                    // The next deletion retries this, and so does the daemon.
                    tracing::debug!(%error, "deleted words are still in the index");
                    return;
                }
            }
        }
    }
}

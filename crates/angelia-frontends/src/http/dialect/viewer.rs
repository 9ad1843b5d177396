//! Somebody who waits for an answer. When the last one who streams it leaves before its end, the
//! turn is interrupted after a grace, unless somebody has come back by then; who does not stream
//! lets it finish.

use std::sync::Arc;

use angelia_core::model::TurnId;

use crate::http::ApiState;

#[derive(Debug)]
pub(super) struct Viewer {
    state: Arc<ApiState>,
    turn: TurnId,
    saw_the_end: bool,
}

impl Viewer {
    pub(super) fn enter(state: &Arc<ApiState>, turn: TurnId, streams: bool) -> Self {
        state.recent.enters(turn, !streams);
        Self { state: Arc::clone(state), turn, saw_the_end: false }
    }

    /// The answer is over.
    pub(super) fn leave_for_good(mut self) {
        self.saw_the_end = true;
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        if !self.state.recent.leaves(self.turn, self.saw_the_end) {
            return;
        }
        let (state, turn) = (Arc::clone(&self.state), self.turn);
        self.state.tasks.spawn_until_stopped(async move {
            tokio::time::sleep(state.models.disconnect_grace).await;
            if state.recent.is_watched(turn) {
                return;
            }
            tracing::debug!(%turn, "nobody streams this turn any more; it is interrupted");
            if let Err(error) = state.engine.interrupt(turn, false).await {
                tracing::debug!(%turn, %error, "the turn had ended by itself");
            }
        });
    }
}

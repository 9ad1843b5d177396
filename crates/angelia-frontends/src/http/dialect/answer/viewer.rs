//! A client that waits for an answer. If the last streaming client of a turn disconnects before the
//! end, the turn is interrupted after a grace period, unless a client has returned by then. A
//! client without streaming lets the turn finish.

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
    pub(super) fn attach(state: &Arc<ApiState>, turn: TurnId, streams: bool) -> Self {
        state.recent_requests.add_viewer(turn, !streams);
        Self { state: Arc::clone(state), turn, saw_the_end: false }
    }

    /// Records that the client has seen the end of the answer.
    pub(super) fn finish(mut self) {
        self.saw_the_end = true;
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        if !self.state.recent_requests.remove_viewer(self.turn, self.saw_the_end) {
            return;
        }
        let (state, turn) = (Arc::clone(&self.state), self.turn);
        self.state.tasks.spawn_until_stopped(async move {
            tokio::time::sleep(state.models.current().disconnect_grace).await;
            if state.recent_requests.has_viewers(turn) {
                return;
            }
            tracing::debug!(%turn, "last streaming client left; interrupting the turn");
            state.interrupt(turn).await;
        });
    }
}

//! Turns whose process was killed. The next process that may write records them as failed; until
//! then, commands that only read the store show them as failed without recording it.

use angelia_core::{
    engine::lost_turn_failure,
    model::{TurnId, TurnRecord, TurnState},
    ports::{Store, StoreError},
};
use angelia_frontends::{
    event_json::FailureJson,
    http::resources::{SessionResource, TurnResource},
};

const FAILED: &str = "failed";
/// The states of turns that a process works on or has in its queue.
const OPEN: [&str; 4] = ["queued", "running", "awaiting_approval", "awaiting_tool_result"];

pub(super) struct LostTurns(Vec<TurnRecord>);

impl LostTurns {
    /// Finds the lost turns, unless all of `among` have ended.
    pub(super) async fn find<'a>(
        store: &dyn Store,
        mut among: impl Iterator<Item = &'a TurnRecord>,
    ) -> Result<Self, StoreError> {
        let is_any_open = among.any(|turn| !matches!(turn.state, TurnState::Finished { .. }));
        let lost = if is_any_open { store.lost_turns().await? } else { Vec::new() };
        Ok(Self(lost))
    }

    pub(super) fn contains(&self, turn: TurnId) -> bool {
        self.0.iter().any(|lost| lost.id == turn)
    }

    pub(super) fn mark_turn(&self, turn: &mut TurnResource) {
        if let Some(lost) = self.0.iter().find(|lost| lost.id == turn.id) {
            FAILED.clone_into(&mut turn.status);
            turn.failure = Some(FailureJson(lost_turn_failure(lost)));
        }
    }

    /// Marks the sessions whose newest turn is lost.
    pub(super) async fn mark_sessions(
        store: &dyn Store,
        sessions: &mut [SessionResource],
    ) -> Result<(), StoreError> {
        let is_open = |session: &&mut SessionResource| {
            session.status.as_deref().is_some_and(|status| OPEN.contains(&status))
        };
        let open: Vec<_> = sessions.iter_mut().filter(is_open).collect();
        if open.is_empty() {
            return Ok(());
        }
        let lost = store.lost_turns().await?;
        for session in open {
            if lost.iter().any(|turn| turn.session == session.id) {
                session.status = Some(FAILED.to_owned());
            }
        }
        Ok(())
    }
}

//! Opens an agent for a turn. If the agent has lost the session's conversation, it gets a new one
//! that starts from the recorded conversation, and a notice in the turn says so.

use std::sync::Arc;

use tokio::time::Instant;

use super::{
    engine_state::EngineState,
    history::{self, ConversationEnd, StoredConversation},
    recorder::Recorder,
    session_actor::{LiveAgent, SessionActor},
    turn_runner::{SHUTDOWN_REASON, TurnGovernor, interrupted_outcome, store_failure},
};
use crate::{
    model::{
        EventKind, HistoryMessage, NativeSessionId, Notice, NoticeLevel, SessionRecord,
        SessionSource, SessionSpec, Turn, TurnId,
    },
    ports::{Agent, AgentOutcome, ConversationError, OpenRequest, StoreError},
};

/// Code of the notice for a turn whose agent had lost its conversation and got the recorded one
/// instead.
pub const HISTORY_CARRIED_NOTICE: &str = "history_carried";

/// Code of the notice for a turn whose agent does not know the conversation so far.
pub const RESUME_LOST_NOTICE: &str = "resume_lost";

impl SessionActor {
    pub(super) async fn open_agent(
        &mut self,
        turn: &Turn,
        recorder: &mut Recorder,
        governor: &mut TurnGovernor,
    ) -> Result<LiveAgent, AgentOutcome> {
        let fingerprint = self.fingerprint.clone();
        let slots = self.shared.agent_slots.clone();
        let session = self.id();
        let slot =
            self.unless_interrupted(turn.id, None, async { slots.acquire(session).await }).await?;
        let Some(slot) = slot else {
            return Err(interrupted_outcome(SHUTDOWN_REASON));
        };
        let record = Arc::clone(&self.record);
        let native = record.native.as_ref().filter(|_| record.spec.resume);
        let is_begun = recorder.has_output();
        let conversation = (&*record, is_begun);
        let opened =
            self.open_conversation(turn.id, &record.spec, native, conversation, governor).await?;
        let agent = match opened {
            Err(ConversationError::Lost) => {
                self.open_from_record(turn, &record, recorder, governor).await?
            }
            opened => opened.map_err(failed_outcome)?,
        };
        Ok(LiveAgent { agent, fingerprint, slot })
    }

    async fn open_conversation(
        &mut self,
        turn: TurnId,
        spec: &SessionSpec,
        native: Option<&NativeSessionId>,
        (session, is_begun): (&SessionRecord, bool),
        governor: &mut TurnGovernor,
    ) -> Result<Result<Box<dyn Agent>, ConversationError>, AgentOutcome> {
        // The timeouts start here: the wait for a slot or for an earlier attempt does not count.
        governor.restart(Instant::now());
        let shared = Arc::clone(&self.shared);
        let record = StoredConversation { store: &*shared.store, session, turn, is_begun };
        let opening = async {
            let executor = shared.executor(&spec.executor)?;
            let is_owners = session.source.as_ref().is_some_and(SessionSource::is_owners);
            let (session, record) = (session.id, &record);
            executor.open(OpenRequest { session, spec, native, is_owners, record }).await
        };
        let rings = governor.watchdog.next_timeout();
        self.unless_interrupted(turn, Some(rings), opening).await
    }

    /// Opens an agent with a new conversation that starts from the recorded one. The session's
    /// specification does not change, because later turns resume the new conversation like any
    /// other.
    async fn open_from_record(
        &mut self,
        turn: &Turn,
        record: &SessionRecord,
        recorder: &mut Recorder,
        governor: &mut TurnGovernor,
    ) -> Result<Box<dyn Agent>, AgentOutcome> {
        let unreadable = |error: StoreError| AgentOutcome::failed(store_failure(&error));
        let history = recorded_history(&self.shared, turn, record, recorder).await;
        let history = history.map_err(unreadable)?;
        let notice = lost_notice(&history);
        let spec = SessionSpec { history, ..record.spec.clone() };
        let conversation = (record, recorder.has_output());
        let opened = self.open_conversation(turn.id, &spec, None, conversation, governor).await?;
        let agent = opened.map_err(failed_outcome)?;
        if let Err(error) = recorder.record(vec![EventKind::Notice(notice)]).await {
            agent.close(self.shared.limits.close_grace).await;
            return Err(unreadable(error));
        }
        Ok(agent)
    }
}

/// Returns the conversation before the agent's next input. Empty if the executor cannot start with
/// a history.
async fn recorded_history(
    shared: &EngineState,
    turn: &Turn,
    record: &SessionRecord,
    recorder: &Recorder,
) -> Result<Vec<HistoryMessage>, StoreError> {
    let executor = shared.executor(&record.spec.executor);
    if !executor.is_ok_and(|executor| executor.capabilities().carry_history) {
        return Ok(Vec::new());
    }
    let store = &*shared.store;
    let mut messages = history::messages(store, record, ConversationEnd::Before(turn.id)).await?;
    // A turn that was cut short gets only "continue" as its next input, so the history needs its
    // output.
    if recorder.has_output() {
        history::append_unfinished_turn(store, turn.id, &mut messages).await?;
    }
    Ok(messages)
}

fn lost_notice(carried: &[HistoryMessage]) -> Notice {
    if carried.is_empty() {
        let text = "the agent no longer has this conversation, and none of it could be carried \
                    over: it does not know what was said before";
        Notice::new(NoticeLevel::Warning, RESUME_LOST_NOTICE, text)
    } else {
        let text = format!(
            "the agent no longer has this conversation; it was carried from the record into a new \
             one ({} messages)",
            carried.len()
        );
        Notice::new(NoticeLevel::Warning, HISTORY_CARRIED_NOTICE, text)
    }
}

fn failed_outcome(error: ConversationError) -> AgentOutcome {
    AgentOutcome::failed(error.into())
}

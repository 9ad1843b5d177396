//! The actor that owns one session in this process: its lease, its queue of turns, its live agent.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use jiff::Timestamp;
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc, oneshot},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    engine_state::EngineState,
    facade::{EngineError, SubmitReply},
    new_turn::NewTurn,
    recorder::{Recorder, TurnCreation},
    session_cache::SessionCache,
    session_command::{SessionCommand, SubmitCommand},
    turn_log::TurnLog,
};
use crate::{
    model::{
        AgentStart, EventKind, LaunchFingerprint, Outcome, SessionId, SessionRecord, Turn, TurnId,
        TurnRecord, TurnState, TurnStatus,
    },
    ports::{Agent, ClaimOutcome, Lease, StoreError},
};

const MAX_QUEUED_COMMANDS: usize = 32;

#[derive(Clone)]
pub(super) struct SessionHandle {
    commands: mpsc::Sender<SessionCommand>,
    ended: CancellationToken,
    pub(super) cache: Arc<SessionCache>,
}

impl SessionHandle {
    /// Starts the actor. Parked turns are queued first.
    pub(super) fn start(
        shared: Arc<EngineState>,
        record: SessionRecord,
        lease: Lease,
        parked: Vec<TurnRecord>,
    ) -> Self {
        let queue: VecDeque<_> = parked.into_iter().map(QueuedTurn::from_parked).collect();
        for QueuedTurn { log, .. } in &queue {
            shared.insert_log(log);
        }
        let (sender, commands) = mpsc::channel(MAX_QUEUED_COMMANDS);
        let tasks = shared.tasks.clone();
        let record = Arc::new(record);
        let known = SessionCache::new(Arc::clone(&record));
        let actor = SessionActor {
            fingerprint: LaunchFingerprint::of(&record.spec),
            cache: Arc::clone(&known),
            stop: tasks.stop_token().child_token(),
            shared,
            record,
            lease,
            commands,
            queue,
            agent: None,
            session_grants: Vec::new(),
            changed_during_turn: false,
            lease_successor: None,
            ended: CancellationToken::new(),
        };
        let ended = actor.ended.clone();
        tasks.spawn(actor.run());
        Self { commands: sender, ended, cache: known }
    }

    pub(super) async fn send(&self, command: SessionCommand) -> Result<(), SessionCommand> {
        self.commands.send(command).await.map_err(|refused| refused.0)
    }

    /// The actor takes no more commands and is about to end.
    pub(super) fn is_ending(&self) -> bool {
        self.commands.is_closed()
    }

    /// Waits until the agent is closed and the lease is released.
    pub(super) async fn wait_ended(&self) {
        self.ended.cancelled().await;
    }
}

pub(super) struct SessionActor {
    pub(super) shared: Arc<EngineState>,
    pub(super) record: Arc<SessionRecord>,
    /// Fingerprint of the current specification.
    pub(super) fingerprint: LaunchFingerprint,
    /// Copy of the record for readers outside the actor.
    cache: Arc<SessionCache>,
    pub(super) lease: Lease,
    pub(super) commands: mpsc::Receiver<SessionCommand>,
    pub(super) queue: VecDeque<QueuedTurn>,
    pub(super) agent: Option<LiveAgent>,
    /// Tools and subjects that a person allowed for the rest of the session.
    pub(super) session_grants: Vec<(Arc<str>, Option<Arc<str>>)>,
    /// The specification was changed during a turn, so the live agent does not match it.
    pub(super) changed_during_turn: bool,
    pub(super) stop: CancellationToken,
    /// Gets the lease when the actor ends.
    lease_successor: Option<oneshot::Sender<Lease>>,
    ended: CancellationToken,
}

pub(super) struct QueuedTurn {
    pub(super) turn: Turn,
    pub(super) log: Arc<TurnLog>,
    /// The turn has run before and waits for a quota until then.
    pub(super) parked_until: Option<Timestamp>,
    /// The turn's record is still being written.
    creation: Option<TurnCreation>,
}

impl QueuedTurn {
    fn from_parked(record: TurnRecord) -> Self {
        let parked = match record.state {
            TurnState::Parked { resumes_at } => Some(resumes_at),
            _ => None,
        };
        let log = TurnLog::new(record.id, record.session);
        let turn = Turn {
            id: record.id,
            session: record.session,
            input: record.input,
            options: record.options,
        };
        Self { turn, log, parked_until: parked, creation: None }
    }
}

pub(super) struct LiveAgent {
    pub(super) agent: Box<dyn Agent>,
    pub(super) fingerprint: LaunchFingerprint,
    /// Permit of the live agent; dropped when the agent is closed.
    pub(super) slot: OwnedSemaphorePermit,
}

impl SessionActor {
    async fn run(mut self) {
        while !self.stop.is_cancelled() {
            if let Some(next) = self.queue.pop_front() {
                self.run_turn(next).await;
            } else if !self.wait_for_work().await {
                break;
            }
        }
        // No new commands from here on; those already in the channel are still served.
        self.commands.close();
        while let Some(command) = self.commands.recv().await {
            self.handle(command, true).await;
        }
        while let Some(next) = self.queue.pop_front() {
            if self.stop.is_cancelled() && next.parked_until.is_some() {
                self.leave_parked(&next.log);
            } else if self.stop.is_cancelled() {
                self.finish_unstarted(next, "angelia was shut down before it started").await;
            } else {
                self.run_turn(next).await;
            }
        }
        self.end().await;
    }

    /// Waits for a command while no turn runs. Returns `false` when the actor should end: idle for
    /// too long, evicted, or shutting down.
    async fn wait_for_work(&mut self) -> bool {
        let session = self.record.id;
        let live = self.agent.is_some();
        let make_room = if live {
            self.shared.agent_slots.mark_idle(session)
        } else {
            CancellationToken::new()
        };
        let too_long = Instant::now() + self.shared.limits.idle_ttl;
        let command = tokio::select! {
            biased;
            command = self.commands.recv() => command,
            () = self.stop.cancelled() => None,
            () = make_room.cancelled() => None,
            () = sleep_until(too_long) => None,
        };
        if live {
            self.shared.agent_slots.mark_busy(session);
        }
        let Some(command) = command else { return false };
        self.handle(command, true).await;
        true
    }

    /// Handles a command that does not concern the running turn, or any command while none runs.
    pub(super) async fn handle(&mut self, command: SessionCommand, idle: bool) {
        match command {
            SessionCommand::Submit(submit) => self.accept_turn(*submit, idle).await,
            SessionCommand::Interrupt { turn, .. } => self.interrupt_queued(turn).await,
            SessionCommand::Decide { reply, .. } => {
                // The sender may have disconnected; the same holds for every reply below.
                let _gone = reply.send(Err(EngineError::NotPending));
            }
            SessionCommand::Steer { reply, .. } => {
                let _gone = reply.send(Err(EngineError::NotRunning));
            }
            SessionCommand::ToolResult { reply, .. } => {
                let _gone = reply.send(Err(EngineError::NotRunning));
            }
            SessionCommand::Respec { respec: change, reply } => {
                let changed = self.apply_respec(change, idle).await;
                let _gone = reply.send(changed);
            }
            SessionCommand::End { reply } => self.end_with_successor(reply),
        }
    }

    pub(super) fn end_with_successor(&mut self, heir: oneshot::Sender<Lease>) {
        self.lease_successor = Some(heir);
        self.stop.cancel();
    }

    /// Records a new turn and queues it, unless an earlier request with the same key created one.
    async fn accept_turn(&mut self, submit: SubmitCommand, idle: bool) {
        let SubmitCommand {
            turn,
            log,
            claim,
            history_hash: found_by,
            show_uncommitted: follows,
            reply,
        } = submit;
        if let Err(refused) = self.check_can_accept() {
            // The submitter may have disconnected.
            let _gone = reply.send(Err(refused));
            return;
        }
        let running = idle && self.queue.is_empty();
        let record = TurnRecord {
            id: turn.id,
            session: turn.session,
            input: turn.input.clone(),
            options: turn.options.clone(),
            created_at: self.shared.clock.now(),
            state: if running { TurnState::Running } else { TurnState::Queued },
        };
        // Register the log before the turn is stored: a repeated request finds the turn in the
        // store and watches it by this log.
        self.shared.insert_log(&log);
        let mut waiting = QueuedTurn { turn, log, parked_until: None, creation: None };
        let mut new = NewTurn::new(record, found_by);
        let store = Arc::clone(&self.shared.store);
        let created = match &claim {
            Some(claim) => new.write_once(&*store, &self.lease, claim).await,
            // The agent is live: start the turn now and write its record meanwhile.
            None if running && self.agent.is_some() => {
                let reply = if follows {
                    let _gone = reply.send(Ok(SubmitReply::Running));
                    None
                } else {
                    Some(reply)
                };
                waiting.creation = Some(TurnCreation { new_turn: new, reply });
                self.enqueue(waiting);
                return;
            }
            None => {
                let written = new.write(&*store, &self.lease).await;
                written.map(|()| ClaimOutcome::New)
            }
        };
        let _gone = reply.send(self.conclude_submit(waiting, running, created));
    }

    fn check_can_accept(&self) -> Result<(), EngineError> {
        let limit = self.shared.limits.max_queued_turns;
        if self.stop.is_cancelled() {
            return Err(EngineError::ShuttingDown);
        }
        if self.queue.len() >= limit {
            return Err(EngineError::QueueFull { limit });
        }
        Ok(())
    }

    fn enqueue(&mut self, waiting: QueuedTurn) {
        let caller = waiting.turn.options.caller.clone();
        self.cache.set_newest_turn(&waiting.log, caller);
        self.queue.push_back(waiting);
    }

    fn conclude_submit(
        &mut self,
        waiting: QueuedTurn,
        running: bool,
        created: Result<ClaimOutcome, StoreError>,
    ) -> Result<SubmitReply, EngineError> {
        let turn = waiting.turn.id;
        let accepted = match created {
            Ok(ClaimOutcome::New) => {
                self.enqueue(waiting);
                return Ok(if running { SubmitReply::Running } else { SubmitReply::Queued });
            }
            Ok(ClaimOutcome::Repeats(known)) => Ok(SubmitReply::AlreadySubmitted(known)),
            Ok(ClaimOutcome::Conflicts(known)) => Err(EngineError::KeyReused(known)),
            Err(error) => {
                self.stop_if_lease_lost(&error);
                Err(error.into())
            }
        };
        self.shared.remove_log(turn);
        accepted
    }

    /// Ends the actor if another process has taken over its lease: it may not write any more.
    pub(super) fn stop_if_lease_lost(&self, error: &StoreError) {
        if matches!(error, StoreError::LeaseLost) {
            self.stop.cancel();
        }
    }

    /// Ends a queued turn.
    pub(super) async fn interrupt_queued(&mut self, turn: TurnId) {
        if let Some(index) = self.queue.iter().position(|waiting| waiting.turn.id == turn)
            && let Some(waiting) = self.queue.remove(index)
        {
            self.finish_unstarted(waiting, "interrupted before it started").await;
        }
    }

    /// Leaves a parked turn to the process that owns the session next.
    pub(super) fn leave_parked(&self, log: &TurnLog) {
        self.cache.clear_newest_turn();
        log.end_watches();
        self.shared.finish_log(log.turn);
    }

    async fn finish_unstarted(&mut self, mut waiting: QueuedTurn, reason: &str) {
        let mut recorder = self.new_recorder(&mut waiting);
        if waiting.parked_until.is_some()
            && let Err(error) = recorder.catch_up().await
        {
            tracing::warn!(turn = %waiting.turn.id, %error, "the turn's events could not be read");
        }
        let outcome = Outcome {
            status: TurnStatus::Interrupted,
            text: recorder.answer(),
            reason: reason.into(),
            usage: recorder.usage(),
        };
        self.finish_turn(&mut recorder, outcome, waiting.turn.id).await;
    }

    pub(super) fn new_recorder(&self, waiting: &mut QueuedTurn) -> Recorder {
        Recorder::new(
            Arc::clone(&self.shared.store),
            Arc::clone(&self.shared.clock),
            self.lease.clone(),
            Arc::clone(&waiting.log),
            waiting.creation.take(),
        )
    }

    /// Records the `Finished` event of a turn. There is exactly one.
    pub(super) async fn finish_turn(
        &mut self,
        recorder: &mut Recorder,
        outcome: Outcome,
        turn: TurnId,
    ) {
        if let Err(error) = recorder.record(vec![EventKind::Finished(outcome.clone())]).await {
            tracing::error!(%turn, %error, "the end of the turn could not be recorded");
            self.cache.clear_newest_turn();
            recorder.publish_unstored(EventKind::Finished(super::turn_runner::unrecorded_outcome(
                outcome, &error,
            )));
        }
        self.shared.finish_log(turn);
        self.shared.notify_changed(self.record.id);
    }

    pub(super) async fn close_agent(&mut self) {
        self.close_agent_within(self.shared.limits.close_grace).await;
    }

    pub(super) async fn close_agent_within(&mut self, grace: Duration) {
        if let Some(live) = self.agent.take() {
            live.agent.close(grace).await;
            drop(live.slot);
        }
    }

    /// Stores the agent's own session id and the model it chose.
    pub(super) async fn store_agent_start(&mut self, started: &AgentStart) {
        let native = (started.native_session_id.as_ref()).or(self.record.native.as_ref());
        let model = self.record.spec.model.as_ref().or(started.model.as_ref());
        if native == self.record.native.as_ref() && model == self.record.spec.model.as_ref() {
            return;
        }
        let mut record = SessionRecord::clone(&self.record);
        record.native = native.cloned();
        record.spec.model = model.cloned();
        record.updated_at = self.shared.clock.now();
        match self.store_record(record).await {
            Ok(record) => drop(self.set_record(record)),
            Err(error) => {
                tracing::warn!(session = %self.id(), %error, "the session could not be stored");
            }
        }
    }

    pub(super) async fn store_record(
        &mut self,
        mut record: SessionRecord,
    ) -> Result<SessionRecord, StoreError> {
        loop {
            match self.shared.store.put_session(&record).await {
                Ok(revision) => return Ok(SessionRecord { revision, ..record }),
                Err(StoreError::Conflict) => {
                    // Another caller changed the title; only the actor writes the other fields.
                    let stored = self.shared.store.session(record.id).await?;
                    let stored = stored.ok_or(StoreError::NotFound("session"))?;
                    record.title = stored.title;
                    record.revision = stored.revision;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Makes `record` the current one and returns the previous one.
    pub(super) fn set_record(&mut self, record: SessionRecord) -> Arc<SessionRecord> {
        let record = Arc::new(record);
        self.cache.set_session(Arc::clone(&record));
        self.fingerprint = LaunchFingerprint::of(&record.spec);
        std::mem::replace(&mut self.record, record)
    }

    async fn end(mut self) {
        self.close_agent().await;
        match self.lease_successor.take() {
            Some(heir) => {
                let _gone = heir.send(self.lease);
            }
            None => {
                if let Err(error) = self.shared.store.release_lease(self.lease).await {
                    tracing::debug!(%error, "the session's lease could not be released");
                }
            }
        }
        self.shared.remove_actor(self.record.id);
        self.ended.cancel();
    }

    pub(super) fn id(&self) -> SessionId {
        self.record.id
    }
}

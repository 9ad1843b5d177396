//! The actor that owns one session in this process: its lease, its turn queue and its live agent.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use jiff::Timestamp;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    agent_slots::AgentSlot,
    approvals::TURN_ENDED,
    changes::EngineChange,
    engine_state::EngineState,
    facade::EngineError,
    recorder::{EndError, Recorder},
    session_command::SessionCommand,
    spend::SpendReservation,
    turn_log::TurnLog,
    turn_runner::{far_future, unrecorded_outcome},
    unwritten_end::UnwrittenEnds,
};
use crate::{
    model::{
        AgentStart, EventKind, GrantRule, LaunchFingerprint, Outcome, SessionId, SessionRecord,
        Turn, TurnId, TurnRecord, TurnState, TurnStatus,
    },
    ports::{Agent, Lease, StoreError},
};

const MAX_QUEUED_COMMANDS: usize = 32;

/// Delays before each attempt to release the lease. If all attempts fail, the session stays locked
/// until this process exits.
const LEASE_RETRY_DELAYS: [Duration; 3] =
    [Duration::ZERO, Duration::from_millis(50), Duration::from_millis(250)];

#[derive(Clone)]
pub(super) struct SessionHandle {
    commands: mpsc::Sender<SessionCommand>,
    ended: CancellationToken,
    record: watch::Receiver<Arc<SessionRecord>>,
}

impl SessionHandle {
    /// Starts the actor. Turns that were parked or handed over to this process are queued first.
    pub(super) fn start(
        shared: Arc<EngineState>,
        record: SessionRecord,
        lease: Lease,
        left: Vec<TurnRecord>,
    ) -> Self {
        let queue: VecDeque<_> = left.into_iter().map(QueuedTurn::from_record).collect();
        for QueuedTurn { log, .. } in &queue {
            shared.insert_log(log);
        }
        let (sender, commands) = mpsc::channel(MAX_QUEUED_COMMANDS);
        let tasks = shared.tasks.clone();
        let record = Arc::new(record);
        let (published_record, record_watch) = watch::channel(Arc::clone(&record));
        let actor = SessionActor {
            fingerprint: LaunchFingerprint::of(&record.spec),
            published_record,
            stop: tasks.stop_token().child_token(),
            shared,
            record,
            lease,
            commands,
            queue,
            agent: None,
            is_one_off: false,
            session_grants: Vec::new(),
            changed_during_turn: false,
            has_unstored_record: false,
            unwritten_ends: UnwrittenEnds::default(),
            lease_successor: None,
            ended: CancellationToken::new(),
        };
        let ended = actor.ended.clone();
        tasks.spawn(actor.run());
        Self { commands: sender, ended, record: record_watch }
    }

    pub(super) async fn send(&self, command: SessionCommand) -> Result<(), SessionCommand> {
        self.commands.send(command).await.map_err(|refused| refused.0)
    }

    /// Returns the session in the state that its next turn will use. Only the actor changes it,
    /// except for the title.
    pub(super) fn record(&self) -> Arc<SessionRecord> {
        Arc::clone(&self.record.borrow())
    }

    /// Returns whether the actor accepts no more commands and is about to end.
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
    published_record: watch::Sender<Arc<SessionRecord>>,
    pub(super) lease: Lease,
    pub(super) commands: mpsc::Receiver<SessionCommand>,
    pub(super) queue: VecDeque<QueuedTurn>,
    pub(super) agent: Option<LiveAgent>,
    /// Whether the last turn was a one-off.
    pub(super) is_one_off: bool,
    /// The rules that a person has granted for the rest of the session.
    pub(super) session_grants: Vec<GrantRule>,
    /// Whether the specification changed during a turn, so that the live agent no longer matches
    /// it.
    pub(super) changed_during_turn: bool,
    /// Whether the store failed to write the current record.
    has_unstored_record: bool,
    /// Turn ends that the store failed to write. The lease is kept until they are written.
    pub(super) unwritten_ends: UnwrittenEnds,
    pub(super) stop: CancellationToken,
    /// Receives the lease when the actor ends.
    lease_successor: Option<oneshot::Sender<Lease>>,
    ended: CancellationToken,
}

pub(super) struct QueuedTurn {
    pub(super) turn: Turn,
    pub(super) log: Arc<TurnLog>,
    /// The turn's own cost limit. The recorded limit also takes the rest of the caller's spending
    /// limit into account.
    pub(super) max_cost_usd: Option<f64>,
    pub(super) spend: Option<Arc<SpendReservation>>,
    /// Set if the turn has run before and waits for a quota until this time.
    pub(super) parked_until: Option<Timestamp>,
    /// Whether the store already lists the turn as running.
    pub(super) was_running: bool,
    /// The session is not expected to continue afterwards.
    pub(super) one_off: bool,
}

impl QueuedTurn {
    fn from_record(record: TurnRecord) -> Self {
        let parked_until = match record.state {
            TurnState::Parked { resumes_at } => Some(resumes_at),
            _ => None,
        };
        let log = TurnLog::new(record.id, record.session);
        let max_cost_usd = record.options.max_cost_usd;
        Self {
            turn: record.into(),
            log,
            max_cost_usd,
            spend: None,
            parked_until,
            was_running: false,
            one_off: false,
        }
    }
}

pub(super) struct LiveAgent {
    pub(super) agent: Box<dyn Agent>,
    pub(super) fingerprint: LaunchFingerprint,
    /// Dropped when the agent is closed.
    pub(super) slot: AgentSlot,
}

impl SessionActor {
    async fn run(mut self) {
        while !self.stop.is_cancelled() {
            if !self.queue.is_empty() {
                // If this fails, it is retried later.
                let _kept = self.write_kept_ends().await;
            }
            if self.must_hold_queue() {
                self.hold_queue().await;
            } else if let Some(next) = self.queue.pop_front() {
                self.run_turn(next).await;
            } else if !self.wait_for_work().await {
                break;
            }
        }
        // Accept no new commands from here on, but serve those already in the channel.
        self.commands.close();
        while let Some(command) = self.commands.recv().await {
            self.handle(command, true).await;
        }
        while let Some(next) = self.queue.pop_front() {
            if self.stop.is_cancelled() && next.parked_until.is_some() {
                self.leave_turn(&next.log);
            } else if self.stop.is_cancelled() && self.is_handing_over() {
                self.hand_over(next).await;
            } else if self.stop.is_cancelled() {
                self.finish_unstarted(next, "angelia was shut down before it started").await;
            } else {
                self.run_turn(next).await;
            }
        }
        self.end().await;
    }

    /// Returns whether the next turn must wait because of a drain. A turn that the store already
    /// lists as running was accepted before the drain.
    fn must_hold_queue(&self) -> bool {
        self.shared.drain.is_draining() && self.queue.front().is_some_and(|next| !next.was_running)
    }

    /// Waits until turns may start again or a command arrives, and handles the command.
    async fn hold_queue(&mut self) {
        let shared = Arc::clone(&self.shared);
        let command = tokio::select! {
            biased;
            command = self.commands.recv() => command,
            () = self.stop.cancelled() => None,
            () = shared.drain.wait_until_over() => None,
        };
        if let Some(command) = command {
            self.handle(command, false).await;
        }
    }

    /// Returns whether this shutdown leaves the queued turns to the next process. That is not the
    /// case if only this session ends, because it is being deleted.
    pub(super) fn is_handing_over(&self) -> bool {
        self.shared.drain.hands_over() && self.lease_successor.is_none()
    }

    /// Leaves a queued turn to the next process.
    async fn hand_over(&mut self, queued: QueuedTurn) {
        let turn = queued.turn.id;
        let store = Arc::clone(&self.shared.store);
        match store.set_turn_state(&self.lease, turn, &TurnState::HandedOver).await {
            Ok(()) => self.leave_turn(&queued.log),
            Err(error) => {
                tracing::error!(%turn, %error, "the turn could not be left to the next process");
                self.finish_unstarted(queued, "angelia was restarted before it started").await;
            }
        }
    }

    /// Waits for a command while no turn runs. Returns `false` when the actor should end because it
    /// was idle for too long, was evicted, or is shutting down.
    async fn wait_for_work(&mut self) -> bool {
        let session = self.record.id;
        let live = self.agent.is_some();
        let make_room = if live {
            self.shared.agent_slots.mark_idle(session)
        } else {
            CancellationToken::new()
        };
        let too_long = Instant::now() + self.idle_ttl();
        let retry_at = self.unwritten_ends.retry_at();
        let (command, is_retry) = tokio::select! {
            biased;
            command = self.commands.recv() => (command, false),
            () = self.stop.cancelled() => (None, false),
            () = make_room.cancelled() => (None, false),
            () = sleep_until(retry_at.unwrap_or_else(far_future)), if retry_at.is_some() => (None, true),
            () = sleep_until(too_long) => (None, false),
        };
        if live {
            self.shared.agent_slots.mark_busy(session);
        }
        if let Some(command) = command {
            self.handle(command, true).await;
            return true;
        }
        if self.stop.is_cancelled() || self.unwritten_ends.is_empty() {
            return false;
        }
        // The actor stays until the turn ends are written, but its agent need not.
        if !is_retry {
            self.close_agent().await;
        }
        let _kept = self.write_kept_ends().await;
        true
    }

    fn idle_ttl(&self) -> Duration {
        let limits = &self.shared.limits;
        if self.is_one_off { limits.one_off_idle_ttl.min(limits.idle_ttl) } else { limits.idle_ttl }
    }

    /// Handles a command that does not concern the running turn, or any command while no turn runs.
    pub(super) async fn handle(&mut self, command: SessionCommand, idle: bool) {
        match command {
            SessionCommand::Submit(submit) => self.accept_turn(*submit, idle).await,
            SessionCommand::Interrupt { turn, .. } => self.interrupt_queued(turn).await,
            SessionCommand::Decide { reply, .. } => {
                // The sender may have disconnected. The same applies to every reply below.
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

    pub(super) fn end_with_successor(&mut self, successor: oneshot::Sender<Lease>) {
        self.lease_successor = Some(successor);
        self.stop.cancel();
    }

    /// Stops the actor if another process has taken over its lease, because the actor may no longer
    /// write.
    pub(super) fn stop_if_lease_lost(&self, error: &StoreError) {
        if matches!(error, StoreError::LeaseLost) {
            self.stop.cancel();
        }
    }

    /// Ends a queued turn.
    pub(super) async fn interrupt_queued(&mut self, turn: TurnId) {
        if let Some(index) = self.queue.iter().position(|queued| queued.turn.id == turn)
            && let Some(queued) = self.queue.remove(index)
        {
            self.finish_unstarted(queued, "interrupted before it started").await;
        }
    }

    /// Leaves a turn to the process that will own the session next.
    pub(super) fn leave_turn(&self, log: &TurnLog) {
        log.end_watches();
        self.shared.finish_log(log.turn);
    }

    async fn finish_unstarted(&mut self, queued: QueuedTurn, reason: &str) {
        let mut recorder = self.new_recorder(&queued.log);
        if queued.parked_until.is_some()
            && let Err(error) = recorder.catch_up().await
        {
            tracing::warn!(turn = %queued.turn.id, %error, "the turn's events could not be read");
        }
        let outcome = Outcome {
            status: TurnStatus::Interrupted,
            text: recorder.answer(),
            reason: reason.into(),
            usage: recorder.usage(),
        };
        self.finish_turn(&mut recorder, outcome, queued.turn.id).await;
    }

    pub(super) fn new_recorder(&self, log: &Arc<TurnLog>) -> Recorder {
        Recorder::new(
            Arc::clone(&self.shared.store),
            Arc::clone(&self.shared.clock),
            self.lease.clone(),
            Arc::clone(log),
            self.shared.limits.output_bytes,
        )
        .for_session(Arc::clone(&self.record))
        .announced_by(self.turn_announcer())
    }

    /// Records the single `Finished` event of a turn.
    pub(super) async fn finish_turn(
        &mut self,
        recorder: &mut Recorder,
        outcome: Outcome,
        turn: TurnId,
    ) {
        self.store_record_again().await;
        match recorder.finish(outcome.clone(), TURN_ENDED).await {
            Ok(()) => {}
            Err(EndError::Unwritten(end, error)) => {
                tracing::error!(%turn, %error, "the end of the turn could not be recorded yet");
                // Readers must find the end as soon as a viewer has seen it.
                self.shared.insert_kept_end(&end);
                recorder.show_end(&end);
                self.keep_end(end);
                self.notify_changed();
                return;
            }
            Err(EndError::Refused(error)) => {
                tracing::error!(%turn, %error, "the end of the turn could not be recorded");
                recorder.publish_unstored(EventKind::Finished(unrecorded_outcome(outcome, &error)));
            }
        }
        self.shared.finish_log(turn);
        self.notify_changed();
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

    /// Stores the agent's own session id and the model that it chose.
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
        self.set_record(record);
        self.has_unstored_record = true;
        self.store_record_again().await;
    }

    /// Retries storing the current record if that failed before. The next turn in this process
    /// finds the agent's session in any case.
    async fn store_record_again(&mut self) {
        if !self.has_unstored_record {
            return;
        }
        match self.store_record(SessionRecord::clone(&self.record)).await {
            Ok(record) => {
                self.set_record(record);
                self.has_unstored_record = false;
            }
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
        self.fingerprint = LaunchFingerprint::of(&record.spec);
        self.record = Arc::clone(&record);
        self.announce(EngineChange::Session(record.id));
        self.published_record.send_replace(record)
    }

    async fn end(mut self) {
        self.close_agent().await;
        self.store_record_again().await;
        self.write_kept_ends_finally().await;
        match self.lease_successor.take() {
            Some(successor) => {
                let _gone = successor.send(self.lease.clone());
            }
            None => self.release_lease().await,
        }
        self.shared.remove_actor(self.record.id);
        self.ended.cancel();
    }

    async fn release_lease(&mut self) {
        for delay in LEASE_RETRY_DELAYS {
            sleep(delay).await;
            match self.shared.store.release_lease(self.lease.clone()).await {
                Ok(()) => return,
                Err(error) => tracing::debug!(%error, "the session's lease could not be released"),
            }
        }
    }

    pub(super) fn id(&self) -> SessionId {
        self.record.id
    }
}

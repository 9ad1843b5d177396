//! The actor that owns one session in this process: its lease, its queue of turns, its live agent.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use jiff::Timestamp;
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc, oneshot},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    change::Change,
    facade::{Accepted, EngineError, Steered},
    known::Known,
    log::TurnLog,
    new_turn::NewTurn,
    recorder::{Creation, Recorder},
    shared::Shared,
};
use crate::{
    model::{
        ApprovalId, Content, Decision, EventKind, LaunchFingerprint, Outcome, SessionId,
        SessionRecord, Started, Status, ToolId, Turn, TurnId, TurnRecord, TurnState,
    },
    ports::{Agent, Claim, Claimed, Lease, StoreError},
};

const COMMANDS: usize = 32;

pub(super) enum Command {
    Submit(Box<Submit>),
    Interrupt {
        turn: TurnId,
        kill: bool,
    },
    Decide {
        approval: ApprovalId,
        decision: Decision,
        reply: oneshot::Sender<Result<(), EngineError>>,
    },
    /// Adds text to a running turn.
    Steer {
        turn: TurnId,
        input: Vec<Content>,
        reply: oneshot::Sender<Result<Steered, EngineError>>,
    },
    /// Passes the result of a caller's tool to a running turn.
    ToolResult {
        turn: TurnId,
        id: ToolId,
        ok: bool,
        content: Vec<Content>,
        reply: oneshot::Sender<Result<(), EngineError>>,
    },
    /// Changes the launch specification.
    Change {
        change: Change,
        reply: oneshot::Sender<Result<Option<SessionRecord>, StoreError>>,
    },
    /// Ends the running turn and the actor, and passes the lease to the sender.
    End {
        reply: oneshot::Sender<Lease>,
    },
}

/// A turn to accept.
pub(super) struct Submit {
    pub(super) turn: Turn,
    pub(super) log: Arc<TurnLog>,
    pub(super) claim: Option<Claim>,
    /// Hash under which the caller finds the turn.
    pub(super) found_by: Option<[u8; 32]>,
    /// The caller follows the turn, so nobody has to wait until its record is committed.
    pub(super) follows: bool,
    pub(super) reply: oneshot::Sender<Result<Accepted, EngineError>>,
}

#[derive(Clone)]
pub(super) struct SessionHandle {
    commands: mpsc::Sender<Command>,
    ended: CancellationToken,
    pub(super) known: Arc<Known>,
}

impl SessionHandle {
    /// Starts the actor. Parked turns are queued first.
    pub(super) fn start(
        shared: Arc<Shared>,
        record: SessionRecord,
        lease: Lease,
        parked: Vec<TurnRecord>,
    ) -> Self {
        let queue: VecDeque<_> = parked.into_iter().map(Waiting::parked).collect();
        for Waiting { log, .. } in &queue {
            shared.keep_log(log);
        }
        let (sender, commands) = mpsc::channel(COMMANDS);
        let tasks = shared.tasks.clone();
        let record = Arc::new(record);
        let known = Known::new(Arc::clone(&record));
        let actor = SessionActor {
            fingerprint: LaunchFingerprint::of(&record.spec),
            known: Arc::clone(&known),
            stop: tasks.stop_token().child_token(),
            shared,
            record,
            lease,
            commands,
            queue,
            agent: None,
            granted: Vec::new(),
            changed_midway: false,
            heir: None,
            ended: CancellationToken::new(),
        };
        let ended = actor.ended.clone();
        tasks.spawn(actor.run());
        Self { commands: sender, ended, known }
    }

    pub(super) async fn send(&self, command: Command) -> Result<(), Command> {
        self.commands.send(command).await.map_err(|refused| refused.0)
    }

    /// The actor takes no more commands and is about to end.
    pub(super) fn is_ending(&self) -> bool {
        self.commands.is_closed()
    }

    /// Waits until the agent is closed and the lease is released.
    pub(super) async fn ended(&self) {
        self.ended.cancelled().await;
    }
}

pub(super) struct SessionActor {
    pub(super) shared: Arc<Shared>,
    pub(super) record: Arc<SessionRecord>,
    /// Fingerprint of the current specification.
    pub(super) fingerprint: LaunchFingerprint,
    /// Copy of the record for readers outside the actor.
    known: Arc<Known>,
    pub(super) lease: Lease,
    pub(super) commands: mpsc::Receiver<Command>,
    pub(super) queue: VecDeque<Waiting>,
    pub(super) agent: Option<LiveAgent>,
    /// Tools and subjects that a person allowed for the rest of the session.
    pub(super) granted: Vec<(Arc<str>, Option<Arc<str>>)>,
    /// The specification was changed during a turn, so the live agent does not match it.
    pub(super) changed_midway: bool,
    pub(super) stop: CancellationToken,
    /// Gets the lease when the actor ends.
    heir: Option<oneshot::Sender<Lease>>,
    ended: CancellationToken,
}

pub(super) struct Waiting {
    pub(super) turn: Turn,
    pub(super) log: Arc<TurnLog>,
    /// The turn has run before and waits for a quota until then.
    pub(super) parked: Option<Timestamp>,
    /// The turn's record is still being written.
    creation: Option<Creation>,
}

impl Waiting {
    fn parked(record: TurnRecord) -> Self {
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
        Self { turn, log, parked, creation: None }
    }
}

pub(super) struct LiveAgent {
    pub(super) agent: Box<dyn Agent>,
    pub(super) fingerprint: LaunchFingerprint,
    /// Permit of the live agent; dropped when the agent is closed.
    pub(super) place: OwnedSemaphorePermit,
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
            if self.stop.is_cancelled() && next.parked.is_some() {
                self.leave(&next.log);
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
        let make_room =
            if live { self.shared.live.idle(session) } else { CancellationToken::new() };
        let too_long = Instant::now() + self.shared.limits.idle_ttl;
        let command = tokio::select! {
            biased;
            command = self.commands.recv() => command,
            () = self.stop.cancelled() => None,
            () = make_room.cancelled() => None,
            () = sleep_until(too_long) => None,
        };
        if live {
            self.shared.live.busy(session);
        }
        let Some(command) = command else { return false };
        self.handle(command, true).await;
        true
    }

    /// Handles a command that does not concern the running turn, or any command while none runs.
    pub(super) async fn handle(&mut self, command: Command, idle: bool) {
        match command {
            Command::Submit(submit) => self.accept(*submit, idle).await,
            Command::Interrupt { turn, .. } => self.interrupt_waiting(turn).await,
            Command::Decide { reply, .. } => {
                // The sender may have disconnected; the same holds for every reply below.
                let _gone = reply.send(Err(EngineError::NotPending));
            }
            Command::Steer { reply, .. } => {
                let _gone = reply.send(Err(EngineError::NotRunning));
            }
            Command::ToolResult { reply, .. } => {
                let _gone = reply.send(Err(EngineError::NotRunning));
            }
            Command::Change { change, reply } => {
                let changed = self.change(change, idle).await;
                let _gone = reply.send(changed);
            }
            Command::End { reply } => self.end_for(reply),
        }
    }

    pub(super) fn end_for(&mut self, heir: oneshot::Sender<Lease>) {
        self.heir = Some(heir);
        self.stop.cancel();
    }

    /// Records a new turn and queues it, unless an earlier request with the same key created one.
    async fn accept(&mut self, submit: Submit, idle: bool) {
        let Submit { turn, log, claim, found_by, follows, reply } = submit;
        if let Err(refused) = self.has_room() {
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
        self.shared.keep_log(&log);
        let mut waiting = Waiting { turn, log, parked: None, creation: None };
        let mut new = NewTurn::new(record, found_by);
        let store = Arc::clone(&self.shared.store);
        let created = match &claim {
            Some(claim) => new.write_once(&*store, &self.lease, claim).await,
            // The agent is live: start the turn now and write its record meanwhile.
            None if running && self.agent.is_some() => {
                let reply = if follows {
                    let _gone = reply.send(Ok(Accepted::Running));
                    None
                } else {
                    Some(reply)
                };
                waiting.creation = Some(Creation { new, reply });
                self.enqueue(waiting);
                return;
            }
            None => {
                let written = new.write(&*store, &self.lease).await;
                written.map(|()| Claimed::New)
            }
        };
        let _gone = reply.send(self.created(waiting, running, created));
    }

    fn has_room(&self) -> Result<(), EngineError> {
        let limit = self.shared.limits.max_queued_turns;
        if self.stop.is_cancelled() {
            return Err(EngineError::ShuttingDown);
        }
        if self.queue.len() >= limit {
            return Err(EngineError::QueueFull { limit });
        }
        Ok(())
    }

    fn enqueue(&mut self, waiting: Waiting) {
        let caller = waiting.turn.options.caller.clone();
        self.known.begin(&waiting.log, caller);
        self.queue.push_back(waiting);
    }

    fn created(
        &mut self,
        waiting: Waiting,
        running: bool,
        created: Result<Claimed, StoreError>,
    ) -> Result<Accepted, EngineError> {
        let turn = waiting.turn.id;
        let accepted = match created {
            Ok(Claimed::New) => {
                self.enqueue(waiting);
                return Ok(if running { Accepted::Running } else { Accepted::Queued });
            }
            Ok(Claimed::Repeats(known)) => Ok(Accepted::Known(known)),
            Ok(Claimed::Conflicts(known)) => Err(EngineError::KeyReused(known)),
            Err(error) => {
                self.note_lost_lease(&error);
                Err(error.into())
            }
        };
        self.shared.forget_log(turn);
        accepted
    }

    /// Ends the actor if another process has taken over its lease: it may not write any more.
    pub(super) fn note_lost_lease(&self, error: &StoreError) {
        if matches!(error, StoreError::LeaseLost) {
            self.stop.cancel();
        }
    }

    /// Ends a queued turn.
    pub(super) async fn interrupt_waiting(&mut self, turn: TurnId) {
        if let Some(index) = self.queue.iter().position(|waiting| waiting.turn.id == turn)
            && let Some(waiting) = self.queue.remove(index)
        {
            self.finish_unstarted(waiting, "interrupted before it started").await;
        }
    }

    /// Leaves a parked turn to the process that owns the session next.
    pub(super) fn leave(&self, log: &TurnLog) {
        self.known.forget_newest();
        log.leave();
        self.shared.end_log(log.turn);
    }

    async fn finish_unstarted(&mut self, mut waiting: Waiting, reason: &str) {
        let mut recorder = self.recorder(&mut waiting);
        if waiting.parked.is_some()
            && let Err(error) = recorder.catch_up().await
        {
            tracing::warn!(turn = %waiting.turn.id, %error, "the turn's events could not be read");
        }
        let outcome = Outcome {
            status: Status::Interrupted,
            text: recorder.answer(),
            reason: reason.into(),
            usage: recorder.usage(),
        };
        self.finish(&mut recorder, outcome, waiting.turn.id).await;
    }

    pub(super) fn recorder(&self, waiting: &mut Waiting) -> Recorder {
        Recorder::new(
            Arc::clone(&self.shared.store),
            Arc::clone(&self.shared.clock),
            self.lease.clone(),
            Arc::clone(&waiting.log),
            waiting.creation.take(),
        )
    }

    /// Records the `Finished` event of a turn. There is exactly one.
    pub(super) async fn finish(&mut self, recorder: &mut Recorder, outcome: Outcome, turn: TurnId) {
        if let Err(error) = recorder.record(vec![EventKind::Finished(outcome.clone())]).await {
            tracing::error!(%turn, %error, "the end of the turn could not be recorded");
            self.known.forget_newest();
            recorder
                .show_unwritten(EventKind::Finished(super::running::not_recorded(outcome, &error)));
        }
        self.shared.end_log(turn);
        self.shared.changed(self.record.id);
    }

    pub(super) async fn close_agent(&mut self) {
        self.close_agent_within(self.shared.limits.close_grace).await;
    }

    pub(super) async fn close_agent_within(&mut self, grace: Duration) {
        if let Some(live) = self.agent.take() {
            live.agent.close(grace).await;
            drop(live.place);
        }
    }

    /// Stores the agent's own session id and the model it chose.
    pub(super) async fn adopt(&mut self, started: &Started) {
        let native = (started.native_session_id.as_ref()).or(self.record.native.as_ref());
        let model = self.record.spec.model.as_ref().or(started.model.as_ref());
        if native == self.record.native.as_ref() && model == self.record.spec.model.as_ref() {
            return;
        }
        let mut record = SessionRecord::clone(&self.record);
        record.native = native.cloned();
        record.spec.model = model.cloned();
        record.updated_at = self.shared.clock.now();
        match self.put(record).await {
            Ok(record) => drop(self.replace(record)),
            Err(error) => {
                tracing::warn!(session = %self.id(), %error, "the session could not be stored");
            }
        }
    }

    pub(super) async fn put(
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
    pub(super) fn replace(&mut self, record: SessionRecord) -> Arc<SessionRecord> {
        let record = Arc::new(record);
        self.known.put(Arc::clone(&record));
        self.fingerprint = LaunchFingerprint::of(&record.spec);
        std::mem::replace(&mut self.record, record)
    }

    async fn end(mut self) {
        self.close_agent().await;
        match self.heir.take() {
            Some(heir) => {
                let _gone = heir.send(self.lease);
            }
            None => {
                if let Err(error) = self.shared.store.release(self.lease).await {
                    tracing::debug!(%error, "the session's lease could not be released");
                }
            }
        }
        self.shared.forget_actor(self.record.id);
        self.ended.cancel();
    }

    pub(super) fn id(&self) -> SessionId {
        self.record.id
    }
}

//! One turn from its first event to its outcome.

use std::sync::Arc;

use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    approvals::{Approvals, Asked, Rules, resolved},
    facade::EngineError,
    recorder::Recorder,
    session::{Command, LiveAgent, SessionActor, Waiting},
    unwind::CatchUnwind,
};
use crate::{
    model::{
        ApprovalId, Decision, EventKind, Failure, FailureKind, LaunchFingerprint, Outcome,
        SessionRecord, Started, Status, Turn, TurnId, TurnState, Verdict,
    },
    ports::{Emitted, Ended, EventSender, Opening, StoreError, TurnControl, TurnIo},
};

/// Batches an agent may be ahead of the recorder: enough to overlap, too few to hoard.
const BATCHES: usize = 16;
const CONTROLS: usize = 16;

impl SessionActor {
    /// Runs one turn and writes its outcome, whatever happens.
    pub(super) async fn run_turn(&mut self, waiting: Waiting) {
        let Waiting { turn, log } = waiting;
        let mut recorder = self.recorder(&log);
        let ended = match self.ready_agent(&turn).await {
            Ok(live) => self.drive(live, &turn, &mut recorder).await,
            Err(ended) => ended,
        };
        let outcome = Outcome {
            status: ended.status,
            text: ended.text.unwrap_or_else(|| recorder.answer()),
            reason: ended.reason,
            usage: recorder.usage().clone(),
        };
        self.finish(&mut recorder, outcome, turn.id).await;
    }

    /// The session's live agent if it can take this turn, else a new one.
    async fn ready_agent(&mut self, turn: &Turn) -> Result<LiveAgent, Ended> {
        let fingerprint = LaunchFingerprint::of(&self.record.spec);
        if let Some(mut live) = self.agent.take() {
            let unfit = live.fingerprint.difference(&fingerprint);
            let unfit = unfit.or_else(|| (!live.agent.is_usable()).then_some("process has gone"));
            match unfit {
                None => return Ok(live),
                Some(reason) => {
                    tracing::debug!(session = %self.id(), reason, "the live agent is not reused");
                    self.agent = Some(live);
                    self.close_agent().await;
                }
            }
        }
        let place = self.unless_interrupted(turn.id, |actor| {
            let live = actor.shared.live.clone();
            async move { live.place().await }
        });
        let Some(place) = place.await? else {
            return Err(interrupted("angelia is shutting down"));
        };
        let shared = Arc::clone(&self.shared);
        let record = self.record.clone();
        let opened = self
            .unless_interrupted(turn.id, move |_| async move {
                let executor = shared.executor(&record.spec.executor)?;
                let native = record.native.as_ref().filter(|_| record.spec.resume);
                let opening = Opening {
                    session: record.id,
                    spec: &record.spec,
                    native,
                };
                executor.open(opening).await
            })
            .await?;
        match opened {
            Ok(agent) => Ok(LiveAgent {
                agent,
                fingerprint,
                place,
            }),
            Err(failure) => Err(Ended::failed(failure)),
        }
    }

    /// Waits for something that comes before the agent runs, and gives it up on an interrupt.
    async fn unless_interrupted<T, F>(
        &mut self,
        turn: TurnId,
        begin: impl FnOnce(&Self) -> F,
    ) -> Result<T, Ended>
    where
        F: Future<Output = T>,
    {
        let mut work = std::pin::pin!(begin(self));
        loop {
            tokio::select! {
                biased;
                done = &mut work => return Ok(done),
                () = self.stop.cancelled() => return Err(interrupted("angelia was shut down")),
                command = self.commands.recv(), if !self.commands.is_closed() => match command {
                    Some(Command::Interrupt { turn: wanted, .. }) if wanted == turn => {
                        return Err(interrupted("interrupted"));
                    }
                    Some(command) => self.handle_beside(command).await,
                    None => {}
                },
            }
        }
    }

    /// What can be done for other turns while one is under way.
    async fn handle_beside(&mut self, command: Command) {
        match command {
            Command::Submit { turn, log, reply } => self.accept(turn, log, false, reply).await,
            Command::Interrupt { turn, .. } => self.interrupt_waiting(turn).await,
            Command::Decide { reply, .. } => {
                let _gone = reply.send(Err(EngineError::NotPending));
            }
            Command::End { reply } => self.end_for(reply),
        }
    }

    /// Lets the agent run and keeps the record, until the agent says that the turn is over.
    async fn drive(&mut self, mut live: LiveAgent, turn: &Turn, recorder: &mut Recorder) -> Ended {
        let (events, mut batches) = mpsc::channel(BATCHES);
        let (control, controls) = mpsc::channel(CONTROLS);
        let cancel = CancellationToken::new();
        let io = TurnIo {
            events: EventSender::new(events),
            control: controls,
            cancel: cancel.clone(),
        };
        let mut state = Drive {
            turn,
            recorder,
            control,
            cancel,
            approvals: Approvals::default(),
            give_up_at: None,
            broken: None,
        };

        let ended = {
            let mut run = CatchUnwind(Box::pin(live.agent.run(turn, io)));
            loop {
                let give_up = state.give_up_at;
                tokio::select! {
                    biased;
                    Some(batch) = batches.recv() => self.record_batch(&mut state, batch).await,
                    ended = &mut run => break ended.map(Some),
                    command = self.commands.recv(), if !self.commands.is_closed() => {
                        if let Some(command) = command
                            && self.handle_running(&mut state, command).await.is_break()
                        {
                            break Some(None);
                        }
                    }
                    () = self.stop.cancelled(), if give_up.is_none() => {
                        state.interrupt(self.shared.limits.interrupt_grace);
                    }
                    () = sleep_until(give_up.unwrap_or_else(Instant::now)), if give_up.is_some() => {
                        break Some(None);
                    }
                }
            }
        };
        while let Ok(batch) = batches.try_recv() {
            self.record_batch(&mut state, batch).await;
        }
        self.close_approvals(&mut state).await;
        let broken = state.broken.take();
        // What the agent told of itself (its model) is part of what it was started with.
        live.fingerprint = LaunchFingerprint::of(&self.record.spec);
        self.agent = Some(live);
        match ended {
            Some(Some(ended)) => broken.map_or(ended, |error| Ended::failed(store_failure(&error))),
            Some(None) => {
                self.close_agent().await;
                interrupted("interrupted; its process did not stop by itself and was ended")
            }
            None => {
                self.close_agent().await;
                let message = "the agent's driver panicked; this is a defect of angelia";
                Ended::failed(Failure::new(FailureKind::Internal, message))
            }
        }
    }

    async fn record_batch(&mut self, state: &mut Drive<'_>, batch: Vec<Emitted>) {
        let mut kinds = Vec::with_capacity(batch.len());
        for emitted in batch {
            match emitted {
                Emitted::Event(kind) => {
                    if let EventKind::Started(started) = &kind {
                        self.adopt(started).await;
                    }
                    kinds.push(kind);
                }
                Emitted::Ask(request) => {
                    let id = ApprovalId::from_uuid(self.shared.clock.fresh_uuid());
                    let rules = Rules {
                        permissions: &self.record.spec.permissions,
                        cwd: &self.record.spec.cwd,
                        can_ask: state.turn.options.can_ask,
                        granted: &self.granted,
                    };
                    let key = Arc::clone(&request.key);
                    match state.approvals.ask(id, request, &rules) {
                        Asked::Decided { decision, notice } => {
                            kinds.extend(notice.map(EventKind::Notice));
                            state.tell(TurnControl::Decide { key, decision });
                        }
                        Asked::Pending(approval) => {
                            self.shared.pending().insert(id, self.record.id);
                            kinds.push(EventKind::Approval(approval));
                        }
                    }
                }
                Emitted::Withdraw(key) => {
                    if let Some(id) = state.approvals.withdraw(&key) {
                        self.shared.pending().remove(&id);
                        kinds.push(resolved(id, Verdict::Deny, "agent"));
                    }
                }
                Emitted::Activity(_) => {}
            }
        }
        let asked = kinds
            .iter()
            .any(|kind| matches!(kind, EventKind::Approval(_)));
        self.record(state, kinds).await;
        if asked {
            self.set_state(state, &TurnState::AwaitingApproval).await;
        }
    }

    async fn record(&mut self, state: &mut Drive<'_>, kinds: Vec<EventKind>) {
        if state.broken.is_some() {
            return;
        }
        if let Err(error) = state.recorder.record(kinds).await {
            tracing::error!(turn = %state.turn.id, %error, "a turn cannot be recorded; it is stopped");
            state.broken = Some(error);
            // Nothing may happen that is not recorded.
            state.interrupt(self.shared.limits.interrupt_grace);
        }
    }

    async fn set_state(&mut self, state: &mut Drive<'_>, now: &TurnState) {
        let set = self
            .shared
            .store
            .set_turn_state(&self.lease, state.turn.id, now);
        if let Err(error) = set.await {
            tracing::warn!(turn = %state.turn.id, %error, "the state of a turn could not be stored");
        }
    }

    async fn handle_running(
        &mut self,
        state: &mut Drive<'_>,
        command: Command,
    ) -> std::ops::ControlFlow<()> {
        match command {
            Command::Interrupt { turn, kill: true } if turn == state.turn.id => {
                return std::ops::ControlFlow::Break(());
            }
            Command::Interrupt { turn, kill: false } if turn == state.turn.id => {
                state.interrupt(self.shared.limits.interrupt_grace);
            }
            Command::Decide {
                approval,
                decision,
                reply,
            } => {
                let answer = self.decide(state, approval, decision).await;
                let _gone = reply.send(answer);
            }
            other => self.handle_beside(other).await,
        }
        std::ops::ControlFlow::Continue(())
    }

    async fn decide(
        &mut self,
        state: &mut Drive<'_>,
        id: ApprovalId,
        decision: Decision,
    ) -> Result<(), EngineError> {
        let request = state.approvals.take(id).ok_or(EngineError::NotPending)?;
        self.shared.pending().remove(&id);
        if decision.verdict == Verdict::Session {
            self.granted.push((request.tool_name, request.subject));
        }
        self.record(state, vec![resolved(id, decision.verdict, &decision.by)])
            .await;
        state.tell(TurnControl::Decide {
            key: request.key,
            decision,
        });
        if state.approvals.is_empty() {
            self.set_state(state, &TurnState::Running).await;
        }
        Ok(())
    }

    async fn close_approvals(&mut self, state: &mut Drive<'_>) {
        let mut kinds = Vec::new();
        for (id, kind) in state.approvals.close() {
            self.shared.pending().remove(&id);
            kinds.push(kind);
        }
        self.record(state, kinds).await;
    }

    /// Keeps what the agent tells of itself: its conversation's name, and the model it settled on.
    async fn adopt(&mut self, started: &Started) {
        let mut record = self.record.clone();
        if let Some(native) = &started.native_session_id {
            record.native = Some(native.clone());
            // The conversation has it now; carrying it again would repeat it.
            record.spec.history.clear();
        }
        if record.spec.model.is_none() {
            record.spec.model.clone_from(&started.model);
        }
        let changed = record.native != self.record.native
            || record.spec.model != self.record.spec.model
            || record.spec.history.len() != self.record.spec.history.len();
        if !changed {
            return;
        }
        record.updated_at = self.shared.clock.now();
        match self.put(record).await {
            Ok(record) => self.record = record,
            Err(error) => {
                tracing::warn!(session = %self.id(), %error, "the session could not be stored");
            }
        }
    }

    async fn put(&mut self, mut record: SessionRecord) -> Result<SessionRecord, StoreError> {
        loop {
            match self.shared.store.put_session(&record).await {
                Ok(revision) => return Ok(SessionRecord { revision, ..record }),
                Err(StoreError::Conflict) => {
                    // Somebody changed the title; ours are the other fields.
                    let stored = self.shared.store.session(record.id).await?;
                    let stored = stored.ok_or(StoreError::NotFound("session"))?;
                    record.title = stored.title;
                    record.revision = stored.revision;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// What one running turn needs besides its actor.
struct Drive<'a> {
    turn: &'a Turn,
    recorder: &'a mut Recorder,
    control: mpsc::Sender<TurnControl>,
    cancel: CancellationToken,
    approvals: Approvals,
    /// When an interrupted agent is no longer waited for.
    give_up_at: Option<Instant>,
    /// Why the turn can no longer be recorded.
    broken: Option<StoreError>,
}

impl Drive<'_> {
    fn interrupt(&mut self, grace: std::time::Duration) {
        self.cancel.cancel();
        self.give_up_at
            .get_or_insert_with(|| Instant::now() + grace);
    }

    fn tell(&self, control: TurnControl) {
        if let Err(error) = self.control.try_send(control) {
            tracing::warn!(turn = %self.turn.id, %error, "the agent does not take what it is told");
        }
    }
}

fn interrupted(reason: &str) -> Ended {
    Ended {
        status: Status::Interrupted,
        text: None,
        reason: reason.into(),
    }
}

fn store_failure(error: &StoreError) -> Failure {
    let hint = "free space on the disk or check $ANGELIA_HOME/state.db, then send the turn again";
    Failure::new(
        FailureKind::Internal,
        format!("the turn could not be recorded: {error}"),
    )
    .with_hint(hint)
}

/// What viewers see when the end itself could not be written.
pub(super) fn not_recorded(outcome: Outcome, error: &StoreError) -> Outcome {
    Outcome {
        status: Status::Failed(store_failure(error)),
        reason: "internal".into(),
        ..outcome
    }
}

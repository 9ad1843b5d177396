//! Runs one segment of a turn: drives the agent and records its events until the agent reports the
//! end, or until an interrupt, a timeout or a budget stops it. An agent that does not stop is
//! abandoned.

use std::{ops::ControlFlow, sync::Arc, time::Duration};

use jiff::Timestamp;
use tokio::{
    sync::mpsc,
    task::yield_now,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    approvals::{Approvals, Asked, Rules, resolved},
    facade::{EngineError, Steered},
    recorder::Recorder,
    running::{Governor, SegmentEnd, Stop, interrupted, store_failure, timed_out},
    session::{Command, LiveAgent, SessionActor},
    unwind::CatchUnwind,
    watchdog::State,
};
use crate::{
    model::{
        ApprovalId, ApprovalRequest, Content, Decision, EventKind, Failure, FailureKind, Level,
        Notice, Status, Turn, TurnState, Verdict,
    },
    ports::{Activity, Emitted, Ended, EventSender, StoreError, TurnControl, TurnIo},
};

/// Event batches an agent may be ahead of the recorder: enough to overlap reading and writing, too
/// few to pile up.
const BATCHES: usize = 16;
const CONTROLS: usize = 16;

/// Code of the notice that tells the caller to send tool results.
pub const AWAITING_TOOL_RESULT: &str = "awaiting_tool_result";

/// Grace after a timeout: a hung agent answers the interrupt at once or not at all.
const RUNG_GRACE: Duration = Duration::from_millis(500);

/// One running segment, with the state that does not belong to the session actor.
pub(super) struct Drive<'a> {
    turn: &'a Turn,
    recorder: &'a mut Recorder,
    governor: &'a mut Governor,
    control: mpsc::Sender<TurnControl>,
    cancel: CancellationToken,
    approvals: Approvals,
    stop: Option<Stop>,
    /// When we stop waiting for an agent that was asked to stop.
    give_up_at: Option<Instant>,
    /// Set when the turn can no longer be recorded.
    broken: Option<StoreError>,
}

enum RunEnd {
    Ended(Ended),
    Panicked,
    /// The agent was asked to stop and did not.
    GivenUp,
}

impl SessionActor {
    /// Runs one segment with the agent.
    pub(super) async fn drive(
        &mut self,
        mut live: LiveAgent,
        turn: &Turn,
        recorder: &mut Recorder,
        governor: &mut Governor,
    ) -> SegmentEnd {
        let (events, mut batches) = mpsc::channel(BATCHES);
        let (control, controls) = mpsc::channel(CONTROLS);
        let cancel = CancellationToken::new();
        let io =
            TurnIo { events: EventSender::new(events), control: controls, cancel: cancel.clone() };
        let mut drive = Drive {
            turn,
            recorder,
            governor,
            control,
            cancel,
            approvals: Approvals::default(),
            stop: None,
            give_up_at: None,
            broken: None,
        };
        let end = self.run_agent(&mut live, io, &mut batches, &mut drive).await;
        // The agent may have sent its last events together with its end.
        while let Ok(batch) = batches.try_recv() {
            self.record_batch(&mut drive, batch).await;
        }
        self.close_approvals(&mut drive).await;
        if drive.broken.is_none()
            && let Err(error) = drive.recorder.close_open().await
        {
            drive.broken = Some(error);
        }
        if !std::mem::take(&mut self.changed_midway) {
            // The agent may have reported its model, which changed the specification; the live
            // agent still matches it.
            live.fingerprint.clone_from(&self.fingerprint);
        }
        self.agent = Some(live);
        let (stop, broken) = (drive.stop.take(), drive.broken.take());
        self.settle(end, stop, broken).await
    }

    async fn run_agent(
        &mut self,
        live: &mut LiveAgent,
        io: TurnIo,
        batches: &mut mpsc::Receiver<Vec<Emitted>>,
        drive: &mut Drive<'_>,
    ) -> RunEnd {
        let mut run = CatchUnwind(Box::pin(live.agent.run(drive.turn, io)));
        let mut alarm = std::pin::pin!(sleep_until(drive.deadline()));
        loop {
            // Deadlines mostly move into the future, so the alarm is reset only when one moves
            // closer.
            let deadline = drive.deadline();
            if deadline < alarm.deadline() {
                alarm.as_mut().reset(deadline);
            }
            // In this order: events are recorded before the end of the run is seen.
            tokio::select! {
                biased;
                Some(batch) = batches.recv() => {
                    self.record_batch(drive, batch).await;
                    // Let viewers receive the batch before the agent is polled again.
                    yield_now().await;
                }
                ended = &mut run => return ended.map_or(RunEnd::Panicked, RunEnd::Ended),
                created = drive.recorder.created(), if drive.recorder.is_being_created() => {
                    if let Err(error) = created {
                        self.note_lost_lease(&error);
                        self.cannot_record(drive, error);
                    }
                }
                command = self.commands.recv(), if !self.commands.is_closed() => {
                    if let Some(command) = command
                        && self.handle_running(drive, command).await.is_break()
                    {
                        return RunEnd::GivenUp;
                    }
                }
                () = self.stop.cancelled(), if drive.stop.is_none() => {
                    drive.stop(Stop::Wish, self.shared.limits.interrupt_grace);
                }
                () = &mut alarm => {
                    let now = Instant::now();
                    if drive.give_up_at.is_some_and(|at| at <= now) {
                        return RunEnd::GivenUp;
                    }
                    if drive.recorder.write_at().is_some_and(|at| at <= now) {
                        self.hand_over(drive).await;
                    }
                    self.look_at_clocks(drive, now).await;
                    alarm.as_mut().reset(drive.deadline());
                }
            }
        }
    }

    /// Acts on the timeout or time budget that has expired, if any.
    async fn look_at_clocks(&mut self, drive: &mut Drive<'_>, now: Instant) {
        if drive.stop.is_some() {
            return;
        }
        if drive.governor.time_is_up_at().is_some_and(|at| at <= now) {
            self.budget_reached(drive, "budget_seconds").await;
            return;
        }
        let (at, rang) = drive.governor.watchdog.next();
        if at > now {
            return;
        }
        if rang.state == State::AwaitingApproval {
            for id in drive.approvals.unanswered_since(now - rang.after) {
                let decision = Decision::new(Verdict::Deny, "timeout")
                    .with_note("nobody answered in time (approval_timeout)");
                // Cannot fail: only this task removes pending approvals.
                let _taken = self.decide(drive, id, decision).await;
            }
            return;
        }
        let code = if rang.state == State::Background { "background_stopped" } else { "timeout" };
        let notice = Notice::new(Level::Warning, code, format!("stopped: the agent was {rang}"));
        self.record(drive, vec![EventKind::Notice(notice)]).await;
        drive.stop(Stop::Clock(rang), RUNG_GRACE);
    }

    async fn budget_reached(&mut self, drive: &mut Drive<'_>, setting: &'static str) {
        if drive.stop.is_some() {
            return;
        }
        let notice = Notice::new(Level::Info, "budget_reached", format!("{setting} is used up"));
        self.record(drive, vec![EventKind::Notice(notice)]).await;
        drive.stop(Stop::Budget(setting), self.shared.limits.interrupt_grace);
    }

    /// Turns the end of the agent's run into the outcome of the segment, and closes an agent that
    /// cannot be trusted to go on.
    async fn settle(
        &mut self,
        end: RunEnd,
        stop: Option<Stop>,
        broken: Option<StoreError>,
    ) -> SegmentEnd {
        let obeyed = matches!(end, RunEnd::Ended(_));
        // An agent whose background work timed out is healthy: its answer is complete.
        let hung = matches!(&stop, Some(Stop::Clock(rang)) if rang.state != State::Background);
        if !obeyed || hung {
            // The agent panicked, hung or did not stop: its state is unknown, so it is not reused.
            let grace = if hung { RUNG_GRACE / 2 } else { self.shared.limits.close_grace };
            self.close_agent_within(grace).await;
        }
        if let Some(error) = broken {
            return Ended::failed(store_failure(&error)).into();
        }
        match (end, stop) {
            (RunEnd::Panicked, _) => {
                let message = "the agent's driver panicked; this is a bug in angelia";
                Ended::failed(Failure::new(FailureKind::Internal, message)).into()
            }
            (_, Some(Stop::Clock(rang))) if hung => timed_out(&rang).into(),
            (RunEnd::Ended(ended), Some(Stop::Budget(setting)))
                if ended.status == Status::Interrupted =>
            {
                let reason = setting.into();
                let ended = Ended { status: Status::Partial, text: None, reason };
                SegmentEnd { ended, budget: Some(setting) }
            }
            (RunEnd::Ended(ended), _) => ended.into(),
            (RunEnd::GivenUp, Some(Stop::Budget(setting))) => {
                Ended { status: Status::Partial, text: None, reason: setting.into() }.into()
            }
            (RunEnd::GivenUp, _) => {
                interrupted("interrupted; the agent did not stop and was terminated").into()
            }
        }
    }

    async fn record_batch(&mut self, drive: &mut Drive<'_>, batch: Vec<Emitted>) {
        let now = Instant::now();
        let mut kinds = Vec::with_capacity(batch.len());
        let mut used_up = None;
        let (mut asked, mut called) = (false, false);
        for emitted in batch {
            match emitted {
                Emitted::Event(kind) => {
                    if let EventKind::Started(started) = &kind {
                        self.adopt(started).await;
                    }
                    drive.governor.watchdog.event(&kind, now);
                    used_up = used_up.or(drive.governor.meter.event(&kind));
                    kinds.push(kind);
                }
                Emitted::Ask(request) => {
                    let (kind, is_open) = self.ask(drive, request);
                    kinds.extend(kind);
                    asked |= is_open;
                }
                Emitted::Withdraw(key) => {
                    if let Some(id) = drive.approvals.withdraw(&key) {
                        self.shared.pending().remove(&id);
                        drive.note_approvals(now);
                        kinds.push(resolved(id, Verdict::Deny, "agent"));
                    }
                }
                Emitted::Activity(activity) => {
                    drive.governor.watchdog.activity(activity, now);
                    // Also when the turn is already waiting: the caller must be told about every
                    // further call.
                    called |= activity == Activity::AwaitingToolResult;
                }
            }
        }
        if called {
            let text = "the agent waits for the results of the caller's tools";
            let notice = Notice::new(Level::Info, AWAITING_TOOL_RESULT, text);
            kinds.push(EventKind::Notice(notice));
            // Set the state first: a caller that sees the notice may send its result at once.
            self.set_state(drive, &TurnState::AwaitingToolResult).await;
        }
        self.record(drive, kinds).await;
        if asked {
            drive.note_approvals(now);
            self.set_state(drive, &TurnState::AwaitingApproval).await;
        }
        if let Some(setting) = used_up {
            self.budget_reached(drive, setting).await;
        }
    }

    /// Returns the event to record for an approval request, and whether a person must decide it.
    fn ask(&self, drive: &mut Drive<'_>, request: ApprovalRequest) -> (Option<EventKind>, bool) {
        let id = ApprovalId::from_uuid(self.shared.clock.fresh_uuid());
        let rules = Rules {
            permissions: &self.record.spec.permissions,
            cwd: &self.record.spec.cwd,
            can_ask: drive.turn.options.can_ask,
            expires_at: expiry(self.shared.clock.now(), self.record.spec.clocks.approval),
            granted: &self.granted,
        };
        let key = Arc::clone(&request.key);
        match drive.approvals.ask(id, request, &rules) {
            Asked::Decided { decision, notice } => {
                drive.tell(TurnControl::Decide { key, decision });
                (notice.map(EventKind::Notice), false)
            }
            Asked::Pending(approval) => {
                self.shared.pending().insert(id, self.record.id);
                (Some(EventKind::Approval(approval)), true)
            }
        }
    }

    async fn record(&mut self, drive: &mut Drive<'_>, kinds: Vec<EventKind>) {
        if drive.broken.is_some() {
            return;
        }
        if let Err(error) = drive.recorder.record(kinds).await {
            self.cannot_record(drive, error);
        }
    }

    async fn hand_over(&mut self, drive: &mut Drive<'_>) {
        if let Err(error) = drive.recorder.hand_over().await {
            self.cannot_record(drive, error);
        }
    }

    fn cannot_record(&self, drive: &mut Drive<'_>, error: StoreError) {
        tracing::error!(turn = %drive.turn.id, %error, "the turn cannot be recorded; stopping it");
        drive.broken = Some(error);
        // An agent must not go on acting when its events are not recorded.
        drive.stop(Stop::Wish, self.shared.limits.interrupt_grace);
    }

    async fn set_state(&mut self, drive: &mut Drive<'_>, now: &TurnState) {
        if let Err(error) = drive.recorder.created().await {
            self.cannot_record(drive, error);
            return;
        }
        let set = self.shared.store.set_turn_state(&self.lease, drive.turn.id, now);
        if let Err(error) = set.await {
            tracing::warn!(turn = %drive.turn.id, %error, "the turn's state could not be stored");
        }
    }

    async fn handle_running(&mut self, drive: &mut Drive<'_>, command: Command) -> ControlFlow<()> {
        match command {
            Command::Interrupt { turn, kill: true } if turn == drive.turn.id => {
                drive.stop.get_or_insert(Stop::Wish);
                return ControlFlow::Break(());
            }
            Command::Interrupt { turn, kill: false } if turn == drive.turn.id => {
                drive.stop(Stop::Wish, self.shared.limits.interrupt_grace);
            }
            Command::Decide { approval, decision, reply } => {
                let answer = self.decide(drive, approval, decision).await;
                let _gone = reply.send(answer);
            }
            Command::Steer { turn, input, reply } if turn == drive.turn.id => {
                let answer = self.steer(drive, input).await;
                let _gone = reply.send(answer);
            }
            Command::ToolResult { turn, id, ok, content, reply } if turn == drive.turn.id => {
                let watchdog = &mut drive.governor.watchdog;
                let waited = watchdog.awaits_tool_result();
                watchdog.tool_result_given(Instant::now());
                if waited && !watchdog.awaits_tool_result() {
                    self.set_state(drive, &TurnState::Running).await;
                }
                drive.tell(TurnControl::ToolResult { id, ok, content });
                let _gone = reply.send(Ok(()));
            }
            other => self.handle(other, false).await,
        }
        ControlFlow::Continue(())
    }

    /// Passes text to the running agent if its executor can steer.
    async fn steer(
        &mut self,
        drive: &mut Drive<'_>,
        input: Vec<Content>,
    ) -> Result<Steered, EngineError> {
        let executor = self.shared.executor(&self.record.spec.executor)?;
        if !executor.capabilities().steer || drive.stop.is_some() {
            return Ok(Steered::NotTaken(input));
        }
        let text = "the added text was passed to the running turn";
        let notice = EventKind::Notice(Notice::new(Level::Info, "steered", text));
        self.record(drive, vec![notice]).await;
        drive.tell(TurnControl::Steer(input));
        Ok(Steered::Passed)
    }

    async fn decide(
        &mut self,
        drive: &mut Drive<'_>,
        id: ApprovalId,
        decision: Decision,
    ) -> Result<(), EngineError> {
        let request = drive.approvals.take(id).ok_or(EngineError::NotPending)?;
        self.shared.pending().remove(&id);
        if decision.verdict == Verdict::Session {
            self.granted.push((request.tool_name, request.subject));
        }
        self.record(drive, vec![resolved(id, decision.verdict, &decision.by)]).await;
        drive.tell(TurnControl::Decide { key: request.key, decision });
        drive.note_approvals(Instant::now());
        if drive.approvals.is_empty() {
            self.set_state(drive, &TurnState::Running).await;
        }
        Ok(())
    }

    async fn close_approvals(&mut self, drive: &mut Drive<'_>) {
        let mut kinds = Vec::new();
        for (id, kind) in drive.approvals.close() {
            self.shared.pending().remove(&id);
            kinds.push(kind);
        }
        self.record(drive, kinds).await;
    }
}

fn expiry(now: Timestamp, wait: Duration) -> Timestamp {
    now.checked_add(wait).unwrap_or(Timestamp::MAX)
}

impl Drive<'_> {
    /// Asks the agent to stop. The first cause and the first deadline win.
    fn stop(&mut self, why: Stop, grace: Duration) {
        self.stop.get_or_insert(why);
        self.cancel.cancel();
        self.give_up_at.get_or_insert_with(|| Instant::now() + grace);
    }

    /// Next instant at which something must happen: a timeout, a write, or giving up on the agent.
    fn deadline(&self) -> Instant {
        let write_at = self.recorder.write_at();
        if let Some(at) = self.give_up_at {
            return write_at.map_or(at, |write_at| write_at.min(at));
        }
        let (rings, _) = self.governor.watchdog.next();
        let time_is_up_at = self.governor.time_is_up_at();
        [write_at, time_is_up_at].into_iter().flatten().fold(rings, Instant::min)
    }

    fn note_approvals(&mut self, now: Instant) {
        self.governor.watchdog.approvals(self.approvals.oldest(), now);
    }

    fn tell(&self, control: TurnControl) {
        if let Err(error) = self.control.try_send(control) {
            tracing::warn!(turn = %self.turn.id, %error, "a control message to the agent was lost");
        }
    }
}

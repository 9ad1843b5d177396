//! Runs one segment of a turn: drives the agent and records its events until the agent reports the end, or
//! until an interrupt, a timeout or a budget stops it. An agent that does not stop is abandoned.

use std::{collections::VecDeque, ops::ControlFlow, panic::AssertUnwindSafe, time::Duration};

use futures_util::FutureExt as _;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    approvals::{PendingApprovals, resolution_event},
    budget::TOOL_BUDGET,
    changes::EngineChange,
    facade::EngineError,
    output_limit::OUTPUT_LIMIT_SETTING,
    recorder::Recorder,
    session_actor::{LiveAgent, SessionActor},
    session_command::SessionCommand,
    turn_runner::{
        SHUTDOWN_REASON, SegmentEnd, StopCause, TurnGovernor, interrupted_outcome, store_failure,
        timeout_outcome,
    },
    unasked_edits::UnaskedEdits,
    watchdog::WatchdogState,
};
use crate::{
    model::{
        Content, Decision, EventKind, Failure, FailureKind, Notice, NoticeLevel, Turn, TurnState,
        TurnStatus, Verdict,
    },
    ports::{Activity, AgentEvent, AgentOutcome, EventSender, StoreError, TurnControl, TurnIo},
};

/// Number of event batches by which an agent may be ahead of the recorder: enough to overlap reading and
/// writing, too few to pile up.
const MAX_QUEUED_BATCHES: usize = 16;
const MAX_QUEUED_CONTROLS: usize = 16;

/// Code of the notice that tells the caller to send tool results.
pub const AWAITING_TOOL_RESULT_NOTICE: &str = "awaiting_tool_result";

/// Grace period after a timeout. It is short, because a hung agent reacts to the interrupt at once or not at
/// all.
const TIMEOUT_GRACE: Duration = Duration::from_millis(500);

/// One running segment, with the state that does not belong to the session actor.
pub(super) struct SegmentRun<'a> {
    pub(super) turn: &'a Turn,
    recorder: &'a mut Recorder,
    governor: &'a mut TurnGovernor,
    control: mpsc::Sender<TurnControl>,
    /// Messages to the agent for which the channel had no room yet. None may be dropped, because the
    /// decisions among them are already recorded. The queue stays short: it holds only answers to the agent's
    /// own requests and text that people add to the turn.
    unsent_controls: VecDeque<TurnControl>,
    cancel: CancellationToken,
    pub(super) approvals: PendingApprovals,
    pub(super) unasked_edits: UnaskedEdits,
    stop: Option<StopCause>,
    /// When to give up on an agent that was asked to stop.
    abandon_at: Option<Instant>,
    /// Set once the turn can no longer be recorded.
    pub(super) store_error: Option<StoreError>,
}

enum RunEnd {
    Ended(AgentOutcome),
    Panicked,
    /// The agent was asked to stop but did not.
    Abandoned,
}

impl SessionActor {
    /// Runs one segment with the agent.
    pub(super) async fn drive_agent(
        &mut self,
        mut live: LiveAgent,
        turn: &Turn,
        recorder: &mut Recorder,
        governor: &mut TurnGovernor,
    ) -> SegmentEnd {
        let (events, mut batches) = mpsc::channel(MAX_QUEUED_BATCHES);
        let (control, controls) = mpsc::channel(MAX_QUEUED_CONTROLS);
        let cancel = CancellationToken::new();
        let io =
            TurnIo { events: EventSender::new(events), control: controls, cancel: cancel.clone() };
        let mut drive = SegmentRun {
            turn,
            recorder,
            governor,
            control,
            unsent_controls: VecDeque::new(),
            cancel,
            approvals: PendingApprovals::default(),
            unasked_edits: UnaskedEdits::default(),
            stop: None,
            abandon_at: None,
            store_error: None,
        };
        let end = self.run_agent(&mut live, io, &mut batches, &mut drive).await;
        // The agent may have sent its last events just before its run ended.
        while let Ok(batch) = batches.try_recv() {
            self.record_batch(&mut drive, batch).await;
        }
        self.deny_pending_approvals(&mut drive).await;
        if drive.store_error.is_none()
            && let Err(error) = drive.recorder.close_unfinished().await
        {
            drive.store_error = Some(error);
        }
        if !std::mem::take(&mut self.changed_during_turn) {
            // The agent may have reported its model, which changes the specification; the live agent still
            // matches it.
            live.fingerprint.clone_from(&self.fingerprint);
        }
        self.agent = Some(live);
        let (stop, broken) = (drive.stop.take(), drive.store_error.take());
        self.conclude_segment(end, stop, broken).await
    }

    async fn run_agent(
        &mut self,
        live: &mut LiveAgent,
        io: TurnIo,
        batches: &mut mpsc::Receiver<Vec<AgentEvent>>,
        drive: &mut SegmentRun<'_>,
    ) -> RunEnd {
        // Unwind safe: the agent is closed after a panic, so its broken state is never used again.
        let run = AssertUnwindSafe(live.agent.run(drive.turn, io)).catch_unwind();
        let mut run = std::pin::pin!(run);
        let mut alarm = std::pin::pin!(sleep_until(drive.deadline()));
        loop {
            // Deadlines mostly move into the future, so reset the timer only when one moves closer.
            let deadline = drive.deadline();
            if deadline < alarm.deadline() {
                alarm.as_mut().reset(deadline);
            }
            // Order matters: events must be recorded before the end of the run is handled.
            tokio::select! {
                biased;
                Some(batch) = batches.recv() => self.record_batch(drive, batch).await,
                () = drive.send_queued_control(), if !drive.unsent_controls.is_empty() => {}
                ended = &mut run => {
                    return ended.map_or_else(|_panic| RunEnd::Panicked, RunEnd::Ended);
                }
                command = self.commands.recv(), if !self.commands.is_closed() => {
                    if let Some(command) = command
                        && self.handle_during_turn(drive, command).await.is_break()
                    {
                        return RunEnd::Abandoned;
                    }
                }
                () = self.stop.cancelled(), if drive.stop.is_none() => {
                    drive.stop(StopCause::Shutdown, self.shared.limits.interrupt_grace);
                }
                () = &mut alarm => {
                    let now = Instant::now();
                    if drive.abandon_at.is_some_and(|at| at <= now) {
                        return RunEnd::Abandoned;
                    }
                    if drive.recorder.save_text_at().is_some_and(|at| at <= now) {
                        drive.recorder.save_open_text().await;
                    }
                    self.check_timeouts(drive, now).await;
                    alarm.as_mut().reset(drive.deadline());
                }
            }
        }
    }

    /// Handles the timeout or time budget that has expired, if any.
    async fn check_timeouts(&mut self, drive: &mut SegmentRun<'_>, now: Instant) {
        if drive.stop.is_some() {
            return;
        }
        if drive.governor.time_budget_ends_at().is_some_and(|at| at <= now) {
            let grace = self.shared.limits.interrupt_grace;
            self.stop_for_budget(drive, "budget_seconds", grace).await;
            return;
        }
        let (at, rang) = drive.governor.watchdog.next_timeout();
        if at > now {
            return;
        }
        if rang.state == WatchdogState::AwaitingApproval {
            for id in drive.approvals.requested_by(now - rang.after) {
                let decision = Decision::new(Verdict::Deny, "timeout")
                    .with_note("nobody answered in time (approval_timeout)");
                // Cannot fail: only this task removes pending approvals.
                let _taken = self.decide(drive, id, decision).await;
            }
            return;
        }
        let code =
            if rang.state == WatchdogState::Background { "background_stopped" } else { "timeout" };
        let notice =
            Notice::new(NoticeLevel::Warning, code, format!("stopped: the agent was {rang}"));
        self.record_events(drive, vec![EventKind::Notice(notice)]).await;
        drive.stop(StopCause::Timeout(rang), TIMEOUT_GRACE);
    }

    async fn stop_for_budget(
        &mut self,
        drive: &mut SegmentRun<'_>,
        setting: &'static str,
        grace: Duration,
    ) {
        if drive.stop.is_some() {
            return;
        }
        let notice =
            Notice::new(NoticeLevel::Info, "budget_reached", format!("{setting} is used up"));
        self.record_events(drive, vec![EventKind::Notice(notice)]).await;
        drive.stop(StopCause::Budget(setting), grace);
    }

    /// Converts the end of the agent's run to the outcome of the segment, and closes an agent that is not fit
    /// for reuse.
    async fn conclude_segment(
        &mut self,
        end: RunEnd,
        stop: Option<StopCause>,
        broken: Option<StoreError>,
    ) -> SegmentEnd {
        let obeyed = matches!(end, RunEnd::Ended(_));
        // An agent whose background work timed out is healthy, because its answer is complete.
        let hung = matches!(&stop, Some(StopCause::Timeout(rang)) if rang.state != WatchdogState::Background);
        if !obeyed || hung {
            // The agent panicked, hung or did not stop: its state is unknown, so it is not reused.
            let grace = if hung { TIMEOUT_GRACE / 2 } else { self.shared.limits.close_grace };
            self.close_agent_within(grace).await;
        }
        if let Some(error) = broken {
            return AgentOutcome::failed(store_failure(&error)).into();
        }
        match (end, stop) {
            (RunEnd::Panicked, _) => {
                let message = "the agent's driver panicked; this is a bug in angelia";
                AgentOutcome::failed(Failure::new(FailureKind::Internal, message)).into()
            }
            (_, Some(StopCause::Timeout(rang))) if hung => timeout_outcome(&rang).into(),
            (RunEnd::Ended(ended), Some(StopCause::Budget(setting)))
                if ended.status == TurnStatus::Interrupted =>
            {
                let reason = setting.into();
                let ended = AgentOutcome { status: TurnStatus::Partial, text: None, reason };
                SegmentEnd { outcome: ended, exhausted_budget: Some(setting) }
            }
            (RunEnd::Ended(ended), Some(StopCause::Shutdown))
                if ended.status == TurnStatus::Interrupted =>
            {
                AgentOutcome { reason: SHUTDOWN_REASON.into(), ..ended }.into()
            }
            (RunEnd::Ended(ended), _) => ended.into(),
            (RunEnd::Abandoned, Some(StopCause::Shutdown)) => {
                interrupted_outcome(SHUTDOWN_REASON).into()
            }
            (RunEnd::Abandoned, Some(StopCause::Budget(setting))) => {
                AgentOutcome { status: TurnStatus::Partial, text: None, reason: setting.into() }
                    .into()
            }
            (RunEnd::Abandoned, _) => {
                interrupted_outcome("interrupted; the agent did not stop and was terminated").into()
            }
        }
    }

    async fn record_batch(&mut self, drive: &mut SegmentRun<'_>, batch: Vec<AgentEvent>) {
        let now = Instant::now();
        let mut kinds = Vec::with_capacity(batch.len());
        let mut used_up = None;
        let (mut asked, mut called) = (false, false);
        for emitted in batch {
            match emitted {
                AgentEvent::Event(mut kind) => {
                    match &mut kind {
                        EventKind::Started(started) => self.store_agent_start(started).await,
                        EventKind::ToolResult(result) => drive.unasked_edits.add_to(result),
                        _ => {}
                    }
                    drive.governor.watchdog.on_event(&kind, now);
                    used_up = used_up.or(drive.governor.meter.on_event(&kind));
                    kinds.push(kind);
                }
                AgentEvent::ApprovalRequest(request) => {
                    let id = request.tool_id.as_ref();
                    if id.is_some_and(|id| !drive.governor.meter.admit_call(id)) {
                        used_up = used_up.or(Some(TOOL_BUDGET));
                    }
                    // A turn that is being stopped must not start anything new.
                    if used_up.is_some() || drive.stop.is_some() {
                        let decision = Decision::new(Verdict::Stop, "turn ended")
                            .with_note("the turn is being stopped");
                        drive.send_control(TurnControl::Decide { key: request.key, decision });
                        continue;
                    }
                    let (kind, is_open) = self.request_approval(drive, request).await;
                    kinds.extend(kind);
                    asked |= is_open;
                }
                AgentEvent::ApprovalWithdrawn(key) => {
                    if let Some(id) = drive.approvals.withdraw(&key) {
                        self.shared.pending_approvals().remove(&id);
                        drive.update_oldest_approval(now);
                        kinds.push(resolution_event(id, Verdict::Deny, "agent"));
                    }
                }
                AgentEvent::Activity(activity) => {
                    drive.governor.watchdog.on_activity(activity, now);
                    // Even if the turn is already waiting, the caller must learn about every further call.
                    called |= activity == Activity::AwaitingToolResult;
                }
                AgentEvent::Quota(report) => self.store_quota(report).await,
                AgentEvent::HandedOnCost(usd) => {
                    used_up = used_up.or(drive.governor.meter.on_handed_on_cost(usd));
                }
            }
        }
        if called {
            let text = "the agent waits for the results of the caller's tools";
            let notice = Notice::new(NoticeLevel::Info, AWAITING_TOOL_RESULT_NOTICE, text);
            kinds.push(EventKind::Notice(notice));
            // Set the state first, because a caller that sees the notice may send its result at once.
            self.store_turn_state(drive, &TurnState::AwaitingToolResult).await;
        }
        self.record_events(drive, kinds).await;
        if asked {
            drive.update_oldest_approval(now);
            self.store_turn_state(drive, &TurnState::AwaitingApproval).await;
        }
        if drive.recorder.is_output_limit_reached() {
            // Do not wait long for an agent that writes this much.
            self.stop_for_budget(drive, OUTPUT_LIMIT_SETTING, TIMEOUT_GRACE).await;
        }
        if let Some(setting) = used_up {
            let grace = self.shared.limits.interrupt_grace;
            self.stop_for_budget(drive, setting, grace).await;
        }
    }

    pub(super) async fn record_events(
        &mut self,
        drive: &mut SegmentRun<'_>,
        kinds: Vec<EventKind>,
    ) {
        if drive.store_error.is_some() {
            return;
        }
        if let Err(error) = drive.recorder.record(kinds).await {
            self.stop_unrecorded(drive, error);
        }
    }

    fn stop_unrecorded(&self, drive: &mut SegmentRun<'_>, error: StoreError) {
        tracing::error!(turn = %drive.turn.id, %error, "the turn cannot be recorded; stopping it");
        drive.store_error = Some(error);
        // An agent must not continue to act while its events are not recorded.
        drive.stop(StopCause::Requested, self.shared.limits.interrupt_grace);
    }

    pub(super) async fn store_turn_state(&mut self, drive: &mut SegmentRun<'_>, now: &TurnState) {
        let set = self.shared.store.set_turn_state(&self.lease, drive.turn.id, now);
        if let Err(error) = set.await {
            tracing::warn!(turn = %drive.turn.id, %error, "the turn's state could not be stored");
        }
        // The session shows the state of its newest turn, so it changes too.
        self.shared.announce(EngineChange::Turn(drive.turn.id));
        self.shared.announce(EngineChange::Session(self.record.id));
    }

    async fn handle_during_turn(
        &mut self,
        drive: &mut SegmentRun<'_>,
        command: SessionCommand,
    ) -> ControlFlow<()> {
        match command {
            SessionCommand::Interrupt { turn, kill: true } if turn == drive.turn.id => {
                drive.stop.get_or_insert(StopCause::Requested);
                return ControlFlow::Break(());
            }
            SessionCommand::Interrupt { turn, kill: false } if turn == drive.turn.id => {
                drive.stop(StopCause::Requested, self.shared.limits.interrupt_grace);
            }
            SessionCommand::Decide { approval, decision, reply } => {
                let answer = self.decide(drive, approval, decision).await;
                let _gone = reply.send(answer);
            }
            SessionCommand::Steer { turn, input, reply } if turn == drive.turn.id => {
                let answer = self.steer(drive, input).await;
                let _gone = reply.send(answer);
            }
            SessionCommand::ToolResult { turn, id, ok, content, reply }
                if turn == drive.turn.id =>
            {
                let watchdog = &mut drive.governor.watchdog;
                let waited = watchdog.awaits_tool_result();
                watchdog.on_tool_result(Instant::now());
                if waited && !watchdog.awaits_tool_result() {
                    self.store_turn_state(drive, &TurnState::Running).await;
                }
                drive.send_control(TurnControl::ToolResult { id, ok, content });
                let _gone = reply.send(Ok(()));
            }
            other => self.handle(other, false).await,
        }
        ControlFlow::Continue(())
    }

    /// Passes text to the running agent if its executor supports steering; otherwise returns the text.
    async fn steer(
        &mut self,
        drive: &mut SegmentRun<'_>,
        input: Vec<Content>,
    ) -> Result<Option<Vec<Content>>, EngineError> {
        let executor = self.shared.executor(&self.record.spec.executor)?;
        if !executor.capabilities().steer || drive.stop.is_some() {
            return Ok(Some(input));
        }
        let text = "the added text was passed to the running turn";
        let notice = EventKind::Notice(Notice::new(NoticeLevel::Info, "steered", text));
        self.record_events(drive, vec![notice]).await;
        drive.send_control(TurnControl::Steer(input));
        Ok(None)
    }
}

impl SegmentRun<'_> {
    /// Asks the agent to stop. The first cause and the first deadline win.
    fn stop(&mut self, cause: StopCause, grace: Duration) {
        self.stop.get_or_insert(cause);
        self.cancel.cancel();
        self.abandon_at.get_or_insert_with(|| Instant::now() + grace);
    }

    /// Returns the next instant at which something must happen: a timeout, giving up on the agent, or saving
    /// text.
    fn deadline(&self) -> Instant {
        let timeout_at = self.show_clock();
        let budget_ends_at = self.governor.time_budget_ends_at();
        let at = budget_ends_at.map_or(timeout_at, |at| at.min(timeout_at));
        let at = self.abandon_at.unwrap_or(at);
        self.recorder.save_text_at().map_or(at, |save_at| save_at.min(at))
    }

    /// Publishes which timeout expires next, and returns when it does.
    fn show_clock(&self) -> Instant {
        let (at, timeout) = self.governor.watchdog.next_timeout();
        self.recorder.show_timeout(at, &timeout);
        at
    }

    pub(super) fn update_oldest_approval(&mut self, now: Instant) {
        self.governor.watchdog.set_oldest_approval(self.approvals.oldest_requested_at(), now);
        // Publish the timeout before anybody learns that the turn waits.
        self.show_clock();
    }

    /// Queues a message to the agent. It is sent as soon as the channel has room.
    pub(super) fn send_control(&mut self, control: TurnControl) {
        self.unsent_controls.push_back(control);
    }

    /// Waits until the channel has room for the oldest queued message, and sends it. Cancel safe.
    async fn send_queued_control(&mut self) {
        let Ok(room) = self.control.reserve().await else {
            // The agent has dropped its end, so the messages cannot be delivered.
            self.unsent_controls.clear();
            return;
        };
        if let Some(control) = self.unsent_controls.pop_front() {
            room.send(control);
        }
    }
}

//! Runs one turn from its first event to its outcome: opens or reuses an agent, runs a segment, and
//! continues with further segments when a budget or a quota has ended one.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep_until};

use super::{
    budget::{BudgetMeter, lower_limit},
    changes::EngineChange,
    drain::restarted_outcome,
    output_limit::OUTPUT_LIMIT_SETTING,
    quota::{NextStep, ParkEnd},
    recorder::Recorder,
    session_actor::{LiveAgent, QueuedTurn, SessionActor},
    session_command::SessionCommand,
    turn_span::TurnSpan,
    watchdog::{StateTimeout, Watchdog},
};
use crate::{
    model::{
        Content, EventKind, Failure, FailureKind, Notice, NoticeLevel, Outcome, Turn, TurnId,
        TurnState, TurnStatus,
    },
    ports::{AgentOutcome, StoreError},
};

/// Input of a segment that continues a turn.
const CONTINUE_PROMPT: &str = "Continue where you left off.";

/// The limits of one running turn: timeouts and budgets.
pub(super) struct TurnGovernor {
    pub(super) watchdog: Watchdog,
    pub(super) meter: BudgetMeter,
}

impl TurnGovernor {
    fn new(actor: &SessionActor, queued: &QueuedTurn, now: Instant) -> Self {
        let spec = &actor.record.spec;
        let mut budgets = spec.budgets.clone();
        budgets.cost_usd = lower_limit(budgets.cost_usd, queued.max_cost_usd);
        Self {
            watchdog: Watchdog::new(spec.timeouts.clone(), now),
            meter: BudgetMeter::new(budgets, queued.spend.clone(), now),
        }
    }

    /// Returns when the segment's time budget ends, or `None` while the turn waits for a person or
    /// a caller's tool, because that time does not count.
    pub(super) fn time_budget_ends_at(&self) -> Option<Instant> {
        Some(self.meter.time_budget_ends_at()? + self.watchdog.total_pause()?)
    }

    pub(super) fn restart(&mut self, now: Instant) {
        self.watchdog.restart(now);
        self.meter.restart(now);
    }
}

/// The reason recorded for a turn that was interrupted because its process was stopped.
pub const SHUTDOWN_REASON: &str = "angelia was shut down";

/// Why the engine asked an agent to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StopCause {
    /// A client requested it, or the turn cannot be recorded.
    Requested,
    Shutdown,
    Timeout(StateTimeout),
    /// Name of the setting whose budget is used up.
    Budget(&'static str),
}

pub(super) struct SegmentEnd {
    pub(super) outcome: AgentOutcome,
    /// The setting whose budget ended the segment, if the agent can continue.
    pub(super) exhausted_budget: Option<&'static str>,
}

impl From<AgentOutcome> for SegmentEnd {
    fn from(ended: AgentOutcome) -> Self {
        Self { outcome: ended, exhausted_budget: None }
    }
}

impl SessionActor {
    /// Runs one turn and always records its outcome, even after an error or a panic.
    pub(super) async fn run_turn(&mut self, queued: QueuedTurn) {
        self.is_one_off = queued.one_off;
        let span = TurnSpan::begin(queued.turn.id, &self.record);
        let mut recorder = self.new_recorder(&queued.log);
        let ended = match self.run_segments(&queued, &mut recorder).await {
            Ok(Some(ended)) => ended,
            Ok(None) => {
                span.end_parked();
                return self.leave_turn(&queued.log);
            }
            Err(error) => AgentOutcome::failed(store_failure(&error)),
        };
        let is_ended_by_restart = ended.status == TurnStatus::Interrupted
            && self.stop.is_cancelled()
            && self.is_handing_over();
        let ended = if is_ended_by_restart { restarted_outcome(ended) } else { ended };
        let is_cut = recorder.is_output_limit_reached();
        let (status, reason) = match ended.status {
            TurnStatus::Completed if is_cut => (TurnStatus::Partial, OUTPUT_LIMIT_SETTING.into()),
            status => (status, ended.reason),
        };
        // The agent's own answer covers only the last segment of a turn.
        let own_words = ended.text.filter(|_| recorder.is_first_segment() && !is_cut);
        let outcome = Outcome {
            status,
            text: own_words.unwrap_or_else(|| recorder.answer()),
            reason,
            usage: recorder.usage(),
        };
        span.end(&self.record, &outcome, queued.log.first_word());
        let status = outcome.status.clone();
        self.finish_turn(&mut recorder, outcome, queued.turn.id).await;
        self.consider_review(&status);
        if !self.record.spec.resume {
            // Without `resume`, every turn starts a new process.
            self.close_agent().await;
        }
    }

    /// Runs segments until the turn ends. Returns `None` if the turn stays parked.
    async fn run_segments(
        &mut self,
        queued: &QueuedTurn,
        recorder: &mut Recorder,
    ) -> Result<Option<AgentOutcome>, StoreError> {
        let QueuedTurn { turn, parked_until, was_running, .. } = queued;
        let mut input = turn.clone();
        if !was_running && parked_until.is_none() {
            // Set this before the agent gets the input, so that after a crash a queued turn is
            // known not to have run.
            let store = Arc::clone(&self.shared.store);
            store.set_turn_state(&self.lease, turn.id, &TurnState::Running).await?;
            self.announce(EngineChange::Turn(turn.id));
        }
        if parked_until.is_none() {
            self.conclude_review(turn.id, recorder).await?;
        }
        if let Some(resumes_at) = *parked_until {
            recorder.catch_up().await?;
            match self.wait_parked(turn.id, resumes_at, recorder).await? {
                ParkEnd::Elapsed => input = continuation_input(turn, recorder),
                ParkEnd::Interrupted => {
                    return Ok(Some(interrupted_outcome("interrupted while parked")));
                }
                ParkEnd::ShuttingDown => return Ok(None),
            }
        }
        let mut governor = TurnGovernor::new(self, queued, Instant::now());
        let mut resumes = 0;
        loop {
            let end = self.run_segment(&input, recorder, &mut governor).await;
            if let Some(setting) = end.exhausted_budget
                && resumes < governor.meter.max_resumes()
                && !governor.meter.is_cost_budget_used_up()
                && !recorder.is_output_limit_reached()
                && !self.stop.is_cancelled()
            {
                resumes += 1;
                let text = format!(
                    "{setting} is used up; continuing ({resumes} of {})",
                    governor.meter.max_resumes()
                );
                let notice = EventKind::Notice(Notice::new(NoticeLevel::Info, "resumed", text));
                recorder.record(vec![notice]).await?;
                input.input = vec![Content::text(CONTINUE_PROMPT)];
            } else {
                let step = self.next_step(&end.outcome, &turn.options, recorder, turn.id);
                match step.await {
                    NextStep::End => return Ok(Some(end.outcome)),
                    // The fallback agent gets the original input; its history contains the earlier
                    // turns.
                    NextStep::SwitchedToFallback => input.input.clone_from(&turn.input),
                    NextStep::Park { resumes_at } => {
                        match self.park(turn.id, resumes_at, recorder).await? {
                            ParkEnd::Elapsed => input = continuation_input(turn, recorder),
                            ParkEnd::Interrupted => {
                                return Ok(Some(interrupted_outcome("interrupted while parked")));
                            }
                            ParkEnd::ShuttingDown => return Ok(None),
                        }
                    }
                }
            }
            recorder.next_segment();
            governor.restart(Instant::now());
        }
    }

    async fn run_segment(
        &mut self,
        turn: &Turn,
        recorder: &mut Recorder,
        governor: &mut TurnGovernor,
    ) -> SegmentEnd {
        if let Some(ended) = self.known_quota_failure() {
            return ended.into();
        }
        let ready = match self.reusable_agent().await {
            Some(live) => Ok(live),
            None => self.open_agent(turn, recorder, governor).await,
        };
        match ready {
            Ok(live) => self.drive_agent(live, turn, recorder, governor).await,
            Err(ended) => ended.into(),
        }
    }

    /// Returns the session's live agent if it can run this turn; otherwise closes it.
    async fn reusable_agent(&mut self) -> Option<LiveAgent> {
        let mut live = self.agent.take()?;
        let unfit = live.fingerprint.difference(&self.fingerprint);
        let unfit = unfit.or_else(|| (!live.agent.is_usable()).then_some("process has gone"));
        let Some(reason) = unfit else {
            return Some(live);
        };
        tracing::debug!(session = %self.id(), reason, "the live agent is not reused");
        self.agent = Some(live);
        self.close_agent().await;
        None
    }

    /// Awaits a step before the agent runs, and aborts it on an interrupt, a shutdown or a timeout.
    pub(super) async fn unless_interrupted<T>(
        &mut self,
        turn: TurnId,
        rings: Option<(Instant, StateTimeout)>,
        work: impl Future<Output = T>,
    ) -> Result<T, AgentOutcome> {
        let mut work = std::pin::pin!(work);
        let at = rings.as_ref().map_or_else(far_future, |(at, _)| *at);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return Ok(done),
                () = self.stop.cancelled() => return Err(interrupted_outcome(SHUTDOWN_REASON)),
                () = sleep_until(at) => {
                    if let Some((_, rang)) = rings {
                        return Err(timeout_outcome(&rang));
                    }
                }
                command = self.commands.recv(), if !self.commands.is_closed() => match command {
                    Some(SessionCommand::Interrupt { turn: wanted, .. }) if wanted == turn => {
                        return Err(interrupted_outcome("interrupted"));
                    }
                    Some(command) => self.handle(command, false).await,
                    None => {}
                },
            }
        }
    }
}

/// Returns the input for the next segment: the original one if the agent has produced nothing yet.
fn continuation_input(turn: &Turn, recorder: &Recorder) -> Turn {
    let mut turn = turn.clone();
    if recorder.has_output() {
        turn.input = vec![Content::text(CONTINUE_PROMPT)];
    }
    turn
}

pub(super) fn far_future() -> Instant {
    Instant::now() + Duration::from_hours(24 * 365)
}

pub(super) fn interrupted_outcome(reason: &str) -> AgentOutcome {
    AgentOutcome { status: TurnStatus::Interrupted, text: None, reason: reason.into() }
}

/// Returns the outcome of a turn that was ended by a timeout. Its reason names the setting and the
/// state.
pub(super) fn timeout_outcome(rang: &StateTimeout) -> AgentOutcome {
    let hint = format!("if that is normal here, raise `{}` in the profile", rang.setting);
    let failure = Failure::new(FailureKind::Timeout, format!("the agent was {rang}"));
    AgentOutcome {
        reason: format!("{} while {}", rang.setting, rang.state).into(),
        ..AgentOutcome::failed(failure.with_hint(hint))
    }
}

pub(super) fn store_failure(error: &StoreError) -> Failure {
    let hint = "free space on the disk or check $ANGELIA_HOME/state.db, then send the turn again";
    Failure::new(FailureKind::Internal, format!("the turn could not be recorded: {error}"))
        .with_hint(hint)
}

/// Returns the outcome that viewers see if the real one could not be stored.
pub(super) fn unrecorded_outcome(outcome: Outcome, error: &StoreError) -> Outcome {
    Outcome {
        status: TurnStatus::Failed(store_failure(error)),
        reason: "internal".into(),
        ..outcome
    }
}

//! Handles exhausted quotas: a fallback profile takes over, or the turn is parked until the reset.
//!
//! A vendor's reset time is trusted only for a limited time. After that a turn is tried again, so
//! that one wrong report never blocks a profile for days.

use std::{collections::HashMap, sync::Arc, time::Duration};

use jiff::{RoundMode, Timestamp, TimestampRound, Unit};
use parking_lot::Mutex;
use tokio::time::sleep;

use super::{
    changes::EngineChange,
    history::{self, ConversationEnd},
    recorder::Recorder,
    session_actor::SessionActor,
    session_command::SessionCommand,
};
use crate::{
    model::{
        EventKind, Failure, FailureKind, Mode, Notice, NoticeLevel, Quota, QuotaReport,
        SessionSpec, TurnId, TurnOptions, TurnState, TurnStatus,
    },
    ports::{AgentOutcome, StoreError},
};

/// How long other turns of a profile fail at once after one turn has hit the quota.
const LIMIT_TRUST: Duration = Duration::from_mins(15);

/// Maximum wait of a parked turn before it is tried again, however late the reset is.
pub(super) const MAX_PARK_WAIT: Duration = Duration::from_hours(6);

/// Interval at which a parked turn checks the wall clock, because timers stop while the machine
/// sleeps.
const WALL_CLOCK_CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// The latest quota reports that this process has stored. A repeated report is not stored again.
#[derive(Debug, Default)]
pub(super) struct ReportedQuotas(Mutex<HashMap<QuotaKey, QuotaReport>>);

/// The executor and the window.
type QuotaKey = (Arc<str>, Arc<str>);

impl ReportedQuotas {
    /// Adds a report and returns whether it is new.
    fn insert(&self, executor: &Arc<str>, report: &QuotaReport) -> bool {
        let key = (Arc::clone(executor), Arc::clone(&report.window));
        self.0.lock().insert(key, report.clone()).as_ref() != Some(report)
    }
}

/// The profiles that this process knows to have exhausted their quota.
#[derive(Debug, Default)]
pub(super) struct ExhaustedQuotas(Mutex<HashMap<Arc<str>, QuotaLimit>>);

#[derive(Clone, Copy, Debug)]
struct QuotaLimit {
    resets_at: Timestamp,
    trusted_until: Timestamp,
}

impl ExhaustedQuotas {
    fn insert(&self, profile: &Arc<str>, resets_at: Timestamp, now: Timestamp) {
        let believed_until = time_after(now, LIMIT_TRUST).min(resets_at);
        let limited = QuotaLimit { resets_at, trusted_until: believed_until };
        self.0.lock().insert(Arc::clone(profile), limited);
    }

    pub(super) fn remove(&self, profile: &str) {
        self.0.lock().remove(profile);
    }

    fn reset_time(&self, profile: &str, now: Timestamp) -> Option<Timestamp> {
        let limited = *self.0.lock().get(profile)?;
        (limited.trusted_until > now).then_some(limited.resets_at)
    }
}

pub(super) fn time_after(now: Timestamp, wait: Duration) -> Timestamp {
    now.checked_add(wait).unwrap_or(Timestamp::MAX)
}

/// Rounds up to a second: never earlier than the reset, and no more precise than the vendor's
/// report.
fn round_up_to_second(at: Timestamp) -> Timestamp {
    let up = TimestampRound::new().smallest(Unit::Second).mode(RoundMode::Ceil);
    at.round(up).unwrap_or(at)
}

/// Next step of a turn after a segment.
pub(super) enum NextStep {
    /// The turn ends with the segment's outcome.
    End,
    /// The session now uses its fallback profile.
    SwitchedToFallback,
    Park {
        resumes_at: Timestamp,
    },
}

/// Why the wait for a quota ended.
pub(super) enum ParkEnd {
    Elapsed,
    Interrupted,
    /// The process is shutting down; the turn stays parked until another process resumes it.
    ShuttingDown,
}

impl SessionActor {
    /// Stores a quota report of the agent, unless it repeats the previous one.
    pub(super) async fn store_quota(&mut self, report: QuotaReport) {
        let executor = Arc::clone(&self.record.spec.executor);
        if !self.shared.reported_quotas.insert(&executor, &report) {
            return;
        }
        let reported_at = self.shared.clock.now();
        let quota = Quota { executor, report, reported_at };
        if let Err(error) = self.shared.store.save_quota(quota).await {
            tracing::debug!(%error, "the report of a quota could not be stored");
        }
        self.shared.announce(EngineChange::Quota);
    }

    /// Returns the failure of a turn whose profile is known to have no quota left, without trying
    /// the turn.
    pub(super) fn known_quota_failure(&self) -> Option<AgentOutcome> {
        let now = self.shared.clock.now();
        let profile = &self.record.spec.profile;
        let resets_at = self.shared.quotas.reset_time(profile, now)?;
        let mut failure = Failure::new(
            FailureKind::RateLimited,
            format!("the quota of profile `{profile}` is used up"),
        )
        .with_hint(format!("it resets at {resets_at}"));
        failure.retry_after = Duration::try_from(resets_at.duration_since(now)).ok();
        Some(AgentOutcome::failed(failure))
    }

    /// Decides how a turn continues after a segment, and remembers an exhausted quota.
    pub(super) async fn next_step(
        &mut self,
        ended: &AgentOutcome,
        options: &TurnOptions,
        recorder: &mut Recorder,
        turn: TurnId,
    ) -> NextStep {
        let wait = match &ended.status {
            TurnStatus::Completed => {
                self.shared.quotas.remove(&self.record.spec.profile);
                None
            }
            TurnStatus::Failed(failure) if failure.kind == FailureKind::RateLimited => {
                failure.retry_after
            }
            _ => None,
        };
        let Some(wait) = wait else { return NextStep::End };
        let now = self.shared.clock.now();
        let resumes_at = round_up_to_second(time_after(now, wait));
        let profile = Arc::clone(&self.record.spec.profile);
        // A failure caused by this list itself must not renew the entry.
        if self.shared.quotas.reset_time(&profile, now).is_none() {
            self.shared.quotas.insert(&profile, resumes_at, now);
        }
        if self.stop.is_cancelled() {
            return NextStep::End;
        }
        // The fallback agent gets the whole input again, so the effects of a tool call would be
        // repeated.
        if !recorder.has_called_tool() {
            match self.switch_to_fallback(recorder, resumes_at, turn).await {
                Ok(true) => return NextStep::SwitchedToFallback,
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(%turn, %error, "the fallback profile could not take over");
                }
            }
        }
        if options.can_park { NextStep::Park { resumes_at } } else { NextStep::End }
    }

    /// Switches the session to its fallback profile. Returns `false` if there is none or it must
    /// not be used.
    async fn switch_to_fallback(
        &mut self,
        recorder: &mut Recorder,
        resets_at: Timestamp,
        turn: TurnId,
    ) -> Result<bool, StoreError> {
        let spec = &self.record.spec;
        let Some(fallback) = spec.fallback.as_deref() else {
            return Ok(false);
        };
        // A caller that chose model mode must not get an agent that can access this machine.
        if spec.mode == Mode::Model && fallback.mode != Mode::Model {
            return Ok(false);
        }
        let Ok(executor) = self.shared.executor(&fallback.executor) else {
            return Ok(false);
        };
        let end = ConversationEnd::Before(turn);
        let history = history::messages(&*self.shared.store, &self.record, end).await?;
        if !history.is_empty() && !executor.capabilities().carry_history {
            return Ok(false);
        }
        let next = SessionSpec {
            history,
            history_until: history::last_turn_before(&*self.shared.store, &self.record, turn)
                .await?,
            caller_tools: spec.caller_tools.clone(),
            output_schema: spec.output_schema.clone(),
            ..fallback.clone()
        };
        let text = format!(
            "the quota of profile `{}` is used up until {resets_at}; profile `{}` takes over",
            spec.profile, next.profile
        );
        self.relaunch(next).await?;
        let notice = Notice::new(NoticeLevel::Warning, "fallback", text);
        recorder.record(vec![EventKind::Notice(notice)]).await?;
        Ok(true)
    }

    /// Parks a turn until its quota resets, and closes its agent in the meantime.
    pub(super) async fn park(
        &mut self,
        turn: TurnId,
        resumes_at: Timestamp,
        recorder: &mut Recorder,
    ) -> Result<ParkEnd, StoreError> {
        self.close_agent().await;
        let state = TurnState::Parked { resumes_at };
        let store = Arc::clone(&self.shared.store);
        store.set_turn_state(&self.lease, turn, &state).await?;
        let text = format!("the quota is used up; the turn continues on its own at {resumes_at}");
        let notice = Notice::new(NoticeLevel::Warning, PARKED_NOTICE, text);
        recorder.record(vec![EventKind::Notice(notice)]).await?;
        self.wait_parked(turn, resumes_at, recorder).await
    }

    /// Waits for a turn that is already parked.
    pub(super) async fn wait_parked(
        &mut self,
        turn: TurnId,
        resumes_at: Timestamp,
        recorder: &mut Recorder,
    ) -> Result<ParkEnd, StoreError> {
        let until = time_after(self.shared.clock.now(), MAX_PARK_WAIT).min(resumes_at);
        let waited = self.wait_until(turn, until).await;
        if matches!(waited, ParkEnd::Elapsed) {
            self.shared.quotas.remove(&self.record.spec.profile);
            let store = Arc::clone(&self.shared.store);
            store.set_turn_state(&self.lease, turn, &TurnState::Running).await?;
            let notice =
                Notice::new(NoticeLevel::Info, "resumed", "trying again after the quota limit");
            recorder.record(vec![EventKind::Notice(notice)]).await?;
        }
        Ok(waited)
    }

    async fn wait_until(&mut self, turn: TurnId, until: Timestamp) -> ParkEnd {
        loop {
            let left = until.duration_since(self.shared.clock.now());
            let left = Duration::try_from(left).unwrap_or(Duration::ZERO);
            let is_draining = self.shared.drain.is_draining();
            if left.is_zero() && !is_draining {
                return ParkEnd::Elapsed;
            }
            let shared = Arc::clone(&self.shared);
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return ParkEnd::ShuttingDown,
                command = self.commands.recv(), if !self.commands.is_closed() => match command {
                    Some(SessionCommand::Interrupt { turn: wanted, .. }) if wanted == turn => {
                        return ParkEnd::Interrupted;
                    }
                    Some(command) => self.handle(command, false).await,
                    None => {}
                },
                () = shared.drain.wait_until_over(), if is_draining => {}
                () = sleep(left.min(WALL_CLOCK_CHECK_INTERVAL)), if !is_draining => {}
            }
        }
    }
}

/// Code of the notice of a parked turn.
pub const PARKED_NOTICE: &str = "parked";

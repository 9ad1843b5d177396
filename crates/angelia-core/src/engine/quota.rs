//! Exhausted quotas: a fallback profile takes over, or the turn is parked until the reset.
//!
//! A vendor's reset time is trusted for a limited time only, then a turn is tried again: one wrong
//! report never blocks a profile for days.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::{RoundMode, Timestamp, TimestampRound, Unit};
use tokio::time::sleep;

use super::{
    history,
    recorder::Recorder,
    session::{Command, SessionActor},
};
use crate::{
    model::{
        EventKind, Failure, FailureKind, Level, Mode, Notice, SessionSpec, Status, TurnId,
        TurnOptions, TurnState,
    },
    ports::{Ended, StoreError},
};

/// How long other turns of a profile fail at once after one has hit the quota.
const BELIEVED: Duration = Duration::from_mins(15);

/// Longest time a parked turn waits before it is tried again, however late the reset is.
pub(super) const LONGEST_WAIT: Duration = Duration::from_hours(6);

/// How often a parked turn checks the wall clock: timers stand still while the machine sleeps.
const LOOK: Duration = Duration::from_secs(30);

/// The profiles whose quota is exhausted, as far as this process knows.
#[derive(Debug, Default)]
pub(super) struct Quotas(Mutex<HashMap<Arc<str>, Limited>>);

#[derive(Clone, Copy, Debug)]
struct Limited {
    resets_at: Timestamp,
    believed_until: Timestamp,
}

impl Quotas {
    fn note(&self, profile: &Arc<str>, resets_at: Timestamp, now: Timestamp) {
        let believed_until = after(now, BELIEVED).min(resets_at);
        let limited = Limited { resets_at, believed_until };
        self.lock().insert(Arc::clone(profile), limited);
    }

    pub(super) fn forget(&self, profile: &str) {
        self.lock().remove(profile);
    }

    fn known(&self, profile: &str, now: Timestamp) -> Option<Timestamp> {
        let limited = *self.lock().get(profile)?;
        (limited.believed_until > now).then_some(limited.resets_at)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Limited>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn after(now: Timestamp, wait: Duration) -> Timestamp {
    now.checked_add(wait).unwrap_or(Timestamp::MAX)
}

/// Rounds up to a second: never before the reset, and no more exact than the vendor's report.
fn whole_seconds(at: Timestamp) -> Timestamp {
    let up = TimestampRound::new().smallest(Unit::Second).mode(RoundMode::Ceil);
    at.round(up).unwrap_or(at)
}

/// Next step of a turn after a segment.
pub(super) enum Step {
    /// The turn ends with the segment's outcome.
    End,
    /// The session now uses its fallback profile.
    TakenOver,
    Park {
        resumes_at: Timestamp,
    },
}

/// Why the wait for a quota ended.
pub(super) enum Waited {
    Over,
    Interrupted,
    /// The process is shutting down; the turn stays parked until another process resumes it.
    Left,
}

impl SessionActor {
    /// Returns the failure of a turn whose profile is known to have no quota, without trying it.
    pub(super) fn known_limit(&self) -> Option<Ended> {
        let now = self.shared.clock.now();
        let profile = &self.record.spec.profile;
        let resets_at = self.shared.quotas.known(profile, now)?;
        let mut failure = Failure::new(
            FailureKind::RateLimited,
            format!("the quota of profile `{profile}` is used up"),
        )
        .with_hint(format!("it resets at {resets_at}"));
        failure.retry_after = Duration::try_from(resets_at.duration_since(now)).ok();
        Some(Ended::failed(failure))
    }

    /// Decides how a turn goes on after a segment, and remembers an exhausted quota.
    pub(super) async fn after_segment(
        &mut self,
        ended: &Ended,
        options: &TurnOptions,
        recorder: &mut Recorder,
        turn: TurnId,
    ) -> Step {
        let wait = match &ended.status {
            Status::Completed => {
                self.shared.quotas.forget(&self.record.spec.profile);
                None
            }
            Status::Failed(failure) if failure.kind == FailureKind::RateLimited => {
                failure.retry_after
            }
            _ => None,
        };
        let Some(wait) = wait else { return Step::End };
        let now = self.shared.clock.now();
        let resumes_at = whole_seconds(after(now, wait));
        let profile = Arc::clone(&self.record.spec.profile);
        // A failure that this list itself caused must not renew its entry.
        if self.shared.quotas.known(&profile, now).is_none() {
            self.shared.quotas.note(&profile, resumes_at, now);
        }
        if self.stop.is_cancelled() {
            return Step::End;
        }
        // The fallback agent gets the whole input again, which must not repeat the effects of a
        // tool.
        if !recorder.has_started_tool() {
            match self.take_over(recorder, resumes_at, turn).await {
                Ok(true) => return Step::TakenOver,
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(%turn, %error, "the fallback profile could not take over");
                }
            }
        }
        if options.can_park { Step::Park { resumes_at } } else { Step::End }
    }

    /// Switches the session to its fallback profile. Returns `false` if there is none or it must
    /// not be used.
    async fn take_over(
        &mut self,
        recorder: &mut Recorder,
        resets_at: Timestamp,
        turn: TurnId,
    ) -> Result<bool, StoreError> {
        let spec = &self.record.spec;
        let Some(fallback) = spec.fallback.as_deref() else {
            return Ok(false);
        };
        // A caller that chose model mode must not get an agent that can touch this machine.
        if spec.mode == Mode::Model && fallback.mode != Mode::Model {
            return Ok(false);
        }
        let Ok(executor) = self.shared.executor(&fallback.executor) else {
            return Ok(false);
        };
        let history = history::before(&*self.shared.store, &self.record, turn).await?;
        if !history.is_empty() && !executor.capabilities().carry_history {
            return Ok(false);
        }
        let next = SessionSpec {
            history,
            history_until: history::last_before(&*self.shared.store, &self.record, turn).await?,
            caller_tools: spec.caller_tools.clone(),
            output_schema: spec.output_schema.clone(),
            ..fallback.clone()
        };
        let text = format!(
            "the quota of profile `{}` is used up until {resets_at}; profile `{}` takes over",
            spec.profile, next.profile
        );
        self.launch_anew(next).await?;
        let notice = Notice::new(Level::Warning, "fallback", text);
        recorder.record(vec![EventKind::Notice(notice)]).await?;
        Ok(true)
    }

    /// Parks a turn until its quota resets. Its agent is closed meanwhile.
    pub(super) async fn park(
        &mut self,
        turn: TurnId,
        resumes_at: Timestamp,
        recorder: &mut Recorder,
    ) -> Result<Waited, StoreError> {
        self.close_agent().await;
        recorder.created().await?;
        let state = TurnState::Parked { resumes_at };
        let store = Arc::clone(&self.shared.store);
        store.set_turn_state(&self.lease, turn, &state).await?;
        let text = format!("the quota is used up; the turn goes on by itself at {resumes_at}");
        let notice = Notice::new(Level::Warning, PARKED, text);
        recorder.record(vec![EventKind::Notice(notice)]).await?;
        self.wait_parked(turn, resumes_at, recorder).await
    }

    /// Waits for a turn that is already parked.
    pub(super) async fn wait_parked(
        &mut self,
        turn: TurnId,
        resumes_at: Timestamp,
        recorder: &mut Recorder,
    ) -> Result<Waited, StoreError> {
        let until = after(self.shared.clock.now(), LONGEST_WAIT).min(resumes_at);
        let waited = self.wait_until(turn, until).await;
        if matches!(waited, Waited::Over) {
            self.shared.quotas.forget(&self.record.spec.profile);
            let store = Arc::clone(&self.shared.store);
            store.set_turn_state(&self.lease, turn, &TurnState::Running).await?;
            let notice = Notice::new(Level::Info, "resumed", "trying again after the quota limit");
            recorder.record(vec![EventKind::Notice(notice)]).await?;
        }
        Ok(waited)
    }

    async fn wait_until(&mut self, turn: TurnId, until: Timestamp) -> Waited {
        loop {
            let left = until.duration_since(self.shared.clock.now());
            let Ok(left) = Duration::try_from(left) else {
                return Waited::Over;
            };
            if left.is_zero() {
                return Waited::Over;
            }
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return Waited::Left,
                command = self.commands.recv(), if !self.commands.is_closed() => match command {
                    Some(Command::Interrupt { turn: wanted, .. }) if wanted == turn => {
                        return Waited::Interrupted;
                    }
                    Some(command) => self.handle(command, false).await,
                    None => {}
                },
                () = sleep(left.min(LOOK)) => {}
            }
        }
    }
}

/// Code of the notice of a parked turn.
pub const PARKED: &str = "parked";

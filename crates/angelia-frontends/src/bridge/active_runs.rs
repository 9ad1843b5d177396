//! The active runs of a bridge: one per session, with a limit on their number and size.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use angelia_core::model::{ApprovalId, TurnId};

use super::{BridgeError, BridgeErrorCode, RunRequest};

/// The limit on concurrent runs.
const MAX_RUNS: usize = 1024;
/// The limit on the prompts of all active runs together.
const MAX_PROMPT_BYTES: usize = 256 * 1024 * 1024;

#[derive(Debug, Default)]
pub(super) struct ActiveRuns {
    runs: HashMap<Arc<str>, ActiveRun>,
    /// The number of repeated requests that follow the turn of an active run.
    followers: usize,
    bytes: usize,
    /// Approvals that are not decided yet.
    pub(super) approvals: HashSet<ApprovalId>,
    /// Whether new runs are refused, and runs that are still starting are interrupted.
    is_closing: bool,
    /// Whether the input has ended, so that the host can no longer decide approvals.
    pub(super) is_unattended: bool,
}

#[derive(Debug)]
struct ActiveRun {
    request_id: Arc<str>,
    key: Option<Arc<str>>,
    bytes: usize,
    /// `None` until the turn has started.
    turn: Option<TurnId>,
    interruption: Option<Interruption>,
}

#[derive(Clone, Debug, Default)]
struct Interruption {
    message: Option<Arc<str>>,
}

/// Whether a run owns its session's slot or repeats the request of the run that does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunRole {
    /// The run of the session.
    Owner,
    /// A request with the idempotency key of the session's run. It gets the same events.
    Follower,
}

/// A run that the host wants to interrupt.
#[derive(Debug)]
pub(super) struct InterruptedRun {
    pub(super) request_id: Arc<str>,
    /// `None` if the run will be interrupted as soon as its turn has started.
    pub(super) turn: Option<TurnId>,
}

impl ActiveRuns {
    pub(super) fn admit(&mut self, request: &RunRequest) -> Result<RunRole, BridgeError> {
        let count = self.runs.len() + self.followers;
        let bytes = request.message.len();
        if self.is_closing {
            return Err(BridgeError::new(
                BridgeErrorCode::ShuttingDown,
                "the bridge is shutting down",
            ));
        }
        if let Some(running) = self.runs.get(&request.session_id) {
            let repeats = request.idempotency_key.is_some()
                && request.idempotency_key == running.key
                && running.turn.is_some();
            if !repeats {
                let message = format!(
                    "the session has a run already ({}); wait for its `final`, or interrupt it",
                    running.request_id
                );
                return Err(BridgeError::new(BridgeErrorCode::SessionBusy, message));
            }
        }
        if count >= MAX_RUNS || self.bytes + bytes > MAX_PROMPT_BYTES {
            let message = format!("{count} runs are active; try again when one has ended");
            return Err(BridgeError::new(BridgeErrorCode::TooManyRuns, message));
        }
        if self.runs.contains_key(&request.session_id) {
            self.followers += 1;
            return Ok(RunRole::Follower);
        }
        self.bytes += bytes;
        let running = ActiveRun {
            request_id: Arc::clone(&request.request_id),
            key: request.idempotency_key.clone(),
            bytes,
            turn: None,
            interruption: None,
        };
        self.runs.insert(Arc::clone(&request.session_id), running);
        Ok(RunRole::Owner)
    }

    /// Records the turn of a run. Returns `true` if the turn must be interrupted immediately,
    /// because the host interrupted the run or the bridge closed before the turn was known.
    pub(super) fn record_turn(&mut self, session: &str, turn: TurnId) -> bool {
        let Some(running) = self.runs.get_mut(session) else {
            return self.is_closing;
        };
        running.turn = Some(turn);
        self.is_closing || running.interruption.is_some()
    }

    pub(super) fn interrupt(
        &mut self,
        session: &str,
        message: Option<Arc<str>>,
    ) -> Option<InterruptedRun> {
        let running = self.runs.get_mut(session)?;
        running.interruption = Some(Interruption { message });
        Some(InterruptedRun { request_id: Arc::clone(&running.request_id), turn: running.turn })
    }

    /// Returns the host's reason for interrupting a run.
    pub(super) fn interrupt_reason(&self, session: &str) -> Option<Arc<str>> {
        let interrupted = self.runs.get(session)?.interruption.clone()?;
        interrupted.message
    }

    pub(super) fn release(&mut self, session: &str, part: RunRole) {
        match part {
            RunRole::Follower => self.followers -= 1,
            RunRole::Owner => {
                if let Some(ended) = self.runs.remove(session) {
                    self.bytes -= ended.bytes;
                }
            }
        }
    }

    /// Refuses new runs from now on. Returns the running turns.
    pub(super) fn close(&mut self) -> Vec<TurnId> {
        self.is_closing = true;
        self.runs.values().filter_map(|running| running.turn).collect()
    }
}

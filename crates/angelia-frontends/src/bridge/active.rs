//! The runs of a bridge that are under way: one per session, and not too many.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use angelia_core::model::{ApprovalId, TurnId};

use super::{Code, Refused, RunRequest};

/// How many runs may be under way at once.
const MOST_RUNS: usize = 1024;
/// How much text they may have been given.
const MOST_BYTES: usize = 256 * 1024 * 1024;

#[derive(Debug, Default)]
pub(super) struct Active {
    runs: HashMap<Arc<str>, Running>,
    /// Requests that were made again while their turn runs, and follow it too.
    followers: usize,
    bytes: usize,
    /// What is asked and not decided.
    pub(super) approvals: HashSet<ApprovalId>,
    /// Nothing new begins any more, and what begins is interrupted.
    is_closing: bool,
    /// Nobody can decide any more.
    pub(super) is_unattended: bool,
}

#[derive(Debug)]
struct Running {
    request_id: Arc<str>,
    key: Option<Arc<str>>,
    bytes: usize,
    /// `None`: not begun yet.
    turn: Option<TurnId>,
    interrupted: Option<Interrupted>,
}

#[derive(Clone, Debug, Default)]
struct Interrupted {
    message: Option<Arc<str>>,
}

/// How a run takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The session's run.
    Own,
    /// The same request as the session's run, made again.
    Again,
}

/// A run that is to be stopped.
#[derive(Debug)]
pub(super) struct Stopped {
    pub(super) request_id: Arc<str>,
    /// `None`: it will be stopped when it has begun.
    pub(super) turn: Option<TurnId>,
}

impl Active {
    pub(super) fn admit(&mut self, request: &RunRequest) -> Result<Part, Refused> {
        let count = self.runs.len() + self.followers;
        let bytes = request.message.len();
        if self.is_closing {
            return Err(Refused::new(Code::ShuttingDown, "the bridge is ending"));
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
                return Err(Refused::new(Code::SessionBusy, message));
            }
        }
        if count >= MOST_RUNS || self.bytes + bytes > MOST_BYTES {
            let message = format!("{count} runs are under way; try again when one has ended");
            return Err(Refused::new(Code::TooManyRuns, message));
        }
        if self.runs.contains_key(&request.session_id) {
            self.followers += 1;
            return Ok(Part::Again);
        }
        self.bytes += bytes;
        let running = Running {
            request_id: Arc::clone(&request.request_id),
            key: request.idempotency_key.clone(),
            bytes,
            turn: None,
            interrupted: None,
        };
        self.runs.insert(Arc::clone(&request.session_id), running);
        Ok(Part::Own)
    }

    /// The run has a turn; `true`: it is not wanted any more.
    pub(super) fn begun(&mut self, session: &str, turn: TurnId) -> bool {
        let Some(running) = self.runs.get_mut(session) else {
            return self.is_closing;
        };
        running.turn = Some(turn);
        self.is_closing || running.interrupted.is_some()
    }

    pub(super) fn interrupt(
        &mut self,
        session: &str,
        message: Option<Arc<str>>,
    ) -> Option<Stopped> {
        let running = self.runs.get_mut(session)?;
        running.interrupted = Some(Interrupted { message });
        Some(Stopped { request_id: Arc::clone(&running.request_id), turn: running.turn })
    }

    /// Why a run was interrupted, if it was.
    pub(super) fn reason(&self, session: &str) -> Option<Arc<str>> {
        let interrupted = self.runs.get(session)?.interrupted.clone()?;
        interrupted.message
    }

    pub(super) fn end(&mut self, session: &str, part: Part) {
        match part {
            Part::Again => self.followers -= 1,
            Part::Own => {
                if let Some(ended) = self.runs.remove(session) {
                    self.bytes -= ended.bytes;
                }
            }
        }
    }

    /// Nothing more begins; returns what runs.
    pub(super) fn close(&mut self) -> Vec<TurnId> {
        self.is_closing = true;
        self.runs.values().filter_map(|running| running.turn).collect()
    }
}

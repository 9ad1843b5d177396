//! Handles a host's requests one after another. Short requests are answered immediately; each run
//! gets its own task.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use angelia_core::{
    model::{TurnId, TurnStatus},
    task::TaskGroup,
};
use angelia_wire::limits::MAX_FRAME_BYTES;
use tokio_util::sync::CancellationToken;

use super::{
    BadRequest, BridgeError, BridgeErrorCode, BridgeEvent, BridgeRequest, RunDefaults, RunRequest,
    active_runs::ActiveRuns,
    decode,
    request::{ApproveRequest, InterruptRequest, unreadable_line},
};
use crate::{
    http::DecisionBody,
    stdio::{InputLine, StdioInput, StdioOutput},
    turn_service::TurnService,
};

/// The time limit for interrupted runs to end and for the host to read their last events.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(30);

/// The outcome of the single request with `--once`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunResult {
    /// The request was answered without a turn.
    Answered,
    Ended(TurnStatus),
    /// The request was not run.
    Refused,
}

#[derive(Debug)]
pub struct Bridge {
    shared: Arc<BridgeShared>,
    once: bool,
}

pub(super) struct BridgeShared {
    pub(super) turns: Arc<dyn TurnService>,
    pub(super) defaults: RunDefaults,
    output: StdioOutput,
    pub(super) tasks: TaskGroup,
    active: Mutex<ActiveRuns>,
    /// The outcome of the last run.
    last_result: Mutex<Option<RunResult>>,
    /// Cancelled when a run has ended, which ends the bridge with `--once`.
    run_ended: CancellationToken,
}

/// What follows after a request was handled.
enum AfterRequest {
    /// A run has started: read the next line.
    Continue,
    /// The request was answered and started nothing.
    Answered(RunResult),
    Shutdown(Option<Arc<str>>),
}

impl Bridge {
    /// Creates a bridge. With `once`, it serves one request and ends.
    pub fn new(
        turns: Arc<dyn TurnService>,
        defaults: RunDefaults,
        output: StdioOutput,
        once: bool,
    ) -> Self {
        let inner = BridgeShared {
            turns,
            defaults,
            output,
            tasks: TaskGroup::new(),
            active: Mutex::default(),
            last_result: Mutex::default(),
            run_ended: CancellationToken::new(),
        };
        Self { shared: Arc::new(inner), once }
    }

    /// Serves until the input ends, the host asks for shutdown, the output is closed, or `stop` is
    /// cancelled. Then interrupts the active runs and writes their `final` events. Returns the
    /// result of the request with `--once`.
    pub async fn serve(self, input: StdioInput, stop: &CancellationToken) -> RunResult {
        let inner = &self.shared;
        let shutdown = self.read_requests(input, stop).await;
        for turn in inner.active().close() {
            inner.tasks.spawn(Arc::clone(inner).stop_turn(turn));
        }
        if !inner.tasks.shutdown(SHUTDOWN_TIMEOUT).await {
            tracing::warn!("some interrupted runs did not end in time");
        }
        if let Some(request_id) = shutdown {
            let request_id = request_id.as_deref();
            inner.reply(&BridgeEvent::ShutdownAck { request_id }).await;
        }
        let ending = inner.last_result().take();
        ending.unwrap_or(RunResult::Answered)
    }

    /// Reads and handles requests. Returns `Some` with the request id if the host asked for
    /// shutdown.
    async fn read_requests(
        &self,
        mut input: StdioInput,
        stop: &CancellationToken,
    ) -> Option<Option<Arc<str>>> {
        let inner = &self.shared;
        let mut is_open = true;
        let mut is_taken = false;
        loop {
            let line = tokio::select! {
                biased;
                () = stop.cancelled() => return None,
                () = inner.output.closed() => return None,
                () = inner.run_ended.cancelled(), if self.once => return None,
                line = input.next(), if is_open => line,
            };
            let Some(line) = line else {
                if !(self.once && is_taken) {
                    return None;
                }
                // The run continues, but the host can no longer answer approvals.
                is_open = false;
                inner.decline_all();
                continue;
            };
            let taken = inner.handle_request(decode_line(&line), self.once && is_taken);
            match stop.run_until_cancelled(taken).await? {
                AfterRequest::Shutdown(request_id) => return Some(request_id),
                AfterRequest::Answered(ending) if self.once && !is_taken => {
                    inner.record_result(ending);
                    return None;
                }
                AfterRequest::Answered(_) | AfterRequest::Continue => is_taken = true,
            }
        }
    }
}

impl BridgeShared {
    async fn handle_request(
        self: &Arc<Self>,
        request: Result<BridgeRequest, BadRequest>,
        only_answers: bool,
    ) -> AfterRequest {
        match request {
            Ok(BridgeRequest::Run(request)) => return self.start_run(request, only_answers).await,
            Ok(BridgeRequest::Ping(ping)) => {
                let request_id = ping.request_id.as_deref();
                self.reply(&BridgeEvent::Pong { request_id }).await;
                return AfterRequest::Answered(RunResult::Answered);
            }
            Ok(BridgeRequest::Interrupt(request)) => self.interrupt(&request).await,
            Ok(BridgeRequest::Approve(request)) => self.approve(request).await,
            Ok(
                BridgeRequest::Shutdown(plain)
                | BridgeRequest::Exit(plain)
                | BridgeRequest::Quit(plain),
            ) => {
                return AfterRequest::Shutdown(plain.request_id);
            }
            Err(bad) => {
                let ids = (bad.request_id.as_deref(), bad.session_id.as_deref());
                self.send_error(ids, bad.code, &bad.message).await;
            }
        }
        AfterRequest::Answered(RunResult::Refused)
    }

    async fn start_run(self: &Arc<Self>, request: RunRequest, only_answers: bool) -> AfterRequest {
        let admitted = if only_answers {
            let message = "--once serves one request, which has already been accepted";
            Err(BridgeError::new(BridgeErrorCode::OnlyOnce, message))
        } else {
            self.active().admit(&request)
        };
        match admitted {
            Ok(part) => {
                self.tasks.spawn(Arc::clone(self).run(request, part));
                AfterRequest::Continue
            }
            Err(refused) => {
                let ids = (Some(&*request.request_id), Some(&*request.session_id));
                self.send_error(ids, refused.code, &refused.message).await;
                AfterRequest::Answered(RunResult::Refused)
            }
        }
    }

    /// Interrupts the run of a session. Acknowledges before stopping the turn, so that the
    /// acknowledgement precedes the run's `final`.
    async fn interrupt(self: &Arc<Self>, request: &InterruptRequest) {
        let session_id = &*request.session_id;
        let stopped = self.active().interrupt(session_id, request.message.clone());
        let Some(stopped) = stopped else {
            let ids = (request.request_id.as_deref(), Some(session_id));
            let message = "the session has no run to interrupt";
            self.send_error(ids, BridgeErrorCode::NotRunning, message).await;
            return;
        };
        let run_request_id = &*stopped.request_id;
        let ack = BridgeEvent::InterruptAck {
            request_id: request.request_id.as_deref().unwrap_or(run_request_id),
            session_id,
            run_request_id,
            message: request.message.as_deref(),
        };
        self.reply(&ack).await;
        if let Some(turn) = stopped.turn {
            self.tasks.spawn(Arc::clone(self).stop_turn(turn));
        }
    }

    /// Asks a turn to stop. It is not an error if the turn has already ended.
    pub(super) async fn stop_turn(self: Arc<Self>, turn: TurnId) {
        if let Err(error) = self.turns.interrupt(turn, false).await {
            tracing::debug!(%turn, %error, "cannot interrupt the turn");
        }
    }

    async fn approve(self: &Arc<Self>, request: ApproveRequest) {
        if !self.active().approvals.contains(&request.approval_id) {
            let ids = (request.request_id.as_deref(), None);
            let message =
                "no run of this bridge waits for that approval; it may be decided already";
            self.send_error(ids, BridgeErrorCode::UnknownApproval, message).await;
            return;
        }
        let ApproveRequest { request_id, approval_id, verdict, note, rule, answers } = request;
        let decision = DecisionBody { verdict, note, rule, answers }.into();
        // In a separate task, so that a slow decision does not delay the next request.
        let inner = Arc::clone(self);
        self.tasks.spawn(async move {
            if let Err(error) = inner.turns.decide(approval_id, decision).await {
                let ids = (request_id.as_deref(), None);
                inner.send_error(ids, error.kind.into(), &error.to_string()).await;
            }
        });
    }

    fn decline_all(self: &Arc<Self>) {
        let pending: Vec<_> = {
            let mut active = self.active();
            active.is_unattended = true;
            active.approvals.iter().copied().collect()
        };
        for approval in pending {
            self.decline(approval);
        }
    }

    async fn send_error(
        &self,
        ids: (Option<&str>, Option<&str>),
        code: BridgeErrorCode,
        message: &str,
    ) {
        let (request_id, session_id) = ids;
        let event = BridgeEvent::Error { request_id, session_id, code, message };
        self.reply(&event).await;
    }

    pub(super) async fn reply(&self, event: &BridgeEvent<'_>) {
        let mut line = Vec::new();
        event.write(&mut line);
        // A closed output is not an error here: `read_requests` notices it and ends the bridge.
        let _gone = self.output.send_answer(line).await;
    }

    /// Sends encoded lines of a run to the host.
    pub(super) async fn send_lines(&self, lines: Vec<u8>) {
        let _gone = self.output.send(lines).await;
    }

    pub(super) fn record_result(&self, ending: RunResult) {
        *self.last_result() = Some(ending);
        self.run_ended.cancel();
    }

    pub(super) fn active(&self) -> MutexGuard<'_, ActiveRuns> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn last_result(&self) -> MutexGuard<'_, Option<RunResult>> {
        self.last_result.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Decodes a line into a request.
fn decode_line(line: &InputLine) -> Result<BridgeRequest, BadRequest> {
    match line {
        InputLine::Whole(line) => decode(line),
        // The last line may lack its line break; if it is not JSON either, it was cut off.
        InputLine::Partial(line) => decode(line).map_err(|bad| match bad.code {
            BridgeErrorCode::BadJson | BridgeErrorCode::InvalidUtf8 => {
                let message = "input ended in the middle of a request";
                unreadable_line(line, BridgeErrorCode::IncompleteLine, message)
            }
            _ => bad,
        }),
        InputLine::TooLong { bytes, head } => {
            let message =
                format!("the line has {bytes} bytes; a request has at most {MAX_FRAME_BYTES}");
            Err(unreadable_line(head, BridgeErrorCode::TooLong, message))
        }
    }
}

impl std::fmt::Debug for BridgeShared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BridgeShared")
            .field("defaults", &self.defaults)
            .field("active", &self.active)
            .finish_non_exhaustive()
    }
}

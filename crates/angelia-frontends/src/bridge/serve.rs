//! Handles the requests of a host one after the other. Short requests are answered at once; each
//! run gets a task of its own.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use angelia_core::{
    model::{Answer, Decision, FailureKind},
    task::Tasks,
};
use angelia_wire::limits::MAX_FRAME;
use tokio_util::sync::CancellationToken;

use super::{
    BadRequest, Code, Defaults, Event, Refused, Request, RunRequest, Turns,
    active::Active,
    decode,
    request::{ApproveRequest, InterruptRequest, unreadable},
};
use crate::stdio::{Input, Line, Output};

/// How long interrupted runs may take to end and the host to read their last events.
const WIND_DOWN: Duration = Duration::from_secs(30);

/// How the one request of `--once` ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Done,
    Failed(FailureKind),
    Interrupted,
    /// The request was not run.
    Refused,
}

#[derive(Debug)]
pub struct Bridge {
    inner: Arc<Inner>,
    once: bool,
}

pub(super) struct Inner {
    pub(super) turns: Arc<dyn Turns>,
    pub(super) defaults: Defaults,
    output: Output,
    pub(super) tasks: Tasks,
    active: Mutex<Active>,
    /// The outcome of the last run.
    ending: Mutex<Option<Ending>>,
    /// Cancelled when a run has ended; with `--once` this ends the bridge.
    ended: CancellationToken,
}

/// What to do after a request was handled.
enum Next {
    /// A run has started: read the next line.
    Go,
    /// The request has been answered and started nothing.
    Answered(Ending),
    Shutdown(Option<Arc<str>>),
}

impl Bridge {
    /// With `once`, the bridge serves one request and ends.
    pub fn new(turns: Arc<dyn Turns>, defaults: Defaults, output: Output, once: bool) -> Self {
        let inner = Inner {
            turns,
            defaults,
            output,
            tasks: Tasks::new(),
            active: Mutex::default(),
            ending: Mutex::default(),
            ended: CancellationToken::new(),
        };
        Self { inner: Arc::new(inner), once }
    }

    /// Serves until the input ends, the host asks for shutdown, the output is closed, or `stop` is
    /// cancelled. Active runs are then interrupted, and their `final` events are written. Returns
    /// how the request of `--once` ended.
    pub async fn serve(self, input: Input, stop: &CancellationToken) -> Ending {
        let inner = &self.inner;
        let shutdown = self.take_lines(input, stop).await;
        for turn in inner.active().close() {
            let inner = Arc::clone(inner);
            let task = async move { inner.turns.interrupt(turn).await };
            self.inner.tasks.spawn(task);
        }
        if !inner.tasks.shutdown(WIND_DOWN).await {
            tracing::warn!("some interrupted runs did not end in time");
        }
        if let Some(request_id) = shutdown {
            let request_id = request_id.as_deref();
            inner.reply(&Event::ShutdownAck { request_id }).await;
        }
        let ending = *inner.ending();
        ending.unwrap_or(Ending::Done)
    }

    /// Reads and handles requests. Returns `Some` with the request id if the host asked for
    /// shutdown.
    async fn take_lines(
        &self,
        mut input: Input,
        stop: &CancellationToken,
    ) -> Option<Option<Arc<str>>> {
        let inner = &self.inner;
        let mut is_open = true;
        let mut is_taken = false;
        loop {
            let line = tokio::select! {
                biased;
                () = stop.cancelled() => return None,
                () = inner.output.gone() => return None,
                () = inner.ended.cancelled(), if self.once => return None,
                line = input.next(), if is_open => line,
            };
            let Some(line) = line else {
                if !(self.once && is_taken) {
                    return None;
                }
                // The one run continues, but the host cannot answer approvals any more.
                is_open = false;
                inner.nobody_decides();
                continue;
            };
            let taken = inner.take(request(&line), self.once && is_taken);
            match stop.run_until_cancelled(taken).await? {
                Next::Shutdown(request_id) => return Some(request_id),
                Next::Answered(ending) if self.once && !is_taken => {
                    inner.note_end(ending);
                    return None;
                }
                Next::Answered(_) | Next::Go => is_taken = true,
            }
        }
    }
}

impl Inner {
    async fn take(
        self: &Arc<Self>,
        request: Result<Request, BadRequest>,
        only_answers: bool,
    ) -> Next {
        match request {
            Ok(Request::Run(request)) => return self.take_run(request, only_answers).await,
            Ok(Request::Ping(ping)) => {
                let request_id = ping.request_id.as_deref();
                self.reply(&Event::Pong { request_id }).await;
                return Next::Answered(Ending::Done);
            }
            Ok(Request::Interrupt(request)) => self.interrupt(&request).await,
            Ok(Request::Approve(request)) => self.approve(request).await,
            Ok(Request::Shutdown(plain) | Request::Exit(plain) | Request::Quit(plain)) => {
                return Next::Shutdown(plain.request_id);
            }
            Err(bad) => {
                let ids = (bad.request_id.as_deref(), bad.session_id.as_deref());
                self.error(ids, bad.code, &bad.message).await;
            }
        }
        Next::Answered(Ending::Refused)
    }

    async fn take_run(self: &Arc<Self>, request: RunRequest, only_answers: bool) -> Next {
        let admitted = if only_answers {
            let message = "--once serves one request, and it has been taken already";
            Err(Refused::new(Code::OnlyOnce, message))
        } else {
            self.active().admit(&request)
        };
        match admitted {
            Ok(part) => {
                self.tasks.spawn(Arc::clone(self).run(request, part));
                Next::Go
            }
            Err(refused) => {
                let ids = (Some(&*request.request_id), Some(&*request.session_id));
                self.error(ids, refused.code, &refused.message).await;
                Next::Answered(Ending::Refused)
            }
        }
    }

    /// Interrupts the run of a session. The acknowledgement is written before the turn is stopped,
    /// so that it comes before the run's `final`.
    async fn interrupt(self: &Arc<Self>, request: &InterruptRequest) {
        let session_id = &*request.session_id;
        let stopped = self.active().interrupt(session_id, request.message.clone());
        let Some(stopped) = stopped else {
            let ids = (request.request_id.as_deref(), Some(session_id));
            let message = "the session has no run to interrupt";
            self.error(ids, Code::NotRunning, message).await;
            return;
        };
        let run_request_id = &*stopped.request_id;
        let ack = Event::InterruptAck {
            request_id: request.request_id.as_deref().unwrap_or(run_request_id),
            session_id,
            run_request_id,
            message: request.message.as_deref(),
        };
        self.reply(&ack).await;
        if let Some(turn) = stopped.turn {
            let inner = Arc::clone(self);
            let task = async move { inner.turns.interrupt(turn).await };
            self.tasks.spawn(task);
        }
    }

    async fn approve(self: &Arc<Self>, request: ApproveRequest) {
        if !self.active().approvals.contains(&request.approval_id) {
            let ids = (request.request_id.as_deref(), None);
            let message =
                "no run of this bridge waits for that approval; it may be decided already";
            self.error(ids, Code::UnknownApproval, message).await;
            return;
        }
        let answers = request.answers.into_iter();
        let decision = Decision {
            verdict: request.verdict,
            note: request.note,
            answers: answers.map(|(question, answer)| Answer { question, answer }).collect(),
            by: "owner".into(),
        };
        // In a task of its own, so that a slow decision does not hold up the next request.
        let inner = Arc::clone(self);
        self.tasks.spawn(async move {
            let decided = inner.turns.decide(request.approval_id, decision).await;
            if let Err(refused) = decided {
                let ids = (request.request_id.as_deref(), None);
                inner.error(ids, refused.code, &refused.message).await;
            }
        });
    }

    fn nobody_decides(self: &Arc<Self>) {
        let pending: Vec<_> = {
            let mut active = self.active();
            active.is_unattended = true;
            active.approvals.iter().copied().collect()
        };
        for approval in pending {
            self.decline(approval);
        }
    }

    async fn error(&self, ids: (Option<&str>, Option<&str>), code: Code, message: &str) {
        let (request_id, session_id) = ids;
        let event = Event::Error { request_id, session_id, code, message };
        self.reply(&event).await;
    }

    pub(super) async fn reply(&self, event: &Event<'_>) {
        let mut line = Vec::new();
        event.write(&mut line);
        // A closed output is no failure here: `read_requests` notices it and ends the bridge.
        let _gone = self.output.answer(line).await;
    }

    /// Sends encoded lines of a run to the host.
    pub(super) async fn say(&self, lines: Vec<u8>) {
        let _gone = self.output.send(lines).await;
    }

    pub(super) fn note_end(&self, ending: Ending) {
        *self.ending() = Some(ending);
        self.ended.cancel();
    }

    pub(super) fn active(&self) -> MutexGuard<'_, Active> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ending(&self) -> MutexGuard<'_, Option<Ending>> {
        self.ending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Decodes a line into a request.
fn request(line: &Line) -> Result<Request, BadRequest> {
    match line {
        Line::Whole(line) => decode(line),
        // The last line may lack its line break; if it is no JSON either, it was cut off.
        Line::Partial(line) => decode(line).map_err(|bad| match bad.code {
            Code::BadJson | Code::InvalidUtf8 => {
                let message = "input ended in the middle of a request";
                unreadable(line, Code::IncompleteLine, message)
            }
            _ => bad,
        }),
        Line::TooLong { bytes, head } => {
            let message = format!("the line has {bytes} bytes; a request has at most {MAX_FRAME}");
            Err(unreadable(head, Code::TooLong, message))
        }
    }
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BridgeShared")
            .field("defaults", &self.defaults)
            .field("active", &self.active)
            .finish_non_exhaustive()
    }
}

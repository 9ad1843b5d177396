//! The connection to a running agent before and between turns: we send one request at a time and
//! wait for its answer. Meanwhile the agent's own requests are refused, and its notifications go to
//! the caller, which keeps only the cost of a resumed conversation.

use std::time::Duration;

use angelia_core::{
    model::{Failure, FailureKind},
    redact::Redactor,
};
use angelia_wire::{
    jsonrpc::{self, Answered, ErrorObject, INTERNAL_ERROR, Id, Incoming, Pending},
    ndjson::Frame,
};
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::{
    failure::Around,
    protocol::{
        opened::Greeting,
        outgoing::{self, Call},
    },
};
use crate::link::Link;

/// The kind of request that waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    /// A request outside of a turn, sent by [`AcpConnection::call`].
    Opening,
    Prompt,
}

/// The pipes of the agent and our unanswered requests.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) link: Link,
    pub(super) pending: Pending<Waiting>,
}

/// An owned copy of an [`ErrorObject`].
#[derive(Clone, Debug)]
pub(super) struct Refused {
    pub(super) code: i64,
    pub(super) message: Box<str>,
    pub(super) data: Option<Box<RawValue>>,
}

impl Refused {
    fn of(error: &ErrorObject<'_>) -> Self {
        Self {
            code: error.code,
            message: (&*error.message).into(),
            data: error.data.map(ToOwned::to_owned),
        }
    }

    pub(super) fn error(&self) -> ErrorObject<'_> {
        ErrorObject { data: self.data.as_deref(), ..ErrorObject::new(self.code, &*self.message) }
    }
}

/// Why a request has no result.
#[derive(Debug)]
pub(super) enum CallError {
    Refused(Refused),
    /// The agent has exited or closed its output.
    Gone,
    /// The agent has not answered within this time.
    Silent(Duration),
}

impl Connection {
    pub(super) fn new(link: Link) -> Self {
        Self { link, pending: Pending::default() }
    }

    /// Sends a request and waits for its answer. `heard` receives the agent's notifications
    /// meanwhile.
    pub(super) async fn call(
        &mut self,
        call: &Call,
        limit: Duration,
        heard: impl FnMut(&str, Option<&RawValue>),
    ) -> Result<Box<RawValue>, CallError> {
        let Ok(id) = self.pending.ask(Waiting::Opening) else {
            return Err(CallError::Gone);
        };
        self.link.input.push(call.line(&id));
        let answered = timeout(limit, self.answer(&id, heard)).await;
        if answered.is_err() {
            self.pending.give_up(&id);
        }
        answered.unwrap_or(Err(CallError::Silent(limit)))
    }

    async fn answer(
        &mut self,
        id: &Id<'_>,
        mut heard: impl FnMut(&str, Option<&RawValue>),
    ) -> Result<Box<RawValue>, CallError> {
        loop {
            if let Some(answer) = self.read_answer(id, &mut heard) {
                return answer.map_err(CallError::Refused);
            }
            let Link { input, output, child } = &mut self.link;
            let has_more = input.has_more();
            tokio::select! {
                biased;
                () = input.write(), if has_more => {}
                more = output.read() => if !more {
                    return Err(CallError::Gone);
                },
                // A child of the agent may keep the output open for ever, so the exit counts as the
                // end.
                _ = child.exited() => {
                    while let Ok(true) = timeout(LEAK, self.link.output.read()).await {}
                    let answer = self.read_answer(id, &mut heard);
                    return match answer {
                        Some(answer) => answer.map_err(CallError::Refused),
                        None => Err(CallError::Gone),
                    };
                }
            }
        }
    }

    /// Reads the lines that have arrived, up to the answer to `id`.
    fn read_answer(
        &mut self,
        id: &Id<'_>,
        heard: &mut impl FnMut(&str, Option<&RawValue>),
    ) -> Option<Result<Box<RawValue>, Refused>> {
        while let Some(frame) = self.link.output.framer.next() {
            let (Frame::Line(line) | Frame::Partial(line)) = frame else {
                continue;
            };
            match jsonrpc::decode(line) {
                Ok(Incoming::Response { id: Some(of), result }) => {
                    let is_ours = of == *id;
                    if let Answered::By(_) = self.pending.answered(&of)
                        && is_ours
                    {
                        return Some(match result {
                            Ok(result) => Ok(result.to_owned()),
                            Err(error) => Err(Refused::of(&error)),
                        });
                    }
                }
                Ok(Incoming::Notification { method, params }) => heard(&method, params),
                Ok(Incoming::Request { id, .. }) => {
                    let error = ErrorObject::new(INTERNAL_ERROR, "no turn is running");
                    let line = outgoing::error(&id, &error);
                    self.link.input.push(line);
                }
                Ok(Incoming::Response { id: None, .. }) | Err(_) => {
                    tracing::debug!("an agent sent a line that is not a JSON-RPC message");
                }
            }
        }
        None
    }

    /// Describes a failed call, with the last lines of the agent's stderr.
    pub(super) async fn failure(
        &mut self,
        error: CallError,
        around: Around<'_>,
        redactor: &Redactor,
    ) -> Failure {
        let agent = around.greeting.name();
        let doing = around.doing;
        match error {
            CallError::Refused(refused) => around.failure(&refused.error()),
            CallError::Gone => {
                let words = self.link.last_words(redactor).await;
                let message = format!("{agent} ended before it could {doing}: {words}");
                Failure::new(FailureKind::Agent, message).with_hint(BY_HAND)
            }
            CallError::Silent(limit) => {
                let seconds = limit.as_secs();
                let stderr = self.link.child.stderr().tail(|text| redactor.redact(text));
                let last = last_line(&stderr);
                let last = last.map_or_else(String::new, |line| format!("; it said: {line}"));
                let message = format!("{agent} did not {doing} within {seconds} s{last}");
                Failure::new(FailureKind::Unavailable, message).with_hint(BY_HAND)
            }
        }
    }
}

/// Limits the wait for more output after the agent has exited.
const LEAK: Duration = Duration::from_millis(200);

const BY_HAND: &str =
    "run the profile's `command` by hand: it must speak ACP over stdin and stdout";

/// Returns the last line that contains a letter.
pub(super) fn last_line(stderr: &str) -> Option<&str> {
    let says = |line: &&str| line.contains(char::is_alphabetic);
    stderr.lines().rev().map(str::trim).find(says)
}

/// Stands in for the description of an agent that has not answered `initialize`.
pub(super) fn nobody() -> Greeting {
    Greeting::default()
}

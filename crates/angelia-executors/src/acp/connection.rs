//! The connection to a running agent before and between turns: we send one request at a time and
//! wait for its answer. Meanwhile the agent's own requests are refused, and its notifications go to
//! the caller, which keeps only the cost of a resumed conversation.

use std::time::Duration;

use angelia_core::{
    model::{Failure, FailureKind},
    redact::Redactor,
};
use angelia_wire::{
    jsonrpc::{
        self, ErrorObject, INTERNAL_ERROR, PendingRequests, ResponseMatch, RpcId, RpcMessage,
    },
    ndjson::Frame,
};
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::{
    failure::AcpFailureContext,
    protocol::{
        handshake::AgentDescription,
        outgoing::{self, AcpCall},
    },
};
use crate::process_link::ProcessLink;

/// The kind of request that waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PendingRequestKind {
    /// A request outside of a turn, sent by [`AcpConnection::call`].
    Opening,
    Prompt,
}

/// The pipes of the agent and our unanswered requests.
#[derive(Debug)]
pub(super) struct AcpConnection {
    pub(super) link: ProcessLink,
    pub(super) pending: PendingRequests<PendingRequestKind>,
}

/// An owned copy of an [`ErrorObject`].
#[derive(Clone, Debug)]
pub(super) struct OwnedErrorObject {
    pub(super) code: i64,
    pub(super) message: Box<str>,
    pub(super) data: Option<Box<RawValue>>,
}

impl OwnedErrorObject {
    fn from_error(error: &ErrorObject<'_>) -> Self {
        Self {
            code: error.code,
            message: (&*error.message).into(),
            data: error.data.map(ToOwned::to_owned),
        }
    }

    pub(super) fn as_error_object(&self) -> ErrorObject<'_> {
        ErrorObject { data: self.data.as_deref(), ..ErrorObject::new(self.code, &*self.message) }
    }
}

/// Why a request has no result.
#[derive(Debug)]
pub(super) enum AcpCallError {
    Refused(OwnedErrorObject),
    /// The agent has exited or closed its output.
    Gone,
    /// The agent has not answered within this time.
    Timeout(Duration),
}

impl AcpConnection {
    pub(super) fn new(link: ProcessLink) -> Self {
        Self { link, pending: PendingRequests::default() }
    }

    /// Sends a request and waits for its answer. `heard` receives the agent's notifications
    /// meanwhile.
    pub(super) async fn call(
        &mut self,
        call: &AcpCall,
        limit: Duration,
        heard: impl FnMut(&str, Option<&RawValue>),
    ) -> Result<Box<RawValue>, AcpCallError> {
        let Ok(id) = self.pending.register(PendingRequestKind::Opening) else {
            return Err(AcpCallError::Gone);
        };
        self.link.input.push(call.encode(&id));
        let answered = timeout(limit, self.wait_for_response(&id, heard)).await;
        if answered.is_err() {
            self.pending.cancel(&id);
        }
        answered.unwrap_or(Err(AcpCallError::Timeout(limit)))
    }

    async fn wait_for_response(
        &mut self,
        id: &RpcId<'_>,
        mut heard: impl FnMut(&str, Option<&RawValue>),
    ) -> Result<Box<RawValue>, AcpCallError> {
        loop {
            if let Some(answer) = self.read_response(id, &mut heard) {
                return answer.map_err(AcpCallError::Refused);
            }
            let ProcessLink { input, output, child } = &mut self.link;
            let has_more = input.has_pending();
            tokio::select! {
                biased;
                () = input.write(), if has_more => {}
                more = output.read() => if !more {
                    return Err(AcpCallError::Gone);
                },
                // A child of the agent may keep the output open for ever, so the exit counts as the
                // end.
                _ = child.wait_exit() => {
                    while let Ok(true) = timeout(OUTPUT_DRAIN_LIMIT, self.link.output.read()).await {}
                    let answer = self.read_response(id, &mut heard);
                    return match answer {
                        Some(answer) => answer.map_err(AcpCallError::Refused),
                        None => Err(AcpCallError::Gone),
                    };
                }
            }
        }
    }

    /// Reads the lines that have arrived, up to the answer to `id`.
    fn read_response(
        &mut self,
        id: &RpcId<'_>,
        heard: &mut impl FnMut(&str, Option<&RawValue>),
    ) -> Option<Result<Box<RawValue>, OwnedErrorObject>> {
        while let Some(frame) = self.link.output.framer.next() {
            let (Frame::Line(line) | Frame::Partial(line)) = frame else {
                continue;
            };
            match jsonrpc::decode(line) {
                Ok(RpcMessage::Response { id: Some(of), result }) => {
                    let is_ours = of == *id;
                    if let ResponseMatch::Waiter(_) = self.pending.match_response(&of)
                        && is_ours
                    {
                        return Some(match result {
                            Ok(result) => Ok(result.to_owned()),
                            Err(error) => Err(OwnedErrorObject::from_error(&error)),
                        });
                    }
                }
                Ok(RpcMessage::Notification { method, params }) => heard(&method, params),
                Ok(RpcMessage::Request { id, .. }) => {
                    let error = ErrorObject::new(INTERNAL_ERROR, "no turn is running");
                    let line = outgoing::encode_error(&id, &error);
                    self.link.input.push(line);
                }
                Ok(RpcMessage::Response { id: None, .. }) | Err(_) => {
                    tracing::debug!("an agent sent a line that is not a JSON-RPC message");
                }
            }
        }
        None
    }

    /// Describes a failed call, with the last lines of the agent's stderr.
    pub(super) async fn call_failure(
        &mut self,
        error: AcpCallError,
        around: AcpFailureContext<'_>,
        redactor: &Redactor,
    ) -> Failure {
        let agent = around.agent.name();
        let doing = around.action;
        match error {
            AcpCallError::Refused(refused) => around.describe(&refused.as_error_object()),
            AcpCallError::Gone => {
                let words = self.link.describe_exit(redactor).await;
                let message = format!("{agent} ended before it could {doing}: {words}");
                Failure::new(FailureKind::Agent, message).with_hint(RUN_BY_HAND_HINT)
            }
            AcpCallError::Timeout(limit) => {
                let seconds = limit.as_secs();
                let stderr = self.link.child.stderr().tail(|text| redactor.redact(text));
                let last = last_line(&stderr);
                let last = last.map_or_else(String::new, |line| format!("; it said: {line}"));
                let message = format!("{agent} did not {doing} within {seconds} s{last}");
                Failure::new(FailureKind::Unavailable, message).with_hint(RUN_BY_HAND_HINT)
            }
        }
    }
}

/// Limits the wait for more output after the agent has exited.
const OUTPUT_DRAIN_LIMIT: Duration = Duration::from_millis(200);

const RUN_BY_HAND_HINT: &str =
    "run the profile's `command` by hand: it must speak ACP over stdin and stdout";

/// Returns the last line that contains a letter.
pub(super) fn last_line(stderr: &str) -> Option<&str> {
    let says = |line: &&str| line.contains(char::is_alphabetic);
    stderr.lines().rev().map(str::trim).find(says)
}

/// Stands in for the description of an agent that has not answered `initialize`.
pub(super) fn unknown_agent() -> AgentDescription {
    AgentDescription::default()
}

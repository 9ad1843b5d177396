//! The connection to a running agent outside of turns: we send one request at a time and wait for
//! its answer. Meanwhile, the agent's own requests are refused. Its notifications go to the caller,
//! which keeps only the cost of a resumed conversation.

use std::time::Duration;

use angelia_core::{
    model::{Failure, FailureKind},
    redact::Redactor,
};
use angelia_wire::{
    jsonrpc::{ErrorObject, INTERNAL_ERROR, Peer, Received, VersionField},
    ndjson::Frame,
};
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::{failure::AcpFailureContext, protocol::outgoing::AcpCall};
use crate::process_link::ProcessLink;

/// Which kind of request awaits an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PendingRequestKind {
    /// A request outside of a turn, sent by [`AcpConnection::call`].
    Call,
    Prompt,
}

/// The agent's pipes, and our unanswered requests.
#[derive(Debug)]
pub(super) struct AcpConnection {
    pub(super) link: ProcessLink,
    pub(super) peer: Peer<PendingRequestKind>,
}

/// Why a request has no result.
#[derive(Debug)]
pub(super) enum AcpCallError {
    Refused(ErrorObject),
    /// The agent has exited or closed its output.
    Gone,
    /// The agent did not answer within this time.
    Timeout(Duration),
}

impl AcpConnection {
    pub(super) fn new(link: ProcessLink) -> Self {
        Self { link, peer: Peer::new(VersionField::Include) }
    }

    /// Sends a request and waits for its answer. Meanwhile, passes the agent's notifications to
    /// `on_notification`.
    pub(super) async fn call(
        &mut self,
        call: &AcpCall,
        limit: Duration,
        on_notification: impl FnMut(&str, Option<&RawValue>),
    ) -> Result<Box<RawValue>, AcpCallError> {
        let request = self.peer.request(call.method, &call.params, PendingRequestKind::Call);
        let Ok((id, line)) = request else {
            return Err(AcpCallError::Gone);
        };
        self.link.input.push(line);
        let answered = timeout(limit, self.wait_for_response(on_notification)).await;
        if answered.is_err() {
            self.peer.cancel(&id);
        }
        answered.unwrap_or(Err(AcpCallError::Timeout(limit)))
    }

    async fn wait_for_response(
        &mut self,
        mut on_notification: impl FnMut(&str, Option<&RawValue>),
    ) -> Result<Box<RawValue>, AcpCallError> {
        loop {
            if let Some(answer) = self.read_response(&mut on_notification) {
                return answer.map_err(AcpCallError::Refused);
            }
            if !self.link.exchange().await {
                return Err(AcpCallError::Gone);
            }
        }
    }

    /// Reads the lines that have arrived, up to the answer to the call.
    fn read_response(
        &mut self,
        on_notification: &mut impl FnMut(&str, Option<&RawValue>),
    ) -> Option<Result<Box<RawValue>, ErrorObject>> {
        while let Some(frame) = self.link.output.framer.next() {
            let (Frame::Line(line) | Frame::Partial(line)) = frame else {
                continue;
            };
            match self.peer.receive(line) {
                Received::Response { waiter: PendingRequestKind::Call, result } => {
                    return Some(result.map(ToOwned::to_owned));
                }
                Received::Notification { method, params } => on_notification(&method, params),
                Received::Request { id, .. } => {
                    let error = ErrorObject::new(INTERNAL_ERROR, "no turn is running");
                    let line = self.peer.response::<RawValue>(&id, Err(&error));
                    self.link.input.push(line);
                }
                Received::Response { .. } | Received::UnexpectedResponse => {}
                Received::Invalid(_) => {
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
        context: AcpFailureContext<'_>,
        redactor: &Redactor,
    ) -> Failure {
        let agent = context.agent.name();
        let action = context.action;
        match error {
            AcpCallError::Refused(refused) => context.describe(&refused),
            AcpCallError::Gone => {
                let words = self.link.describe_exit(redactor).await;
                let message = format!("{agent} ended before it could {action}: {words}");
                Failure::new(FailureKind::Agent, message).with_hint(RUN_BY_HAND_HINT)
            }
            AcpCallError::Timeout(limit) => {
                let seconds = limit.as_secs();
                let stderr = self.link.child.stderr().tail(|text| redactor.redact(text));
                let last = last_line(&stderr);
                let last = last.map_or_else(String::new, |line| format!("; it said: {line}"));
                let message = format!("{agent} did not {action} within {seconds} s{last}");
                Failure::new(FailureKind::Unavailable, message).with_hint(RUN_BY_HAND_HINT)
            }
        }
    }
}

const RUN_BY_HAND_HINT: &str =
    "run the profile's `command` by hand: it must speak ACP over stdin and stdout";

/// Returns the last line that contains a letter.
pub(super) fn last_line(stderr: &str) -> Option<&str> {
    let says = |line: &&str| line.contains(char::is_alphabetic);
    stderr.lines().rev().map(str::trim).find(says)
}

//! A running agent with one conversation and many turns: reads the agent's lines and executes its
//! requests. The steps of a turn are in [`turn`](super::turn).

use std::sync::Arc;

use angelia_core::{
    model::{Content, Decision, FailureKind, Turn, TurnOrigin, TurnStatus},
    ports::{AgentEvent, AgentOutcome},
    redact::Redactor,
};
use angelia_wire::{
    jsonrpc::{ErrorObject, INTERNAL_ERROR, Received, RpcId},
    ndjson::Frame,
};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::{
    client::{ClientRequest, ClientResponse, Service},
    connection::{AcpConnection, PendingRequestKind, last_line},
    translate::{AcpRequestOutcome, AcpTranslator, DecisionEffect},
};
use crate::{
    claude::escape, process::session_binding::SessionBinding, process_link::MAX_QUOTED_CHARS,
    truncation::truncate_chars,
};

/// The notification with which an agent withdraws one of its requests.
const CANCEL_REQUEST: &str = "$/cancel_request";

#[derive(Debug)]
pub(super) struct AcpAgent {
    pub(super) connection: AcpConnection,
    pub(super) translator: AcpTranslator,
    pub(super) service: Service,
    pub(super) redactor: Redactor,
    /// Content sent before the first message: an appended system prompt, another agent's history.
    pub(super) preface: Vec<Content>,
    /// Set if output of an earlier turn may still arrive.
    pub(super) unsettled: bool,
    /// When to show tool calls that were only announced.
    pub(super) announce_at: Option<Instant>,
    /// Tells our own programs, when the agent starts them, which session they belong to.
    pub(super) _session_binding: SessionBinding,
}

impl AcpAgent {
    /// Returns the content of the prompt. Text from a remote sender is neutralised so that it
    /// cannot trigger the agent's commands.
    pub(super) fn prompt_content(&mut self, turn: &Turn) -> Vec<Content> {
        let mut content = std::mem::take(&mut self.preface);
        content.extend(turn.input.iter().map(|one| match one {
            Content::Text(text) if turn.options.origin == TurnOrigin::Remote => {
                Content::Text(Arc::from(&*escape::neutralize(text)))
            }
            other => other.clone(),
        }));
        content
    }

    /// Translates every line that has arrived. Events after the end of the turn are discarded.
    pub(super) async fn translate(&mut self, batch: &mut Vec<AgentEvent>) -> Option<AgentOutcome> {
        let mut ended = None;
        let mut late = Vec::new();
        loop {
            let out = if ended.is_none() { &mut *batch } else { &mut late };
            let Some(effect) = self.handle_line(out) else {
                return ended;
            };
            match effect {
                LineEffect::Nothing => {}
                LineEffect::Ended(end) => ended = ended.or(Some(end)),
                LineEffect::Request(id, request) => self.start_request(id, request).await,
            }
        }
    }

    /// Handles the next line. Returns `None` if no further line has arrived.
    fn handle_line(&mut self, out: &mut Vec<AgentEvent>) -> Option<LineEffect> {
        let Self { connection: AcpConnection { link, peer }, translator, .. } = self;
        let line = match link.output.framer.next()? {
            Frame::Line(line) | Frame::Partial(line) => line,
            Frame::TooLong { bytes, .. } => {
                translator.on_too_long(bytes, out);
                return Some(LineEffect::Nothing);
            }
        };
        match peer.receive(line) {
            Received::Notification { method, params } if method == CANCEL_REQUEST => {
                if let Some(decided) = translator.on_cancel_request(params, out) {
                    self.connection.send_decision(&decided);
                }
            }
            Received::Notification { method, params } => {
                translator.on_notification(&method, params, out);
            }
            Received::Request { id, method, params } => {
                let line = match translator.on_request(&id, &method, params, out) {
                    AcpRequestOutcome::Now(result) => peer.response(&id, Ok(&*result)),
                    AcpRequestOutcome::Error(error) => peer.response::<RawValue>(&id, Err(&error)),
                    AcpRequestOutcome::Approval => return Some(LineEffect::Nothing),
                    AcpRequestOutcome::Execute(request) => {
                        return Some(LineEffect::Request(id.into_owned(), request));
                    }
                };
                link.input.push(line);
            }
            Received::Response { waiter: PendingRequestKind::Prompt, result }
                if translator.in_turn() =>
            {
                // Withdraw the open approvals first: ending the turn would drop their request ids,
                // and the agent would wait for an answer forever.
                let unanswered = translator.withdraw_approvals(out);
                let ended = translator.on_prompt_response(result, out);
                for decided in unanswered {
                    self.connection.send_decision(&decided);
                }
                return Some(LineEffect::Ended(ended));
            }
            Received::Response { .. } | Received::UnexpectedResponse => {}
            Received::Invalid(_) => translator.on_invalid_line(line, out),
        }
        Some(LineEffect::Nothing)
    }

    /// Starts to execute a request from the agent.
    pub(super) async fn start_request(&mut self, id: RpcId<'static>, request: ClientRequest) {
        // Keep the output for the tool result, because a released terminal forgets it.
        if let ClientRequest::Release(terminal) | ClientRequest::Kill(terminal) = &request
            && let Some(text) = self.service.terminal_output(terminal)
        {
            self.translator.on_terminal_output(terminal, &text);
        }
        if let Some(response) = self.service.start(id, request).await {
            self.send_response(&response);
        }
    }

    /// Sends the agent the response to one of its requests.
    pub(super) fn send_response(&mut self, response: &ClientResponse) {
        if let Some(terminal) = &response.terminal
            && let Some(text) = self.service.terminal_output(terminal)
        {
            self.translator.on_terminal_output(terminal, &text);
        }
        let AcpConnection { link, peer } = &mut self.connection;
        link.input.push(peer.response(&response.id, response.result.as_ref()));
    }

    pub(super) async fn apply_decision(
        &mut self,
        key: &str,
        decision: &Decision,
        batch: &mut Vec<AgentEvent>,
    ) {
        let effect = self.translator.decide(key, decision, batch);
        self.carry_out(effect).await;
    }

    pub(super) async fn carry_out(&mut self, effect: Option<DecisionEffect>) {
        match effect {
            Some(DecisionEffect::Execute(id, request)) => self.start_request(id, request).await,
            Some(decided) => self.connection.send_decision(&decided),
            None => {}
        }
    }

    /// Adds the last line of stderr to the message if the agent itself failed.
    pub(super) fn with_stderr(&self, mut ended: AgentOutcome) -> AgentOutcome {
        if let TurnStatus::Failed(failure) = &mut ended.status
            && failure.kind == FailureKind::Agent
        {
            let stderr =
                (self.connection.link.child.stderr()).tail(|text| self.redactor.redact(text));
            let last = last_line(&stderr);
            if let Some(last) = last {
                let words = truncate_chars(last, MAX_QUOTED_CHARS);
                failure.message = format!("{}; it said: {words}", failure.message).into();
            }
        }
        ended
    }
}

/// The effect of one line from the agent.
enum LineEffect {
    Nothing,
    Ended(AgentOutcome),
    Request(RpcId<'static>, ClientRequest),
}

impl AcpConnection {
    /// Answers a decided request, unless it must be executed first.
    pub(super) fn send_decision(&mut self, decided: &DecisionEffect) {
        let line = match decided {
            DecisionEffect::Reply(id, result) => self.peer.response(id, Ok(&**result)),
            DecisionEffect::Refuse(id, why) => {
                let error = ErrorObject::new(INTERNAL_ERROR, &**why);
                self.peer.response::<RawValue>(id, Err(&error))
            }
            DecisionEffect::Execute(..) => return,
        };
        self.link.input.push(line);
    }
}

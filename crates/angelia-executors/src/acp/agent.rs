//! A running agent with one conversation and many turns: how its messages, decisions and its exit
//! are handled. The loop of a turn is in [`turn`](super::turn).

use std::{sync::Arc, time::Duration};

use angelia_core::{
    model::{
        Content, Decision, EventKind, Failure, FailureKind, Notice, NoticeLevel, Turn, TurnOrigin,
        TurnStatus, Verdict,
    },
    ports::{Agent, AgentEvent, AgentOutcome, BoxFuture, TurnControl, TurnIo},
    redact::Redactor,
};
use angelia_wire::{
    jsonrpc::{self, ErrorObject, ResponseMatch, RpcMessage},
    ndjson::Frame,
};
use tokio::time::timeout;

use super::{
    client::{ClientRequest, ClientResponse, Service},
    connection::{AcpConnection, PendingRequestKind, last_line},
    protocol::outgoing,
    translate::{AcpRequestOutcome, AcpTranslator, DecisionEffect},
};
use crate::{claude::escape, process::session_binding::SessionBinding};

/// The time for an agent to read the last line, or to stop its tools, before it is terminated.
const WIND_DOWN_TIMEOUT: Duration = Duration::from_millis(500);

/// The notification by which an agent withdraws one of its requests.
const CANCEL_REQUEST: &str = "$/cancel_request";

#[derive(Debug)]
pub(super) struct AcpAgent {
    pub(super) connection: AcpConnection,
    pub(super) translator: AcpTranslator,
    pub(super) service: Service,
    pub(super) redactor: Redactor,
    /// Events to emit at the beginning of the first turn.
    pub(super) startup_events: Vec<AgentEvent>,
    /// Content sent before the first message: an appended system prompt, a history from elsewhere.
    pub(super) preface: Vec<Content>,
    /// Output of an earlier turn may still arrive.
    pub(super) unsettled: bool,
    /// The agent must not be used for another turn.
    pub(super) retired: bool,
    /// A turn has begun and not ended. Stays `true` if the future of [`Agent::run`] is dropped.
    pub(super) in_turn: bool,
    pub(super) session_binding: Option<SessionBinding>,
}

impl Agent for AcpAgent {
    fn run<'a>(&'a mut self, turn: &'a Turn, io: TurnIo) -> BoxFuture<'a, AgentOutcome> {
        Box::pin(self.run_turn(turn, io))
    }

    fn is_usable(&mut self) -> bool {
        !self.retired && !self.in_turn && self.connection.link.is_open()
    }

    fn close(self: Box<Self>, grace: Duration) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let mut this = *self;
            this.cancel_before_close(grace).await;
            this.service.close().await;
            this.connection.link.close(grace).await;
            drop(this.session_binding);
        })
    }
}

impl AcpAgent {
    /// Returns the content of the prompt. Text from a remote sender is neutralised, so that it
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
        let mut nobody = Vec::new();
        loop {
            let out = if ended.is_none() { &mut *batch } else { &mut nobody };
            let Some(heard) = self.handle_line(out) else { break };
            match heard {
                LineEffect::Nothing => {}
                LineEffect::Ended(end) => ended = ended.or(Some(end)),
                LineEffect::Request(id, wish) => self.start_request(id, wish).await,
            }
        }
        ended
    }

    /// Handles the next line. `None`: no further line has arrived.
    fn handle_line(&mut self, out: &mut Vec<AgentEvent>) -> Option<LineEffect> {
        let Self { connection, translator, .. } = self;
        let frame = connection.link.output.framer.next()?;
        let line = match frame {
            Frame::Line(line) | Frame::Partial(line) => line,
            Frame::TooLong { bytes, .. } => {
                translator.on_too_long(bytes, out);
                return Some(LineEffect::Nothing);
            }
        };
        match jsonrpc::decode(line) {
            Ok(RpcMessage::Notification { method, params }) if method == CANCEL_REQUEST => {
                let decided = translator.on_cancel_request(params, out);
                if let Some(line) = decided.as_ref().and_then(encode_decision) {
                    connection.link.input.push(line);
                }
            }
            Ok(RpcMessage::Notification { method, params }) => {
                translator.on_notification(&method, params, out);
            }
            Ok(RpcMessage::Request { id, method, params }) => {
                let answer = translator.on_request(&id, &method, params, out);
                let line = match answer {
                    AcpRequestOutcome::Now(result) => outgoing::encode_result(&id, &result),
                    AcpRequestOutcome::Error(error) => outgoing::encode_error(&id, &error),
                    AcpRequestOutcome::Approval => return Some(LineEffect::Nothing),
                    AcpRequestOutcome::Execute(wish) => {
                        return Some(LineEffect::Request(id.into_owned(), wish));
                    }
                };
                connection.link.input.push(line);
            }
            Ok(RpcMessage::Response { id: Some(id), result }) => {
                if let ResponseMatch::Waiter(PendingRequestKind::Prompt) =
                    connection.pending.match_response(&id)
                    && translator.in_turn()
                {
                    // Open approvals are withdrawn first: ending the turn would drop their request
                    // ids, and the agent would wait for an answer for ever.
                    let unanswered = translator.withdraw_approvals(out);
                    let ended = translator.on_prompt_response(result, out);
                    for decided in unanswered {
                        if let Some(line) = encode_decision(&decided) {
                            connection.link.input.push(line);
                        }
                    }
                    return Some(LineEffect::Ended(ended));
                }
            }
            Ok(RpcMessage::Response { id: None, .. }) | Err(_) => {
                translator.on_invalid_line(line, out);
            }
        }
        Some(LineEffect::Nothing)
    }

    /// Starts to carry out a request of the agent.
    pub(super) async fn start_request(&mut self, id: jsonrpc::RpcId<'static>, wish: ClientRequest) {
        // Keep the output for the tool result: a released terminal forgets it.
        if let ClientRequest::Release(terminal) | ClientRequest::Kill(terminal) = &wish
            && let Some(text) = self.service.terminal_output(terminal)
        {
            self.translator.on_terminal_output(terminal, &text);
        }
        if let Some(served) = self.service.start(id, wish).await {
            self.send_response(&served);
        }
    }

    /// Sends the agent the response to one of its requests.
    pub(super) fn send_response(&mut self, served: &ClientResponse) {
        if let Some(terminal) = &served.terminal
            && let Some(text) = self.service.terminal_output(terminal)
        {
            self.translator.on_terminal_output(terminal, &text);
        }
        let line = match &served.result {
            Ok(value) => outgoing::encode_result(&served.id, &outgoing::to_raw(value)),
            Err(error) => outgoing::encode_error(&served.id, error),
        };
        self.connection.link.input.push(line);
    }

    /// Handles a control message of the engine. `true`: the turn must be stopped.
    pub(super) async fn handle_control(
        &mut self,
        control: TurnControl,
        batch: &mut Vec<AgentEvent>,
    ) -> bool {
        match control {
            TurnControl::Decide { key, decision } => {
                self.apply_decision(&key, &decision, batch).await;
                decision.verdict == Verdict::Stop
            }
            // Our capabilities say `steer: false`, so this is not expected.
            TurnControl::Steer(_) => {
                let text = "an ACP agent takes no messages during a turn; send it again afterwards";
                let notice = Notice::new(NoticeLevel::Warning, "not_steered", text);
                batch.push(AgentEvent::Event(EventKind::Notice(notice)));
                false
            }
            TurnControl::ToolResult { .. } => false,
        }
    }

    async fn apply_decision(
        &mut self,
        key: &str,
        decision: &Decision,
        batch: &mut Vec<AgentEvent>,
    ) {
        match self.translator.decide(key, decision, batch) {
            Some(DecisionEffect::Execute(id, wish)) => self.start_request(id, wish).await,
            Some(other) => {
                if let Some(line) = encode_decision(&other) {
                    self.connection.link.input.push(line);
                }
            }
            None => {}
        }
    }

    /// Asks the agent to stop the turn. Its open permission requests are answered first, because
    /// the protocol requires a client to answer them as cancelled.
    pub(super) fn cancel(&mut self, batch: &mut Vec<AgentEvent>) {
        for decided in self.translator.begin_stop(batch) {
            if let Some(line) = encode_decision(&decided) {
                self.connection.link.input.push(line);
            }
        }
        let session = self.translator.session().as_str();
        self.connection.link.input.push(outgoing::encode_cancel(session));
    }

    pub(super) async fn handle_end_of_output(
        &mut self,
        batch: &mut Vec<AgentEvent>,
    ) -> AgentOutcome {
        self.retired = true;
        let ended = self.translator.on_end_of_output(batch);
        let ended =
            ended.unwrap_or_else(|| AgentOutcome::failed(Failure::new(FailureKind::Agent, "")));
        match ended.status {
            TurnStatus::Failed(_) => AgentOutcome {
                status: TurnStatus::Failed(self.exit_failure("in the middle of the turn").await),
                ..ended
            },
            _ => ended,
        }
    }

    pub(super) async fn exit_failure(&mut self, when: &str) -> Failure {
        self.retired = true;
        let agent = self.translator.agent().name();
        let words = self.connection.link.describe_exit(&self.redactor).await;
        Failure::new(FailureKind::Agent, format!("{agent} ended {when}: {words}"))
            .with_hint("send the message again; the session continues where it was")
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
                let words = crate::truncation::truncate_chars(last, 400);
                failure.message = format!("{}; it said: {words}", failure.message).into();
            }
        }
        ended
    }

    /// Writes the queued lines, as far as the agent reads them in time.
    pub(super) async fn flush(&mut self) {
        let input = &mut self.connection.link.input;
        if input.has_pending() && !self.retired {
            let written = timeout(WIND_DOWN_TIMEOUT, input.write_all()).await;
            self.retired |= written.is_err();
        }
    }

    /// Cancels a running turn before the process is stopped, so that the agent ends its own tools.
    async fn cancel_before_close(&mut self, grace: Duration) {
        if !self.connection.link.is_open() || !self.in_turn {
            return;
        }
        let mut nobody = Vec::new();
        self.cancel(&mut nobody);
        let stopped = async {
            loop {
                let link = &mut self.connection.link;
                let has_more = link.input.has_pending();
                let more = tokio::select! {
                    biased;
                    () = link.input.write(), if has_more => true,
                    more = link.output.read() => more,
                };
                nobody.clear();
                if self.translate(&mut nobody).await.is_some() || !more {
                    return;
                }
            }
        };
        // If the agent does not stop in time, closing the link terminates it.
        let _ = timeout(WIND_DOWN_TIMEOUT.min(grace), stopped).await;
    }
}

/// The effect of one line from the agent.
enum LineEffect {
    Nothing,
    Ended(AgentOutcome),
    Request(jsonrpc::RpcId<'static>, ClientRequest),
}

/// Encodes the response to a decided request. `None`: the request must be carried out first.
fn encode_decision(decided: &DecisionEffect) -> Option<Vec<u8>> {
    match decided {
        DecisionEffect::Reply(id, result) => Some(outgoing::encode_result(id, result)),
        DecisionEffect::Refuse(id, why) => {
            let error = ErrorObject::new(jsonrpc::INTERNAL_ERROR, &**why);
            Some(outgoing::encode_error(id, &error))
        }
        DecisionEffect::Execute(..) => None,
    }
}

//! One running program that serves many turns: its lines, the messages to it, and the requests that
//! we send it meanwhile. The steps of a turn are in [`turn`](super::turn).

use std::sync::Arc;

use angelia_core::{
    model::{Content, EventKind, Turn, TurnOrigin},
    ports::{Activity, AgentEvent, AgentOutcome, Clock},
    redact::Redactor,
};
use angelia_wire::ndjson::Frame;

use super::{
    caller_tools::CallerTools,
    escape::{self, TextHandling},
    protocol::outgoing::{self, ControlCommand},
    start::answer_cli_request,
    translate::{StreamSignal, StreamTranslator},
};
use crate::{
    process::session_binding::SessionBinding,
    process_link::ProcessLink,
    turn_driver::{deny_orphans, is_delta},
};

#[derive(Debug)]
pub(crate) struct StreamAgent {
    pub(crate) link: ProcessLink,
    pub(crate) translator: StreamTranslator,
    pub(crate) tools: CallerTools,
    pub(crate) settings: StreamAgentSettings,
    /// A history that the program did not accept as a transcript; sent before the first message.
    pub(crate) history_text: Option<Content>,
    /// The origin of the running turn; its steering messages have the same.
    pub(crate) origin: TurnOrigin,
    /// No text of the running turn has been seen yet.
    pub(crate) awaits_first_delta: bool,
    /// The framer holds complete lines that have not been translated.
    pub(crate) has_unread_lines: bool,
    pub(crate) request_count: u64,
    /// Steering messages for the running turn that the program cannot accept yet.
    pub(crate) pending_steers: Vec<Vec<Content>>,
    pub(crate) cost_poll: CostPoll,
    /// Tells our own programs that the agent starts which session they belong to.
    pub(crate) session_binding: Option<SessionBinding>,
}

/// Polls the cost of a running turn when the cost is limited: the program reports it only on
/// request.
#[derive(Debug, Default)]
pub(crate) struct CostPoll {
    pub(crate) is_limited: bool,
    /// The id of the usage request that has not been answered.
    pending_request: Option<String>,
    /// The cost may have changed since the last request.
    due: bool,
}

impl CostPoll {
    pub(crate) fn new(is_limited: bool) -> Self {
        Self { is_limited, ..Self::default() }
    }
}

/// Settings that do not change during the agent's life.
#[derive(Clone)]
pub(crate) struct StreamAgentSettings {
    pub(crate) title: &'static str,
    pub(crate) redactor: Redactor,
    pub(crate) clock: Arc<dyn Clock>,
    /// Whether it is known how the program handles commands and mentions in text.
    pub(crate) text_handling: TextHandling,
    /// In model mode text never triggers commands or mentions, even text of the owner.
    pub(crate) model_mode: bool,
}

impl std::fmt::Debug for StreamAgentSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamAgentSettings").field("title", &self.title).finish_non_exhaustive()
    }
}

impl StreamAgent {
    /// Returns the content of the turn's message, escaped unless the owner sent it.
    pub(super) fn message_content(&mut self, turn: &Turn) -> Vec<Content> {
        let mut content = Vec::with_capacity(turn.input.len() + 2);
        content.extend(self.history_text.take());
        content.extend_from_slice(&turn.input);
        self.escape_untrusted(content, turn.options.origin, self.settings.text_handling)
    }

    pub(super) fn escape_untrusted(
        &self,
        content: Vec<Content>,
        origin: TurnOrigin,
        reader: TextHandling,
    ) -> Vec<Content> {
        match origin {
            TurnOrigin::Owner if !self.settings.model_mode => content,
            _ => escape::make_inert(&content, reader),
        }
    }

    /// Sends queued steering messages, once the program would make them part of the running turn.
    pub(super) fn send_pending_steers(&mut self) {
        if self.pending_steers.is_empty() || !self.translator.accepts_steering() {
            return;
        }
        for content in std::mem::take(&mut self.pending_steers) {
            let uuid = self.settings.clock.fresh_uuid().to_string();
            self.translator.add_steer(&uuid);
            self.link.input.push(outgoing::user_message(&uuid, &content));
        }
    }

    /// Translates the lines that have arrived. Events after the end of the turn are discarded.
    ///
    /// Stops after the first delta of a turn, so that it can be sent before the rest is translated.
    pub(super) async fn translate(&mut self, batch: &mut Vec<AgentEvent>) -> Option<AgentOutcome> {
        self.has_unread_lines = false;
        let mut ended = None;
        let mut late = Vec::new();
        while let Some(frame) = self.link.output.framer.next() {
            let out = if ended.is_none() { &mut *batch } else { &mut late };
            let signal = match frame {
                Frame::Line(line) | Frame::Partial(line) => {
                    self.translator.translate_line(line, out)
                }
                Frame::TooLong { bytes, .. } => {
                    self.translator.report_long_line(bytes, out);
                    None
                }
            };
            match signal {
                Some(StreamSignal::TurnEnded(end)) => ended = ended.or(Some(end)),
                Some(StreamSignal::Request(request)) => {
                    if let Some(answer) = answer_cli_request(&request, &mut self.tools) {
                        self.link.input.push(answer);
                    }
                }
                Some(StreamSignal::Respond(response)) => self.link.input.push(response),
                Some(StreamSignal::Response { request_id, result }) => {
                    let asked = self.cost_poll.pending_request.take_if(|id| **id == *request_id);
                    if let (Some(_), Ok(Some(totals))) = (asked, result) {
                        self.translator.apply_totals(totals.get(), out);
                    }
                }
                Some(StreamSignal::FutileRetry) => {
                    self.send_request(&ControlCommand::Interrupt);
                }
                None => {}
            }
            // The program makes a call as soon as the call is written, while further calls of the
            // same message still follow. So report the wait only when the message is complete.
            if !self.translator.is_writing() && self.tools.take_unreported() {
                self.translator.emit_usage_so_far(out);
                out.push(AgentEvent::Activity(Activity::AwaitingToolResult));
            }
            if self.awaits_first_delta && batch.last().is_some_and(is_delta) {
                self.awaits_first_delta = false;
                self.has_unread_lines = true;
                break;
            }
        }
        self.poll_cost(batch);
        if !self.tools.is_empty() {
            self.tools.restore_caller_names(batch);
        }
        deny_orphans(self, &late).await;
        ended
    }

    pub(super) fn send_request(&mut self, request: &ControlCommand<'_>) -> String {
        self.request_count += 1;
        let id = format!("angelia-{}", self.request_count);
        (self.link.input).push(outgoing::control_request(&id, request));
        id
    }

    /// Asks for the totals of this process before the turn adds to them, to get the baseline.
    pub(super) fn request_cost_baseline(&mut self) {
        self.cost_poll.due = self.cost_poll.is_limited && !self.translator.has_usage_baseline();
        self.poll_cost(&[]);
    }

    /// Requests the totals after every tool result, because the next model request follows. Only
    /// one request is outstanding at a time.
    fn poll_cost(&mut self, batch: &[AgentEvent]) {
        let is_result =
            |one: &AgentEvent| matches!(one, AgentEvent::Event(EventKind::ToolResult(_)));
        self.cost_poll.due |= self.cost_poll.is_limited && batch.iter().any(is_result);
        if self.cost_poll.due && self.cost_poll.pending_request.is_none() {
            self.cost_poll.due = false;
            self.cost_poll.pending_request = Some(self.send_request(&ControlCommand::Usage));
        }
    }
}

//! One running program that serves many turns: its lines, our messages to it, and the requests that
//! we send during turns. The steps of a turn are in [`turn`](super::turn).

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
    /// The origin of the running turn, which its steering messages share.
    pub(crate) origin: TurnOrigin,
    /// Set until the running turn has produced its first text.
    pub(crate) awaits_first_delta: bool,
    /// Set if the framer holds complete lines that are not translated yet.
    pub(crate) has_unread_lines: bool,
    pub(crate) request_count: u64,
    /// Steering messages for the running turn that the program cannot accept yet.
    pub(crate) pending_steers: Vec<Vec<Content>>,
    pub(crate) cost_poll: CostPoll,
    /// Tells our own programs, when the agent starts them, which session they belong to.
    pub(crate) session_binding: Option<SessionBinding>,
}

/// Polls the cost of a running turn if the cost is limited, because the program reports it only on
/// request.
#[derive(Debug, Default)]
pub(crate) struct CostPoll {
    pub(crate) is_limited: bool,
    /// The id of the usage request that awaits an answer.
    pending_request: Option<String>,
    /// Set if the cost may have changed since the last request.
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
    /// Whether we know how the program handles commands and mentions in text.
    pub(crate) text_handling: TextHandling,
    /// In model mode, text never triggers commands or mentions, not even the owner's.
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

    /// Sends queued steering messages once the program would make them part of the running turn.
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
            // The program makes a call as soon as it has written it, while further calls of the
            // same message may still follow. Report the wait only once the message is complete.
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

    /// Requests the totals of this process before the turn adds to them; they are the baseline.
    pub(super) fn request_cost_baseline(&mut self) {
        self.cost_poll.due = self.cost_poll.is_limited && !self.translator.has_usage_baseline();
        self.poll_cost(&[]);
    }

    /// Requests the totals after every tool result, because another model request follows. Only one
    /// request is outstanding at a time.
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

//! One running program that serves many turns: handles its lines, decisions on approvals, and the
//! end of its output.
//!
//! The event loop of a turn is in [`turn`](super::turn).

use std::{sync::Arc, time::Duration};

use angelia_core::{
    model::{
        Content, Decision, EventKind, Failure, FailureKind, Notice, NoticeLevel, Turn, TurnOrigin,
        TurnStatus, Verdict,
    },
    ports::{Activity, Agent, AgentEvent, AgentOutcome, BoxFuture, Clock, TurnControl, TurnIo},
    redact::Redactor,
};
use angelia_wire::ndjson::Frame;
use tokio::time::timeout;

use super::{
    caller_tools::CallerTools,
    escape::{self, TextHandling},
    protocol::outgoing::{self, ControlCommand},
    start::answer_cli_request,
    translate::{StreamSignal, StreamTranslator},
};
use crate::{process::session_binding::SessionBinding, process_link::ProcessLink};

/// How long a program may take to read the last lines, or to stop its tools, before it is
/// terminated.
const WIND_DOWN_TIMEOUT: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(crate) struct StreamAgent {
    pub(crate) link: ProcessLink,
    pub(crate) translator: StreamTranslator,
    pub(crate) tools: CallerTools,
    pub(crate) settings: StreamAgentSettings,
    /// Events to emit at the beginning of the first turn.
    pub(crate) startup_events: Vec<AgentEvent>,
    /// A history that the program did not accept as a transcript; sent before the first message.
    pub(crate) history_text: Option<Content>,
    /// The program must not be used again.
    pub(crate) retired: bool,
    /// A turn has begun and has not ended. Stays set when the future that ran the turn was dropped.
    pub(crate) in_turn: bool,
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

impl Agent for StreamAgent {
    fn run<'a>(&'a mut self, turn: &'a Turn, io: TurnIo) -> BoxFuture<'a, AgentOutcome> {
        Box::pin(self.run_turn(turn, io))
    }

    fn is_usable(&mut self) -> bool {
        !self.retired && !self.in_turn && self.link.is_open()
    }

    fn close(self: Box<Self>, grace: Duration) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let mut this = *self;
            this.interrupt_before_close(grace).await;
            this.link.close(grace).await;
        })
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

    fn escape_untrusted(
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

    /// Emits a notice if the turn has ended before queued steering messages could be sent.
    pub(super) fn drop_pending_steers(&mut self, batch: &mut Vec<AgentEvent>) {
        if !std::mem::take(&mut self.pending_steers).is_empty() {
            let text = "the agent could not take what was added to this turn; send it again";
            let notice = Notice::new(NoticeLevel::Warning, "not_steered", text);
            batch.push(AgentEvent::Event(EventKind::Notice(notice)));
        }
    }

    /// Translates every line that has arrived. Events after the end of the turn are discarded.
    pub(super) fn translate(&mut self, batch: &mut Vec<AgentEvent>) -> Option<AgentOutcome> {
        self.translate_until(batch, |_| false)
    }

    /// Like [`Self::translate`], but stops after the first line for which `is_enough` holds.
    pub(super) fn translate_until(
        &mut self,
        batch: &mut Vec<AgentEvent>,
        is_enough: impl Fn(&[AgentEvent]) -> bool,
    ) -> Option<AgentOutcome> {
        let mut ended = None;
        let mut nobody = Vec::new();
        while let Some(frame) = self.link.output.framer.next() {
            let out = if ended.is_none() { &mut *batch } else { &mut nobody };
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
                Some(StreamSignal::Request(asked)) => {
                    if let Some(answer) = answer_cli_request(&asked, &mut self.tools) {
                        self.link.input.push(answer);
                    }
                }
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
            if is_enough(batch) {
                break;
            }
        }
        self.poll_cost(batch);
        if !self.tools.is_empty() {
            self.tools.restore_caller_names(batch);
        }
        self.deny_orphaned_approvals(&nobody);
        ended
    }

    /// Denies approval requests that belong to a turn that is over.
    pub(super) fn deny_orphaned_approvals(&mut self, nobody: &[AgentEvent]) {
        for emitted in nobody {
            if let AgentEvent::ApprovalRequest(request) = emitted {
                let refusal = Decision::new(Verdict::Deny, "nobody")
                    .with_note("the turn this belongs to is over");
                if let Some(answer) = self.translator.answer_approval(&request.key, &refusal) {
                    self.link.input.push(answer);
                }
            }
        }
    }

    pub(super) fn handle_control(&mut self, control: TurnControl, origin: TurnOrigin) {
        let line = match control {
            TurnControl::Decide { key, decision } => {
                self.translator.answer_approval(&key, &decision)
            }
            TurnControl::ToolResult { id, ok, content } => {
                self.tools.complete_call(id, ok, content)
            }
            TurnControl::Steer(content) => {
                self.pending_steers.push(self.escape_untrusted(
                    content,
                    origin,
                    TextHandling::Unverified,
                ));
                self.send_pending_steers();
                None
            }
        };
        if let Some(line) = line {
            self.link.input.push(line);
        }
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

    pub(super) async fn finish_at_eof(&mut self, batch: &mut Vec<AgentEvent>) -> AgentOutcome {
        self.retired = true;
        while let Some(frame) = self.link.output.framer.finish() {
            if let Frame::Line(line) | Frame::Partial(line) = frame
                && let Some(StreamSignal::TurnEnded(ended)) =
                    self.translator.translate_line(line, batch)
            {
                return ended;
            }
        }
        let ended = match self.translator.end_of_output(batch) {
            Some(StreamSignal::TurnEnded(ended)) => ended,
            _ => AgentOutcome::failed(Failure::new(FailureKind::Agent, "")),
        };
        match ended.status {
            // The translator only knows that the output ended; say how the program exited instead.
            TurnStatus::Failed(failure) if failure.kind == FailureKind::Agent => AgentOutcome {
                status: TurnStatus::Failed(self.exit_failure("in the middle of the turn").await),
                ..ended
            },
            _ => ended,
        }
    }

    async fn exit_failure(&mut self, when: &str) -> Failure {
        let words = self.link.describe_exit(&self.settings.redactor).await;
        let title = self.settings.title;
        Failure::new(FailureKind::Agent, format!("{title} ended {when}: {words}"))
            .with_hint("send the message again; the session continues where it was")
    }

    pub(super) async fn fail_between_turns(&mut self) -> AgentOutcome {
        self.retired = true;
        AgentOutcome::failed(self.exit_failure("before the turn").await)
    }

    /// Writes the queued lines, for as long as the program reads them.
    pub(super) async fn flush(&mut self) {
        if self.link.input.has_pending() && !self.retired {
            let written = timeout(WIND_DOWN_TIMEOUT, self.link.input.write_all()).await;
            self.retired |= written.is_err();
        }
    }

    /// Interrupts the running turn before closing, so that the program itself ends its tools.
    async fn interrupt_before_close(&mut self, grace: Duration) {
        if !self.link.is_open() || !self.in_turn {
            return;
        }
        self.send_request(&ControlCommand::Interrupt);
        let stopped = async {
            loop {
                let ProcessLink { input, output, .. } = &mut self.link;
                let has_more = input.has_pending();
                let more = tokio::select! {
                    biased;
                    () = input.write(), if has_more => true,
                    more = output.read() => more,
                };
                if self.translate(&mut Vec::new()).is_some() || !more {
                    return;
                }
            }
        };
        // If the program does not stop in time, the termination that follows ends it.
        let _ = timeout(WIND_DOWN_TIMEOUT.min(grace), stopped).await;
    }
}

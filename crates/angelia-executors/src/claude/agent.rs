//! One running program that serves many turns: handles its lines, decisions on approvals, and the
//! end of its output.
//!
//! The event loop of a turn is in [`turn`](super::turn).

use std::{sync::Arc, time::Duration};

use angelia_core::{
    model::{
        Content, Decision, EventKind, Failure, FailureKind, Level, Notice, Origin, Status, Turn,
        Verdict,
    },
    ports::{Activity, Agent, BoxFuture, Clock, Emitted, Ended, TurnControl, TurnIo},
    redact::Redactor,
};
use angelia_wire::ndjson::Frame;
use tokio::time::timeout;

use super::{
    caller_tools::CallerTools,
    escape::{self, Reader},
    protocol::outgoing::{self, Request},
    start::answer_ask,
    translate::{Signal, Translator},
};
use crate::{link::Link, process::bound::Bound};

/// How long a program may take to read the last lines, or to stop its tools, before it is
/// terminated.
const LAST_CHANCE: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(crate) struct StreamAgent {
    pub(crate) link: Link,
    pub(crate) translator: Translator,
    pub(crate) tools: CallerTools,
    pub(crate) settings: Settings,
    /// Events to emit at the beginning of the first turn.
    pub(crate) first_words: Vec<Emitted>,
    /// A history that the program did not accept as a transcript; sent before the first message.
    pub(crate) preface: Option<Content>,
    /// The program must not be used again.
    pub(crate) retired: bool,
    /// A turn has begun and has not ended. Stays set when the future that ran the turn was dropped.
    pub(crate) in_turn: bool,
    pub(crate) requests: u64,
    /// Steering messages for the running turn that the program cannot accept yet.
    pub(crate) held: Vec<Vec<Content>>,
    pub(crate) spending: Spending,
    /// Tells our own programs that the agent starts which session they belong to.
    pub(crate) bound: Option<Bound>,
}

/// Polls the cost of a running turn when the cost is limited: the program reports it only on
/// request.
#[derive(Debug, Default)]
pub(crate) struct Spending {
    pub(crate) is_limited: bool,
    /// The id of the usage request that has not been answered.
    asked: Option<String>,
    /// The cost may have changed since the last request.
    due: bool,
}

impl Spending {
    pub(crate) fn new(is_limited: bool) -> Self {
        Self { is_limited, ..Self::default() }
    }
}

/// Settings that do not change during the agent's life.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) title: &'static str,
    pub(crate) redactor: Redactor,
    pub(crate) clock: Arc<dyn Clock>,
    /// Whether it is known how the program handles commands and mentions in text.
    pub(crate) reader: Reader,
    /// In model mode text never triggers commands or mentions, even text of the owner.
    pub(crate) model_mode: bool,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamAgentSettings").field("title", &self.title).finish_non_exhaustive()
    }
}

impl Agent for StreamAgent {
    fn run<'a>(&'a mut self, turn: &'a Turn, io: TurnIo) -> BoxFuture<'a, Ended> {
        Box::pin(self.turn(turn, io))
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
    pub(super) fn content(&mut self, turn: &Turn) -> Vec<Content> {
        let mut content = Vec::with_capacity(turn.input.len() + 2);
        content.extend(self.preface.take());
        content.extend_from_slice(&turn.input);
        self.harmless(content, turn.options.origin, self.settings.reader)
    }

    fn harmless(&self, content: Vec<Content>, origin: Origin, reader: Reader) -> Vec<Content> {
        match origin {
            Origin::Owner if !self.settings.model_mode => content,
            _ => escape::with_harmless_end(&content, reader),
        }
    }

    /// Sends queued steering messages, once the program would make them part of the running turn.
    pub(super) fn pass_held_words(&mut self) {
        if self.held.is_empty() || !self.translator.takes_words() {
            return;
        }
        for content in std::mem::take(&mut self.held) {
            let uuid = self.settings.clock.fresh_uuid().to_string();
            self.translator.steered(&uuid);
            self.link.input.push(outgoing::user_message(&uuid, &content));
        }
    }

    /// Emits a notice if the turn has ended before queued steering messages could be sent.
    pub(super) fn drop_held_words(&mut self, batch: &mut Vec<Emitted>) {
        if !std::mem::take(&mut self.held).is_empty() {
            let text = "the agent could not take what was added to this turn; send it again";
            let notice = Notice::new(Level::Warning, "not_steered", text);
            batch.push(Emitted::Event(EventKind::Notice(notice)));
        }
    }

    /// Translates every line that has arrived. Events after the end of the turn are discarded.
    pub(super) fn translate(&mut self, batch: &mut Vec<Emitted>) -> Option<Ended> {
        self.translate_until(batch, |_| false)
    }

    /// Like [`Self::translate`], but stops after the first line for which `is_enough` holds.
    pub(super) fn translate_until(
        &mut self,
        batch: &mut Vec<Emitted>,
        is_enough: impl Fn(&[Emitted]) -> bool,
    ) -> Option<Ended> {
        let mut ended = None;
        let mut nobody = Vec::new();
        while let Some(frame) = self.link.output.framer.next() {
            let out = if ended.is_none() { &mut *batch } else { &mut nobody };
            let signal = match frame {
                Frame::Line(line) | Frame::Partial(line) => self.translator.line(line, out),
                Frame::TooLong { bytes, .. } => {
                    self.translator.too_long(bytes, out);
                    None
                }
            };
            match signal {
                Some(Signal::Ended(end)) => ended = ended.or(Some(end)),
                Some(Signal::Asked(asked)) => {
                    if let Some(answer) = answer_ask(&asked, &mut self.tools) {
                        self.link.input.push(answer);
                    }
                }
                Some(Signal::Answered { request_id, result }) => {
                    let asked = self.spending.asked.take_if(|id| **id == *request_id);
                    if let (Some(_), Ok(Some(totals))) = (asked, result) {
                        self.translator.totals(totals.get(), out);
                    }
                }
                Some(Signal::InVain) => {
                    self.request(&Request::Interrupt);
                }
                None => {}
            }
            // The program makes a call as soon as the call is written, while further calls of the
            // same message still follow. So report the wait only when the message is complete.
            if !self.translator.is_writing() && self.tools.take_untold() {
                self.translator.spent_so_far(out);
                out.push(Emitted::Activity(Activity::AwaitingToolResult));
            }
            if is_enough(batch) {
                break;
            }
        }
        self.watch_spending(batch);
        if !self.tools.is_empty() {
            self.tools.rename(batch);
        }
        self.refuse_unheard(&nobody);
        ended
    }

    /// Denies approval requests that belong to a turn that is over.
    pub(super) fn refuse_unheard(&mut self, nobody: &[Emitted]) {
        for emitted in nobody {
            if let Emitted::Ask(request) = emitted {
                let refusal = Decision::new(Verdict::Deny, "nobody")
                    .with_note("the turn this belongs to is over");
                if let Some(answer) = self.translator.answer(&request.key, &refusal) {
                    self.link.input.push(answer);
                }
            }
        }
    }

    pub(super) fn control(&mut self, control: TurnControl, origin: Origin) {
        let line = match control {
            TurnControl::Decide { key, decision } => self.translator.answer(&key, &decision),
            TurnControl::ToolResult { id, ok, content } => self.tools.answer(id, ok, content),
            TurnControl::Steer(content) => {
                self.held.push(self.harmless(content, origin, Reader::Unknown));
                self.pass_held_words();
                None
            }
        };
        if let Some(line) = line {
            self.link.input.push(line);
        }
    }

    pub(super) fn request(&mut self, request: &Request<'_>) -> String {
        self.requests += 1;
        let id = format!("angelia-{}", self.requests);
        (self.link.input).push(outgoing::control_request(&id, request));
        id
    }

    /// Asks for the totals of this process before the turn adds to them, to get the baseline.
    pub(super) fn ground_spending(&mut self) {
        self.spending.due = self.spending.is_limited && !self.translator.knows_totals();
        self.watch_spending(&[]);
    }

    /// Requests the totals after every tool result, because the next model request follows. Only
    /// one request is outstanding at a time.
    fn watch_spending(&mut self, batch: &[Emitted]) {
        let is_result = |one: &Emitted| matches!(one, Emitted::Event(EventKind::ToolResult(_)));
        self.spending.due |= self.spending.is_limited && batch.iter().any(is_result);
        if self.spending.due && self.spending.asked.is_none() {
            self.spending.due = false;
            self.spending.asked = Some(self.request(&Request::Usage));
        }
    }

    pub(super) async fn output_ended(&mut self, batch: &mut Vec<Emitted>) -> Ended {
        self.retired = true;
        while let Some(frame) = self.link.output.framer.finish() {
            if let Frame::Line(line) | Frame::Partial(line) = frame
                && let Some(Signal::Ended(ended)) = self.translator.line(line, batch)
            {
                return ended;
            }
        }
        let ended = match self.translator.end_of_output(batch) {
            Some(Signal::Ended(ended)) => ended,
            _ => Ended::failed(Failure::new(FailureKind::Agent, "")),
        };
        match ended.status {
            // The translator only knows that the output ended; say how the program exited instead.
            Status::Failed(failure) if failure.kind == FailureKind::Agent => Ended {
                status: Status::Failed(self.died("in the middle of the turn").await),
                ..ended
            },
            _ => ended,
        }
    }

    async fn died(&mut self, when: &str) -> Failure {
        let words = self.link.last_words(&self.settings.redactor).await;
        let title = self.settings.title;
        Failure::new(FailureKind::Agent, format!("{title} ended {when}: {words}"))
            .with_hint("send the message again; the session continues where it was")
    }

    pub(super) async fn ended_between_turns(&mut self) -> Ended {
        self.retired = true;
        Ended::failed(self.died("before the turn").await)
    }

    /// Writes the queued lines, for as long as the program reads them.
    pub(super) async fn flush(&mut self) {
        if self.link.input.has_more() && !self.retired {
            let written = timeout(LAST_CHANCE, self.link.input.write_all()).await;
            self.retired |= written.is_err();
        }
    }

    /// Interrupts the running turn before closing, so that the program itself ends its tools.
    async fn interrupt_before_close(&mut self, grace: Duration) {
        if !self.link.is_open() || !self.in_turn {
            return;
        }
        self.request(&Request::Interrupt);
        let stopped = async {
            loop {
                let Link { input, output, .. } = &mut self.link;
                let has_more = input.has_more();
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
        let _ = timeout(LAST_CHANCE.min(grace), stopped).await;
    }
}

//! One running program, many turns: what happens to a line, a decision, an end.
//!
//! The turn itself, with everything it waits for, is in [`turn`](super::turn).

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

/// What a program gets to take a last line, or to stop what it runs, before the ladder.
const LAST_CHANCE: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(crate) struct StreamAgent {
    pub(crate) link: Link,
    pub(crate) translator: Translator,
    pub(crate) tools: CallerTools,
    pub(crate) settings: Settings,
    /// Said at the beginning of the first turn.
    pub(crate) first_words: Vec<Emitted>,
    /// A history the program could not take up as such; goes before the first message.
    pub(crate) preface: Option<Content>,
    /// Must not be used again.
    pub(crate) retired: bool,
    /// A turn has begun and not ended; still so when whoever ran it has gone.
    pub(crate) in_turn: bool,
    pub(crate) requests: u64,
    /// Words for the running turn that the program cannot take yet.
    pub(crate) held: Vec<Vec<Content>>,
    pub(crate) spending: Spending,
    /// Tells programs of ours that it starts whose they are.
    pub(crate) bound: Option<Bound>,
}

/// What a turn costs while it runs, where that is limited: the program says it only when asked.
#[derive(Debug, Default)]
pub(crate) struct Spending {
    pub(crate) is_limited: bool,
    /// The question that has not been answered.
    asked: Option<String>,
    /// There is something new to ask about.
    due: bool,
}

impl Spending {
    pub(crate) fn new(is_limited: bool) -> Self {
        Self { is_limited, ..Self::default() }
    }
}

/// What does not change over the agent's life.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) title: &'static str,
    pub(crate) redactor: Redactor,
    pub(crate) clock: Arc<dyn Clock>,
    /// What is known about how the program treats text.
    pub(crate) reader: Reader,
    /// Text never acts, wherever it comes from.
    pub(crate) model_mode: bool,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings").field("title", &self.title).finish_non_exhaustive()
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
    /// The words of the turn, so that they act only as far as whoever sent them may.
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

    /// Words for the running turn, as soon as they would become a part of it.
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

    /// Says so when the turn has ended before words for it could be passed on.
    pub(super) fn drop_held_words(&mut self, batch: &mut Vec<Emitted>) {
        if !std::mem::take(&mut self.held).is_empty() {
            let text = "the agent could not take what was added to this turn; send it again";
            let notice = Notice::new(Level::Warning, "not_steered", text);
            batch.push(Emitted::Event(EventKind::Notice(notice)));
        }
    }

    /// Every line that has arrived. What comes after the end of the turn is nobody's.
    pub(super) fn translate(&mut self, batch: &mut Vec<Emitted>) -> Option<Ended> {
        self.translate_until(batch, |_| false)
    }

    /// The same, but no further than the first line behind which there is enough.
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
            // A call is made as soon as it is written; further ones of the message come behind it.
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

    /// Questions that nobody will hear, because their turn is over.
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

    /// Where the totals of this process begin, before anything is added to them.
    pub(super) fn ground_spending(&mut self) {
        self.spending.due = self.spending.is_limited && !self.translator.knows_totals();
        self.watch_spending(&[]);
    }

    /// Behind every result of a tool the model is asked again: a good moment to look, one question
    /// at a time.
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

    /// What is still to be written, as far as the program takes it.
    pub(super) async fn flush(&mut self) {
        if self.link.input.has_more() && !self.retired {
            let written = timeout(LAST_CHANCE, self.link.input.write_all()).await;
            self.retired |= written.is_err();
        }
    }

    /// A tool that runs is ended by the program itself when it is interrupted.
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
        // If it does not stop, the ladder that follows is for that.
        let _ = timeout(LAST_CHANCE.min(grace), stopped).await;
    }
}

//! One running program, many turns.
//!
//! A turn is one message with a fresh uuid and everything until its result. Meanwhile this loop
//! reads, writes and listens at once; one read of the program's output becomes one batch of events.
//!
//! ```text
//!              message ─►  running ─► result ─► Ended
//!                            │  ▲
//!        cancel: interrupt ──┤  └── decisions, tools' results, words for the running turn
//!                            │
//!        answer is there, work goes on: background ── grace ──► tasks stopped, Ended
//!        no end 5 s after the interrupt, end of output ───────► Ended, and never used again
//! ```

use std::{sync::Arc, time::Duration};

use angelia_core::{
    model::{
        Content, Decision, EventKind, Failure, FailureKind, Level, Notice, Origin, Status, Turn,
        Verdict,
    },
    ports::{Agent, BoxFuture, Clock, Emitted, Ended, TurnControl, TurnIo},
    redact::Redactor,
};
use angelia_wire::ndjson::Frame;
use futures_util::FutureExt as _;
use tokio::time::{Instant, sleep_until, timeout};

use super::{
    caller_tools::{self, CallerTools},
    escape::{self, Reader},
    link::Link,
    protocol::outgoing::{self, Request},
    start::answer_ask,
    translate::{Signal, Translator},
};

/// An interrupt is answered in milliseconds; whoever takes longer is stuck.
const INTERRUPT_LIMIT: Duration = Duration::from_secs(5);

/// One that arrives before the program has taken the message up finds nothing to interrupt.
const INTERRUPT_AGAIN: Duration = Duration::from_secs(1);

/// How often a silent program is looked after: its output may outlive it.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long output may stay open after the exit: somebody else may hold the pipe.
const LEAK: Duration = Duration::from_millis(500);

const CLOSE_INTERRUPT: Duration = Duration::from_millis(500);

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
}

/// What does not change over the agent's life.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) title: &'static str,
    pub(crate) redactor: Redactor,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) background_grace: Duration,
    /// What is known about how the program treats text.
    pub(crate) reader: Reader,
    /// Text never acts, wherever it comes from.
    pub(crate) model_mode: bool,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("title", &self.title)
            .finish_non_exhaustive()
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

/// What happens next in a turn.
enum Step {
    Read,
    OutputEnded,
    Wrote,
    Control(TurnControl),
    ControlClosed,
    Cancelled,
    Rang,
}

/// What a turn waits for besides the program.
#[derive(Default)]
struct Clocks {
    /// Interrupted; give up then.
    give_up: Option<Instant>,
    /// Say it again then.
    again: Option<Instant>,
    /// The grace of work in the background ends.
    background: Option<Instant>,
    /// The program has exited; its output is waited for until then.
    leak: Option<Instant>,
}

impl Clocks {
    fn next(&self) -> Instant {
        [self.give_up, self.again, self.background, self.leak]
            .into_iter()
            .flatten()
            .fold(Instant::now() + LOOK_EVERY, Instant::min)
    }

    fn rang(clock: Option<Instant>, now: Instant) -> bool {
        clock.is_some_and(|at| at <= now)
    }
}

impl StreamAgent {
    async fn turn(&mut self, turn: &Turn, mut io: TurnIo) -> Ended {
        if io.cancel.is_cancelled() {
            return interrupted("interrupted before it began");
        }
        if !self.settle().await {
            return self.ended_between_turns().await;
        }
        let uuid = self.settings.clock.fresh_uuid().to_string();
        self.translator.begin_turn(&uuid);
        let message = outgoing::user_message(&uuid, &self.content(turn));
        self.link.input.push(message);
        self.in_turn = true;
        io.events.send(std::mem::take(&mut self.first_words)).await;

        let mut clocks = Clocks::default();
        let mut control_open = true;
        let mut asked_to_stop = false;
        let mut batch = Vec::new();
        let cancel = io.cancel.clone();
        let cancelled = cancel.cancelled();
        let clock = sleep_until(clocks.next());
        tokio::pin!(cancelled, clock);
        loop {
            let Link { input, output, .. } = &mut self.link;
            let has_more = input.has_more();
            // Reading comes last, so that a flood of output cannot drown the rest.
            let step = tokio::select! {
                biased;
                () = &mut cancelled, if !asked_to_stop => Step::Cancelled,
                control = io.control.recv(), if control_open => {
                    control.map_or(Step::ControlClosed, Step::Control)
                }
                () = &mut clock => Step::Rang,
                () = input.write(), if has_more => Step::Wrote,
                more = output.read() => if more { Step::Read } else { Step::OutputEnded },
            };
            let ended = match step {
                Step::Read => {
                    let ended = self.translate(&mut batch);
                    if self.translator.in_background() && clocks.background.is_none() {
                        let grace = self.settings.background_grace;
                        clocks.background = Some(Instant::now() + grace);
                        clock.as_mut().reset(clocks.next());
                    }
                    io.events.send(std::mem::take(&mut batch)).await;
                    ended
                }
                Step::OutputEnded => {
                    let ended = self.output_ended(&mut batch).await;
                    io.events.send(std::mem::take(&mut batch)).await;
                    Some(ended)
                }
                Step::Wrote => None,
                Step::ControlClosed => {
                    control_open = false;
                    None
                }
                Step::Control(control) => {
                    self.control(control, turn.options.origin);
                    None
                }
                Step::Cancelled => {
                    asked_to_stop = true;
                    let ended = self.cancel(&mut clocks, &mut batch);
                    clock.as_mut().reset(clocks.next());
                    ended
                }
                Step::Rang => {
                    let ended = self.rang(&mut clocks, &mut batch);
                    clock.as_mut().reset(clocks.next());
                    ended
                }
            };
            if let Some(ended) = ended {
                io.events.send(batch).await;
                self.tools.forget_calls();
                self.flush().await;
                self.in_turn = false;
                return ended;
            }
        }
    }

    /// The words of the turn, so that they act only as far as whoever sent them may.
    fn content(&mut self, turn: &Turn) -> Vec<Content> {
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

    /// Every line that has arrived. What comes after the end of the turn is nobody's.
    fn translate(&mut self, batch: &mut Vec<Emitted>) -> Option<Ended> {
        let mut ended = None;
        let mut nobody = Vec::new();
        while let Some(frame) = self.link.output.framer.next() {
            let out = if ended.is_none() {
                &mut *batch
            } else {
                &mut nobody
            };
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
                Some(Signal::Answered { .. }) | None => {}
            }
        }
        if !self.tools.is_empty() {
            caller_tools::rename(batch);
        }
        self.refuse_unheard(&nobody);
        ended
    }

    /// Questions that nobody will hear, because their turn is over.
    fn refuse_unheard(&mut self, nobody: &[Emitted]) {
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

    fn control(&mut self, control: TurnControl, origin: Origin) {
        let line = match control {
            TurnControl::Decide { key, decision } => self.translator.answer(&key, &decision),
            TurnControl::ToolResult { id, ok, content } => self.tools.answer(id, ok, content),
            TurnControl::Steer(content) => {
                let uuid = self.settings.clock.fresh_uuid().to_string();
                let content = self.harmless(content, origin, Reader::Unknown);
                Some(outgoing::user_message(&uuid, &content))
            }
        };
        if let Some(line) = line {
            self.link.input.push(line);
        }
    }

    fn cancel(&mut self, clocks: &mut Clocks, batch: &mut Vec<Emitted>) -> Option<Ended> {
        if self.translator.in_background() {
            return Some(self.stop_background(batch));
        }
        self.request(&Request::Interrupt);
        let now = Instant::now();
        clocks.give_up = Some(now + INTERRUPT_LIMIT);
        clocks.again = Some(now + INTERRUPT_AGAIN);
        None
    }

    fn rang(&mut self, clocks: &mut Clocks, batch: &mut Vec<Emitted>) -> Option<Ended> {
        let now = Instant::now();
        if Clocks::rang(clocks.give_up, now) {
            self.retired = true;
            return Some(interrupted(
                "interrupted; the agent did not react and is ended",
            ));
        }
        if Clocks::rang(clocks.again, now) {
            clocks.again = Some(now + INTERRUPT_AGAIN);
            self.request(&Request::Interrupt);
        }
        if Clocks::rang(clocks.leak, now) {
            // It has exited, and whoever holds the pipe now has nothing to say to us.
            clocks.leak = None;
            self.link.output.abandon();
        } else if clocks.leak.is_none() && self.link.child.try_exited().is_some() {
            clocks.leak = Some(now + LEAK);
        }
        if Clocks::rang(clocks.background, now) {
            let text = "work in the background took longer than `background_grace`; stopped";
            batch.push(Emitted::Event(EventKind::Notice(Notice::new(
                Level::Warning,
                "background_stopped",
                text,
            ))));
            return Some(self.stop_background(batch));
        }
        None
    }

    /// Ends the turn with the answer it has, and what it left running.
    fn stop_background(&mut self, batch: &mut Vec<Emitted>) -> Ended {
        let running: Vec<String> = (self.translator.running_tasks())
            .map(str::to_owned)
            .collect();
        for task in &running {
            self.request(&Request::StopTask(task));
        }
        self.request(&Request::Interrupt);
        self.translator.end_background(batch)
    }

    fn request(&mut self, request: &Request<'_>) {
        self.requests += 1;
        let id = format!("angelia-{}", self.requests);
        (self.link.input).push(outgoing::control_request(&id, request));
    }

    async fn output_ended(&mut self, batch: &mut Vec<Emitted>) -> Ended {
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

    async fn ended_between_turns(&mut self) -> Ended {
        self.retired = true;
        Ended::failed(self.died("before the turn").await)
    }

    /// Deals with what was said since the last turn, and waits until nothing else is running: a
    /// message written meanwhile would be folded into that. `false`: the program has gone.
    async fn settle(&mut self) -> bool {
        let mut nobody = Vec::new();
        loop {
            nobody.clear();
            self.translate_for_nobody(&mut nobody);
            match self.link.output.read().now_or_never() {
                Some(true) => {}
                Some(false) => return false,
                None => break,
            }
        }
        if !self.translator.is_busy_elsewhere() {
            return true;
        }
        self.request(&Request::Interrupt);
        let idle = async {
            while self.translator.is_busy_elsewhere() {
                self.link.input.write_all().await;
                if !self.link.output.read().await {
                    return false;
                }
                self.translate_for_nobody(&mut Vec::new());
            }
            true
        };
        timeout(INTERRUPT_LIMIT, idle).await.unwrap_or(false)
    }

    fn translate_for_nobody(&mut self, nobody: &mut Vec<Emitted>) {
        self.translate(nobody);
        self.refuse_unheard(nobody);
    }

    /// What is still to be written, as far as the program takes it.
    async fn flush(&mut self) {
        if self.link.input.has_more() && !self.retired {
            let written = timeout(CLOSE_INTERRUPT, self.link.input.write_all()).await;
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
        let _ = timeout(CLOSE_INTERRUPT.min(grace), stopped).await;
    }
}

fn interrupted(reason: &str) -> Ended {
    Ended {
        status: Status::Interrupted,
        text: None,
        reason: reason.into(),
    }
}

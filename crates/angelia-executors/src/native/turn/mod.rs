//! One turn of our own loop: ask the model, run the tools that it calls, ask again.
//!
//! ```text
//!   input ─► ask ─► answer with calls ─► decide, run ─► results, steering ─┐
//!             ▲                                                            │
//!             └────────────────────────────────────────────────────────────┘
//!            answer without calls ─► cut or empty: ask on ─► completed
//! ```
//!
//! - [`engine_link`]: events to the engine; decisions, results and steering from it.
//! - [`answer_request`]: asks for one answer, with its retries.
//! - [`answer_collector`]: the events of an answer.
//! - [`understood_call`]: a tool call, repaired and checked.
//! - [`call_runner`]: decides and runs the calls of an answer.
//! - [`repeat_guard`]: calls that run in circles.
//! - [`drop_notice`]: the notices about requests that failed.

mod answer_collector;
mod answer_request;
mod call_runner;
mod drop_notice;
mod engine_link;
mod repeat_guard;
mod understood_call;

use std::{collections::HashSet, sync::Arc};

use angelia_core::{
    model::{
        Content, ContextWindow, EventKind, Failure, FailureKind, Notice, NoticeLevel, ToolChoice,
        ToolId, Turn, TurnId, TurnStatus, Usage,
    },
    ports::{AgentEvent, AgentOutcome, TurnIo},
};

use self::{
    answer_collector::{Answer, AnswerCollector},
    answer_request::overflow,
    engine_link::{EngineLink, Interrupted},
    repeat_guard::RepeatGuard,
};
use super::{
    agent::LoopSetup,
    arguments::find_tool,
    client::Endpoint,
    ending::{AnswerEnd, is_finished},
    instructions::Instructions,
    provider::{EncodedHistory, ReportedTokens, RequestSettings, StopReason},
    record::{ConversationLog, answer_event, result_events, user_event},
    text_calls::find_calls,
};

/// How often a cut answer is continued, and how often an empty one is asked for again.
const MAX_CONTINUATIONS: u32 = 3;
const MAX_EMPTY_ANSWERS: u32 = 2;

const CONTINUE_NOTE: &str = "Your answer was cut off. Continue exactly where it stopped, without \
                             repeating anything.";
const EMPTY_NOTE: &str = "Your answer was empty. Answer the last message, or call a tool.";
const LAST_ANSWER_NOTE: &str = "The number of steps for this task is used up. Answer now with what \
                                you have, without calling tools, and say what is left to do.";

/// The reason of a turn that used up its steps.
const ITERATIONS_REASON: &str = "max_iterations";

/// Why a turn ends early.
#[derive(Debug)]
enum TurnStop {
    Interrupted,
    /// A person has ended the turn instead of allowing a call.
    Denied,
    Failed(Failure),
    /// The provider has no such model.
    UnknownModel(Failure),
}

impl From<Interrupted> for TurnStop {
    fn from(_: Interrupted) -> Self {
        Self::Interrupted
    }
}

impl From<Failure> for TurnStop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// What the turns of an agent share.
#[derive(Debug, Default)]
pub(super) struct LoopState {
    pub(super) log: ConversationLog,
    /// The messages that were sent, as they were sent.
    pub(super) encoded: EncodedHistory,
    /// With what the provider has refused so far.
    pub(super) request: RequestSettings,
    /// Ids of calls in the conversation; some servers use an id twice.
    pub(super) call_ids: HashSet<Arc<str>>,
    /// `None`: the project is not trusted.
    pub(super) instructions: Option<Instructions>,
}

/// A running turn.
struct TurnRun<'a> {
    turn: TurnId,
    setup: &'a LoopSetup,
    state: &'a mut LoopState,
    endpoint: Endpoint,
    collector: AnswerCollector,
    guard: RepeatGuard,
    usage: Usage,
    /// Calls that viewers see as running.
    open_calls: Vec<ToolId>,
    /// The answer since the last tool.
    text: String,
    /// The size of the last request.
    request_bytes: u64,
    told_truncation: bool,
}

/// Runs a turn to its end. `is_continued`: the conversation has the beginning of the turn.
pub(super) async fn run_turn(
    setup: &LoopSetup,
    state: &mut LoopState,
    endpoint: Endpoint,
    (turn, is_continued): (&Turn, bool),
    io: TurnIo,
) -> AgentOutcome {
    let mut link = EngineLink::new(io);
    let mut run = TurnRun {
        turn: turn.id,
        setup,
        state,
        endpoint,
        collector: AnswerCollector::default(),
        guard: RepeatGuard::default(),
        usage: Usage {
            lane: Some(setup.model.provider.lane().into()),
            prefix_sha256: Some(Arc::clone(&setup.prefix_sha256)),
            ..Usage::default()
        },
        open_calls: Vec::new(),
        text: String::new(),
        request_bytes: 0,
        told_truncation: false,
    };
    run.begin(turn, is_continued, &link).await;
    let end = run.until_answered(&mut link).await;
    run.finish(end, &mut link).await
}

impl TurnRun<'_> {
    async fn begin(&mut self, turn: &Turn, is_continued: bool, link: &EngineLink) {
        self.state.request.tool_choice.clone_from(&turn.options.tool_choice);
        let mut out = vec![AgentEvent::Event(EventKind::Started(self.setup.start.clone()))];
        if is_continued {
            // The record has one input for the turn, and this is a further one.
            self.record(user_event(&turn.input), &mut out);
        } else {
            self.state.log.begin_turn(turn.input.clone());
        }
        self.tell_notices(&mut out);
        link.send(out).await;
    }

    /// Adds what there is to tell about the MCP servers.
    fn tell_notices(&self, out: &mut Vec<AgentEvent>) {
        let notices = self.setup.tools.take_notices().into_iter();
        out.extend(notices.map(|notice| AgentEvent::Event(EventKind::Notice(notice))));
    }

    /// Asks until there is an answer without calls. Returns how the turn ended.
    async fn until_answered(&mut self, link: &mut EngineLink) -> Result<AgentOutcome, TurnStop> {
        let (mut requests, mut continuations, mut empty_answers) = (0, 0, 0);
        loop {
            let is_last = requests == self.setup.max_iterations;
            if is_last {
                self.say(LAST_ANSWER_NOTE, link).await;
            }
            requests += 1;
            let mut answer = self.ask(link).await?;
            self.read_text_calls(&mut answer);
            if answer.stop == Some(StopReason::Refused) {
                self.record_answer(&answer, link).await;
                let words =
                    if answer.text.is_empty() { "no reason was given" } else { &answer.text };
                let message = format!("the model refused to answer: {words}");
                return Err(Failure::new(FailureKind::Refused, message).into());
            }
            if answer.calls().next().is_some() {
                self.text.clear();
                self.release_tool_choice();
                self.run_calls(&answer, is_last, link).await?;
                if !is_last {
                    self.steer(link).await;
                    continue;
                }
            } else {
                self.record_answer(&answer, link).await;
            }
            self.text.push_str(&answer.text);
            if is_last {
                return Ok(self.outcome(TurnStatus::Partial, ITERATIONS_REASON));
            }
            if answer.stop == Some(StopReason::WindowExceeded) {
                return Err(overflow(None, None).into());
            }
            if self.steer(link).await {
                self.text.clear();
                continue;
            }
            if !self.is_finished(&answer) && continuations < MAX_CONTINUATIONS {
                continuations += 1;
                // A continuation is not a step of the work.
                requests -= 1;
                // An answer that paused goes on by itself when it is sent back.
                if answer.stop != Some(StopReason::Pause) {
                    self.say(CONTINUE_NOTE, link).await;
                }
                continue;
            }
            if !self.text.trim().is_empty() {
                return Ok(self.outcome(TurnStatus::Completed, "end_turn"));
            }
            if empty_answers == MAX_EMPTY_ANSWERS {
                let message = "the model gave an empty answer, again and again";
                return Err(Failure::new(FailureKind::Agent, message).into());
            }
            empty_answers += 1;
            requests -= 1;
            self.say(EMPTY_NOTE, link).await;
        }
    }

    /// Reads the calls in the text of an answer, from a server that is known for them.
    fn read_text_calls(&self, answer: &mut Answer) {
        if !self.setup.model.quirks.text_tools || answer.calls().next().is_some() {
            return;
        }
        let known = self.setup.tools.names();
        let is_tool = |name: &str| find_tool(name, known.clone()).is_ok();
        let calls = find_calls(&answer.text, is_tool);
        let place = self.state.log.conversation().messages.len();
        answer.add_text_calls(calls, place);
    }

    /// After the call that the caller demanded, the model chooses again: it would call for ever.
    fn release_tool_choice(&mut self) {
        let choice = &mut self.state.request.tool_choice;
        if *choice != ToolChoice::None {
            *choice = ToolChoice::Auto;
        }
    }

    fn outcome(&self, status: TurnStatus, reason: &str) -> AgentOutcome {
        AgentOutcome { status, text: Some(self.text.as_str().into()), reason: reason.into() }
    }

    /// Closes what is open, and reports what was not delivered.
    async fn finish(
        mut self,
        end: Result<AgentOutcome, TurnStop>,
        link: &mut EngineLink,
    ) -> AgentOutcome {
        let mut out = Vec::new();
        self.collector.complete_open_blocks(&mut out);
        self.apply(&out);
        for id in std::mem::take(&mut self.open_calls) {
            let content = [Content::text("the turn ended before the tool was run")];
            for event in result_events(&id, false, &content) {
                self.record(event, &mut out);
            }
        }
        let steering = link.take_steering();
        if !steering.is_empty() {
            out.push(AgentEvent::Event(EventKind::Notice(undelivered(&steering))));
        }
        link.send(out).await;
        self.state.log.end_turn();
        match end {
            Ok(outcome) => outcome,
            Err(TurnStop::Interrupted) => AgentOutcome::interrupted("interrupted"),
            Err(TurnStop::Denied) => AgentOutcome::interrupted("a call was denied"),
            Err(TurnStop::Failed(failure)) => AgentOutcome::failed(failure),
            Err(TurnStop::UnknownModel(failure)) => AgentOutcome::unknown_model(failure),
        }
    }

    fn is_finished(&self, answer: &Answer) -> bool {
        let Some(stop) = &answer.stop else { return false };
        is_finished(&AnswerEnd {
            text: &answer.text,
            stop,
            output_tokens: answer.tokens.map(|tokens| tokens.output),
            max_output_tokens: self.state.request.max_output_tokens,
            stop_unreliable: self.setup.model.quirks.stop_unreliable,
        })
    }

    /// Adds what the person has said meanwhile. Returns whether there was something.
    async fn steer(&mut self, link: &mut EngineLink) -> bool {
        let content = link.take_steering();
        if content.is_empty() {
            return false;
        }
        self.add_user_content(&content, link).await;
        true
    }

    async fn say(&mut self, note: &str, link: &EngineLink) {
        self.add_user_content(&[Content::text(note)], link).await;
    }

    async fn add_user_content(&mut self, content: &[Content], link: &EngineLink) {
        let mut out = Vec::new();
        self.record(user_event(content), &mut out);
        link.send(out).await;
    }

    /// Records an answer without calls.
    async fn record_answer(&mut self, answer: &Answer, link: &EngineLink) {
        let parts = answer.recorded_parts(Vec::new());
        let mut out = Vec::new();
        self.record(answer_event(&self.setup.model.issuer, &parts), &mut out);
        link.send(out).await;
    }

    /// Adds an event to the conversation and to a batch.
    fn record(&mut self, event: EventKind, out: &mut Vec<AgentEvent>) {
        self.state.log.apply(&event);
        out.push(AgentEvent::Event(event));
    }

    /// Adds events to the conversation.
    fn apply(&mut self, events: &[AgentEvent]) {
        for event in events {
            if let AgentEvent::Event(event) = event {
                self.state.log.apply(event);
            }
        }
    }

    /// Counts the tokens of an answer, and returns the usage of the turn so far.
    fn count(&mut self, tokens: ReportedTokens) -> Usage {
        let more = Usage {
            input_tokens: tokens.input,
            output_tokens: tokens.output,
            cache_read_tokens: tokens.cache_read,
            cache_write_tokens: tokens.cache_write,
            context: self.setup.model.limits.context.and_then(|size| {
                ContextWindow::from_reported(tokens.prompt() + tokens.output, size)
            }),
            ..Usage::default()
        };
        self.usage = self.usage.plus(&more);
        self.usage.cost_usd = self.setup.model.price.map(|price| price.cost_usd(&self.usage));
        self.usage.clone()
    }
}

/// Returns what a person said that no request has carried.
fn undelivered(steering: &[Content]) -> Notice {
    let texts = steering.iter().filter_map(|part| match part {
        Content::Text(text) => Some(&**text),
        Content::Image { .. } => None,
    });
    let text = texts.collect::<Vec<_>>().join("\n");
    Notice::new(NoticeLevel::Warning, "undelivered", text)
}

//! One turn of our own loop: ask the model, run the tools that it calls, ask again.
//!
//! ```text
//!   input ─► ask ─► answer with calls ─► decide, run ─► results, steering ─┐
//!             ▲                                                            │
//!             └────────────────────────────────────────────────────────────┘
//!            answer without calls ─► cut or empty: ask on ─► completed
//! ```
//!
//! - [`engine_link`]: sends events to the engine; receives decisions, results and steering from it.
//! - [`answer_request`]: asks for one answer, with retries; [`detour`]: with another key or model.
//! - [`answer_collector`]: collects the events of an answer.
//! - [`understood_call`]: a tool call, repaired and checked.
//! - [`images`]: handles images that a provider refuses.
//! - [`compaction`]: summarises the conversation when it gets too long.
//! - [`compaction_notice`]: the notices about that.
//! - [`call_runner`]: decides and runs the calls of an answer.
//! - [`repeat_guard`]: detects a model that goes in circles.
//! - [`drop_notice`]: the notices about failed requests.
//! - [`usage_report`]: reports the tokens of answers.

mod answer_collector;
mod answer_request;
mod call_runner;
mod compaction;
mod compaction_notice;
mod detour;
mod drop_notice;
mod engine_link;
mod images;
mod repeat_guard;
mod understood_call;
mod usage_report;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use angelia_core::{
    model::{
        Content, EventKind, Failure, FailureKind, Notice, NoticeLevel, ToolChoice, ToolId, Turn,
        TurnId, TurnStatus, TurnTask, Usage,
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
    compaction::{attempts::CompactionAttempts, gauge::ContextGauge},
    ending::{AnswerEnd, is_finished},
    instructions::Instructions,
    model_chain::Route,
    prompt_notes::PromptNotes,
    provider::{Conversation, EncodedHistory, RequestSettings, StopReason},
    providers::KeySource,
    record::{ConversationLog, answer_event, result_events, user_event},
    text_calls::find_calls,
};

/// How often a cut-off answer is continued, and how often an empty one is requested again.
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
    /// The conversation is too long for the model.
    Overflow(Failure),
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

/// The state that the turns of an agent share.
#[derive(Debug, Default)]
pub(super) struct LoopState {
    pub(super) log: ConversationLog,
    /// The messages that were sent, encoded.
    pub(super) encoded: EncodedHistory,
    /// The settings of requests to the current model, which reflect what its provider has refused
    /// so far.
    pub(super) request: RequestSettings,
    /// The same for the other models that were asked, by their places in the chain.
    pub(super) requests: HashMap<usize, RequestSettings>,
    /// The place of the model that was asked last.
    pub(super) place: usize,
    /// The ids of calls in the conversation; some servers use an id twice.
    pub(super) call_ids: HashSet<Arc<str>>,
    /// `None` if the project is not trusted, or in model mode.
    pub(super) instructions: Option<Instructions>,
    /// The list of skills and the notes that are in the prompt now.
    pub(super) notes: PromptNotes,
    /// The event that records these notes; `None` once they are recorded.
    pub(super) notes_event: Option<EventKind>,
    /// Measures how much of the window the conversation takes.
    pub(super) gauge: ContextGauge,
    /// The hash of what precedes the conversation in requests to the session's own model; `None` until it is
    /// needed, and after the notes have changed.
    pub(super) own_prefix_sha256: Option<Arc<str>>,
    pub(super) compactions: CompactionAttempts,
}

impl LoopState {
    /// Switches to the settings of the model that is asked from now on. What a model has refused is
    /// remembered only for that model.
    fn take_request_of(&mut self, route: &Route) {
        if self.place == route.place {
            return;
        }
        let saved = self.requests.remove(&route.place);
        let mut next = saved.unwrap_or_else(|| route.model.request.clone());
        next.tool_choice.clone_from(&self.request.tool_choice);
        let last = std::mem::replace(&mut self.request, next);
        self.requests.insert(self.place, last);
    }
}

/// A running turn.
struct TurnRun<'a> {
    turn: TurnId,
    setup: &'a LoopSetup,
    state: &'a mut LoopState,
    /// The model that is asked, with its key.
    route: Route,
    /// The places of the models that this turn has asked.
    tried_models: Vec<usize>,
    /// The sources of keys that were renewed for this answer.
    renewed_keys: Vec<KeySource>,
    /// The failure of the first model that was asked for this answer.
    first_failure: Option<Failure>,
    collector: AnswerCollector,
    guard: RepeatGuard,
    usage: Usage,
    /// A model without a price was asked.
    is_cost_unknown: bool,
    /// Calls that viewers see as running.
    open_calls: Vec<ToolId>,
    /// The text of the answer since the last tool call.
    text: String,
    /// The size of the last request.
    request_bytes: u64,
    told_truncation: bool,
    told_estimate: bool,
    /// Another conversation to send instead of the turn's own, such as the request for a summary.
    /// Its answer is not shown.
    aside: Option<Conversation>,
}

/// Runs a turn to its end. `obstacle`: why an earlier model in the chain is not asked.
/// `is_continued`: the conversation already has the beginning of the turn.
pub(super) async fn run_turn(
    setup: &LoopSetup,
    state: &mut LoopState,
    (route, obstacle): (Route, Option<Arc<str>>),
    (turn, is_continued): (&Turn, bool),
    io: TurnIo,
) -> AgentOutcome {
    let mut link = EngineLink::new(io);
    state.take_request_of(&route);
    let prefix_sha256 = Some(setup.prefix_of(&route, state));
    let mut run = TurnRun {
        turn: turn.id,
        setup,
        state,
        tried_models: vec![route.place],
        renewed_keys: Vec::new(),
        first_failure: None,
        is_cost_unknown: false,
        collector: AnswerCollector::default(),
        guard: RepeatGuard::default(),
        usage: Usage { lane: Some(route.lane().into()), prefix_sha256, ..Usage::default() },
        open_calls: Vec::new(),
        text: String::new(),
        request_bytes: 0,
        told_truncation: false,
        told_estimate: false,
        aside: None,
        route,
    };
    run.begin(turn, is_continued, &link).await;
    run.tell_change(obstacle.as_deref(), &link).await;
    let end = match turn.options.task {
        TurnTask::Answer => run.until_answered(&mut link).await,
        TurnTask::Compact => run.compact_on_demand(&mut link).await,
    };
    run.finish(end, &mut link).await
}

impl TurnRun<'_> {
    async fn begin(&mut self, turn: &Turn, is_continued: bool, link: &EngineLink) {
        self.state.request.tool_choice.clone_from(&turn.options.tool_choice);
        self.setup.tools.hear_turn(turn.options.is_owners());
        let mut start = self.setup.start.clone();
        if self.route.place > 0 {
            start.model = Some(self.setup.chain.name(self.route.place).into());
        }
        let mut out = vec![AgentEvent::Event(EventKind::Started(start))];
        out.extend(self.state.notes_event.take().map(AgentEvent::Event));
        if is_continued {
            // The record already has an input for the turn, so a further one is recorded as an
            // event.
            self.record(user_event(&turn.input), &mut out);
        } else {
            self.state.log.begin_turn(turn.input.clone());
        }
        self.tell_notices(&mut out);
        link.send(out).await;
    }

    /// Adds the pending notices of the MCP servers and the memory.
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
            let mut answer = self.ask_within_window(link).await?;
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
                self.compact_or_fail(overflow(None, None), link).await?;
            }
            if self.steer(link).await {
                self.text.clear();
                continue;
            }
            if !self.is_finished(&answer) && continuations < MAX_CONTINUATIONS {
                continuations += 1;
                // A continuation does not count as a step.
                requests -= 1;
                // The model continues a paused answer without a note.
                if answer.stop != Some(StopReason::Pause) {
                    self.say(CONTINUE_NOTE, link).await;
                }
                continue;
            }
            if !self.text.trim().is_empty() {
                return Ok(self.outcome(TurnStatus::Completed, "end_turn"));
            }
            if empty_answers == MAX_EMPTY_ANSWERS {
                let message = "the model repeatedly gave an empty answer";
                return Err(Failure::new(FailureKind::Agent, message).into());
            }
            empty_answers += 1;
            requests -= 1;
            self.say(EMPTY_NOTE, link).await;
        }
    }

    /// Reads the calls in the text of an answer, if the server is known for them.
    fn read_text_calls(&self, answer: &mut Answer) {
        if !self.route.model.quirks.text_tools || answer.calls().next().is_some() {
            return;
        }
        let known = self.setup.tools.names();
        let is_tool = |name: &str| find_tool(name, known.clone()).is_ok();
        let calls = find_calls(&answer.text, is_tool);
        let place = self.state.log.conversation().messages.len();
        answer.add_text_calls(calls, place);
    }

    /// Lets the model choose again after the call that the caller demanded, because it would
    /// otherwise call the tool forever.
    fn release_tool_choice(&mut self) {
        let choice = &mut self.state.request.tool_choice;
        if *choice != ToolChoice::None {
            *choice = ToolChoice::Auto;
        }
    }

    fn outcome(&self, status: TurnStatus, reason: &str) -> AgentOutcome {
        AgentOutcome { status, text: Some(self.text.as_str().into()), reason: reason.into() }
    }

    /// Closes open blocks and calls, and reports steering that was not delivered.
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
            Err(TurnStop::Failed(failure) | TurnStop::Overflow(failure)) => {
                AgentOutcome::failed(failure)
            }
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
            stop_unreliable: self.route.model.quirks.stop_unreliable,
        })
    }

    /// Adds what the person has written in the meantime. Returns whether there was anything.
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
        self.record(answer_event(&self.route.model.issuer, &parts), &mut out);
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
}

/// Returns a notice with the steering that no request has carried.
fn undelivered(steering: &[Content]) -> Notice {
    let texts = steering.iter().filter_map(|part| match part {
        Content::Text(text) => Some(&**text),
        Content::Image { .. } => None,
    });
    let text = texts.collect::<Vec<_>>().join("\n");
    Notice::new(NoticeLevel::Warning, "undelivered", text)
}

//! Translates the messages of one app-server thread into the events of the running turn. Pure,
//! synchronous and total: no message panics, none is dropped unless [`SILENT`] gives the reason,
//! and only the end of our own turn (or of the connection) ends a turn.
//!
//! A [`CodexTranslator`] lives as long as its thread is loaded. Its owner calls:
//!
//! - [`CodexTranslator::new`] after the response to `thread/start`, `thread/resume` or
//!   `thread/fork`. From then on, the owner passes on every message whose
//!   [`Route`](super::protocol::message::Route) names a thread (or parent) that the translator
//!   [`owns`](CodexTranslator::owns), and every message without a thread. It does so between turns
//!   too, but then discards the events.
//! - [`begin_turn`](CodexTranslator::begin_turn) before it sends `turn/start`. The response goes to
//!   [`on_turn_accepted`](CodexTranslator::on_turn_accepted), an error to
//!   [`on_turn_refused`](CodexTranslator::on_turn_refused). Notifications may arrive before the
//!   response. If [`active_turn`](CodexTranslator::active_turn) still names a turn, the owner must
//!   first interrupt that turn and wait for its end, because `turn/start` would steer it.
//! - [`on_notification`](CodexTranslator::on_notification) for each notification. If it returns an
//!   outcome, the turn has ended.
//! - [`on_request`](CodexTranslator::on_request) for each request from the app-server. The
//!   [`RequestOutcome`] says which response to write, either now or after
//!   [`decide`](CodexTranslator::decide) or [`on_tool_result`](CodexTranslator::on_tool_result). A
//!   [`DeferredReply`] may ask for an interrupt or for steering input after it.
//! - [`on_steer`](CodexTranslator::on_steer) for each `turn/steer` that is sent.
//! - [`on_too_long`](CodexTranslator::on_too_long) for a line over the length limit.
//! - [`on_end_of_output`](CodexTranslator::on_end_of_output) when the connection is gone.
//!
//! Rules of the translation:
//!
//! - **Ownership.** The turn's id determines which turn an item belongs to, because item ids repeat
//!   from turn to turn. The first turn id that is not an earlier turn's is ours. Work that an
//!   earlier turn left running is reported in the next turn as a notice.
//! - **Blocks.** Deltas are provisional; the completed item is authoritative. Every block that had
//!   a delta gets a `Block` with the whole text, or an empty one if a retry replaced it. If a turn
//!   breaks off, text that was already shown stays.
//! - **Dangling items are normal.** The end of the turn closes them.
//!
//! | file | contents |
//! |---|---|
//! | `text` | messages, reasoning, plans: deltas and whole blocks |
//! | `item` | items that are tool calls |
//! | `status` | retries, compaction, limits, warnings |
//! | `silent` | messages that are not passed on, and why |
//! | `past_turns` | earlier turns, and notices between turns |
//! | `requests` | the app-server's requests |
//! | `lifecycle` | the start and end of a turn |
//! | `sub_agents` | threads of sub-agents |
//! | `turn` | the state of the running turn |

mod item;
mod lifecycle;
mod past_turns;
mod requests;
mod silent;
mod status;
mod sub_agents;
mod text;
mod turn;

use std::{path::PathBuf, sync::Arc};

use angelia_core::{
    model::{
        AgentStart, Content, Decision, EventKind, Mode, NativeSessionId, Notice, NoticeLevel,
        ToolId, Verdict,
    },
    ports::{AgentEvent, AgentOutcome},
};
use angelia_wire::jsonrpc::{ErrorObject, METHOD_NOT_FOUND};
use jiff::{Timestamp, tz::TimeZone};
use serde_json::value::RawValue;

pub use self::silent::SILENT;
use self::{past_turns::PastTurns, sub_agents::SubAgents, turn::CodexTurn};
use super::{
    ModelPrices,
    approval::PendingServerRequests,
    protocol::{
        message::{RequestId, Route},
        request_result,
    },
    usage::ThreadUsageTracker,
};
use crate::{
    emit::{emit_event, emit_native, emit_notice},
    lenient::{BorrowedStr, Lenient},
};

/// What is known about a thread before its first message.
#[derive(Clone, Debug)]
pub struct CodexContext {
    pub profile: Arc<str>,
    pub executor: Arc<str>,
    /// The app-server's own id for the conversation.
    pub thread: NativeSessionId,
    pub model: Option<Arc<str>>,
    /// The model's provider. Determines whether hints name the login or the provider's key.
    pub provider: Option<Arc<str>>,
    /// Whether the thread continues a conversation of an earlier process.
    pub resumed: bool,
    /// Whether the thread was started before its first turn arrived.
    pub warm: bool,
    pub prefix_sha256: Option<Arc<str>>,
    pub cwd: PathBuf,
    /// In model mode no approval reaches a person; every approval is declined at once.
    pub mode: Mode,
    /// The names of Angelia's own MCP servers. Nobody is asked about calls to their tools.
    pub own_servers: Vec<Arc<str>>,
    /// The billing lane, from `account/read`.
    pub lane: Option<Arc<str>>,
    pub prices: ModelPrices,
    /// The time zone in which Codex writes times for people.
    pub zone: TimeZone,
}

/// The response to a request from the app-server.
#[derive(Debug)]
pub enum RequestOutcome {
    /// A person decides. [`CodexTranslator::decide`] returns the result for this key.
    Approval(Arc<str>),
    /// The caller runs one of its tools. [`CodexTranslator::on_tool_result`] returns the result for
    /// this id.
    CallerTool(ToolId),
    /// Write this result at once.
    Now(Box<RawValue>),
    /// Write this error at once.
    Error(ErrorObject),
}

/// The response to an earlier request from the app-server.
#[derive(Debug)]
pub struct DeferredReply {
    pub id: RequestId,
    pub result: Box<RawValue>,
    /// Whether to send `turn/interrupt` after the response: the decision was to stop, and the
    /// response alone does not end the turn.
    pub then_interrupt: bool,
    /// Text to send with `turn/steer` after the response, which has no field for it.
    pub then_steer: Option<Arc<str>>,
}

#[derive(Debug)]
pub struct CodexTranslator {
    context: CodexContext,
    model: Option<Arc<str>>,
    turn: Option<CodexTurn>,
    /// The turn that the app-server is running on this thread, whether it is ours or not.
    active_turn: Option<Box<str>>,
    past_turns: PastTurns,
    sub_agents: SubAgents,
    pending: PendingServerRequests,
    ledger: ThreadUsageTracker,
    resets_at: Option<Timestamp>,
}

/// Whom a message belongs to, judging by its thread and turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageOwner {
    /// The running turn.
    OurTurn,
    /// A sub-agent, while a turn is running.
    SubAgent,
    /// An earlier turn.
    PastTurn,
    Unknown,
}

impl CodexTranslator {
    pub fn new(context: CodexContext) -> Self {
        Self {
            model: context.model.clone(),
            ledger: ThreadUsageTracker::new(context.resumed),
            context,
            turn: None,
            active_turn: None,
            past_turns: PastTurns::default(),
            sub_agents: SubAgents::default(),
            pending: PendingServerRequests::default(),
            resets_at: None,
        }
    }

    /// Begins our turn; `turn/start` is sent next. Gives up a turn that has not ended.
    pub fn begin_turn(&mut self) {
        if let Some(id) = self.turn.take().and_then(|turn| turn.id) {
            self.past_turns.add(&id);
        }
        if let Some(active) = &self.active_turn {
            self.past_turns.add(active);
        }
        self.pending.clear();
        self.turn = Some(CodexTurn::new());
    }

    /// Handles the response to `turn/start`, which names the turn.
    pub fn on_turn_accepted(&mut self, result: &RawValue, out: &mut Vec<AgentEvent>) {
        let Some(id) = super::protocol::response::parse_turn_id(result) else {
            return;
        };
        let Some(turn) = self.turn.as_mut() else {
            return;
        };
        if turn.id.as_deref() == Some(&*id) {
            return;
        }
        // The response is authoritative, even if it names a turn that was already running and took
        // our input as steering.
        let earlier = turn.id.replace((&*id).into());
        if let Some(earlier) = earlier {
            self.past_turns.add(&earlier);
        }
        self.past_turns.remove(&id);
        self.emit_started(out);
    }

    /// Handles an error response to `turn/start`.
    pub fn on_turn_refused(
        &mut self,
        error: &ErrorObject,
        out: &mut Vec<AgentEvent>,
    ) -> AgentOutcome {
        self.end_refused(&error.message, out)
    }

    /// Records that `turn/steer` sends another message into the running turn.
    pub fn on_steer(&mut self) {
        if let Some(turn) = self.turn.as_mut() {
            turn.expect_echo();
        }
    }

    /// Translates a notification about this thread, a sub-agent's thread, or the whole process.
    pub fn on_notification(
        &mut self,
        method: &str,
        params: &RawValue,
        out: &mut Vec<AgentEvent>,
    ) -> Option<AgentOutcome> {
        match method {
            "item/agentMessage/delta"
            | "item/plan/delta"
            | "item/reasoning/summaryTextDelta"
            | "item/reasoning/textDelta" => self.on_text_delta(method, params, out),
            "item/commandExecution/outputDelta" | "item/fileChange/outputDelta" => {
                self.on_output_delta(params);
            }
            "item/fileChange/patchUpdated" => self.on_patch_updated(params),
            "item/started" => return self.on_item_started(params, out),
            "item/completed" => return self.on_item_completed(params, out),
            "turn/started" => self.on_turn_started(params, out),
            "turn/completed" => return self.on_turn_completed(params, out),
            "turn/plan/updated" => self.on_plan_updated(params, out),
            "turn/diff/updated" => self.on_diff_updated(params, out),
            "thread/closed" => return self.on_thread_closed(params, out),
            "thread/started" => self.on_thread_started(params),
            "serverRequest/resolved" => self.on_request_resolved(params, out),
            _ => self.on_status(method, params, out),
        }
        None
    }

    /// Translates a request from the app-server into an approval or an immediate response.
    pub fn on_request(
        &mut self,
        id: &RequestId,
        method: &str,
        params: &RawValue,
        out: &mut Vec<AgentEvent>,
    ) -> RequestOutcome {
        let known = request_result::decline(method).is_some();
        if !known {
            emit_native(method, params, out);
            let message = format!("{method} is not offered by this client");
            return RequestOutcome::Error(ErrorObject::new(METHOD_NOT_FOUND, message));
        }
        self.handle_request(id, method, params, out)
    }

    /// Applies the engine's decision to an earlier request. Returns `None` if no request awaits it
    /// any more.
    pub fn decide(&mut self, key: &str, decision: &Decision) -> Option<DeferredReply> {
        self.pending.decide(key, decision)
    }

    /// Returns the result for a call to which the engine has no objection. Returns `None` if the
    /// app-server no longer waits for it.
    pub fn proceed(&mut self, key: &str) -> Option<DeferredReply> {
        self.pending.decide(key, &Decision::new(Verdict::Once, "rule"))
    }

    /// Takes the result of a caller's tool. Returns `None` if the app-server has not sent its
    /// request yet (the result is then kept), or no longer waits for the result.
    pub fn on_tool_result(
        &mut self,
        id: &ToolId,
        ok: bool,
        content: &[Content],
    ) -> Option<DeferredReply> {
        let running = |turn: &CodexTurn| turn.tools.running().any(|open| open.call.id == *id);
        let runs = self.turn.as_ref().is_some_and(running);
        self.pending.resolve_tool_call(id, request_result::tool_result(ok, content), runs)
    }

    /// Reports that a line over the limit was skipped. Such a line never ends a turn.
    pub fn on_too_long(&mut self, bytes: usize, out: &mut Vec<AgentEvent>) {
        let text = format!("the agent wrote a line of {bytes} bytes, too long to read; skipped");
        emit_notice(NoticeLevel::Warning, "line_too_long", text, out);
    }

    /// Handles the end of the connection, which fails a running turn.
    pub fn on_end_of_output(&mut self, out: &mut Vec<AgentEvent>) -> Option<AgentOutcome> {
        self.active_turn = None;
        self.end_failed("the agent exited before it finished the turn", out)
    }

    /// Reports whether this thread is ours or belongs to one of our sub-agents.
    pub fn owns(&self, thread: &str) -> bool {
        thread == self.context.thread.as_str() || self.sub_agents.owns(thread)
    }

    /// Reports whether a message with this route concerns us.
    pub fn accepts(&self, route: &Route<'_>) -> bool {
        let owned = |thread: &Option<std::borrow::Cow<'_, str>>| {
            thread.as_deref().is_some_and(|thread| self.owns(thread))
        };
        route.thread.is_none() || owned(&route.thread) || owned(&route.parent)
    }

    /// Returns the turn that the app-server is running on this thread, if it has said so. This is
    /// the turn to interrupt or to steer, and the one that must end before the next turn starts.
    pub fn active_turn(&self) -> Option<&str> {
        let ours = self.turn.as_ref().and_then(|turn| turn.id.as_deref());
        ours.or(self.active_turn.as_deref())
    }

    /// Returns the keys of the approvals that the app-server still waits for.
    pub fn pending_approvals(&self) -> impl Iterator<Item = &Arc<str>> {
        self.pending.approval_keys()
    }

    /// Returns whom a message belongs to, judging by its thread and turn.
    fn owner_of(
        &self,
        thread: &Lenient<BorrowedStr<'_>>,
        turn: &Lenient<BorrowedStr<'_>>,
    ) -> MessageOwner {
        if let Some(thread) = thread.as_str()
            && thread != self.context.thread.as_str()
        {
            return match self.turn {
                Some(_) if self.sub_agents.owns(thread) => MessageOwner::SubAgent,
                _ => MessageOwner::Unknown,
            };
        }
        let id = turn.as_str();
        if id.is_some_and(|id| self.past_turns.contains(id)) {
            return MessageOwner::PastTurn;
        }
        match (&self.turn, id) {
            (None, _) => MessageOwner::Unknown,
            (Some(ours), Some(id)) if ours.id.as_deref() != Some(id) => MessageOwner::Unknown,
            _ => MessageOwner::OurTurn,
        }
    }

    /// Returns whom a `turn/started` or `turn/completed` belongs to. The first turn that is not an
    /// earlier one becomes ours. No other message may determine our turn's id, because a resumed
    /// thread repeats its last messages.
    fn owner_of_turn(
        &mut self,
        thread: &Lenient<BorrowedStr<'_>>,
        turn: &Lenient<BorrowedStr<'_>>,
        out: &mut Vec<AgentEvent>,
    ) -> MessageOwner {
        let is_main = thread.as_str().is_none_or(|id| id == self.context.thread.as_str());
        if let (true, Some(id), Some(ours)) = (is_main, turn.as_str(), self.turn.as_mut())
            && ours.id.is_none()
            && !self.past_turns.contains(id)
        {
            ours.id = Some(id.into());
            self.emit_started(out);
        }
        self.owner_of(thread, turn)
    }

    /// Emits `Started` once, and the notices that were queued between turns.
    fn emit_started(&mut self, out: &mut Vec<AgentEvent>) {
        let Some(turn) = self.turn.as_mut() else {
            return;
        };
        if std::mem::replace(&mut turn.started, true) {
            return;
        }
        let started = AgentStart {
            profile: self.context.profile.clone(),
            executor: self.context.executor.clone(),
            model: self.model.clone(),
            native_session_id: Some(self.context.thread.clone()),
            resumed: self.context.resumed,
            warm: self.context.warm,
        };
        emit_event(EventKind::Started(started), out);
        for notice in self.past_turns.take_notices() {
            emit_event(EventKind::Notice(notice), out);
        }
    }

    /// Emits a notice now if a turn has started, and otherwise at the start of the next turn.
    fn notify(
        &mut self,
        level: NoticeLevel,
        code: &str,
        text: impl Into<Arc<str>>,
        out: &mut Vec<AgentEvent>,
    ) {
        let notice = Notice::new(level, code, text);
        if self.turn.as_ref().is_some_and(|turn| turn.started) {
            emit_event(EventKind::Notice(notice), out);
        } else {
            self.past_turns.queue_notice(notice);
        }
    }
}

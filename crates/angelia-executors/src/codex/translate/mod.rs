//! Translates the messages of one app-server thread into the events of the running turn: pure,
//! synchronous, total. No message panics, none is dropped unless [`SILENT`] gives the reason, and
//! only the end of our own turn (or of the connection) ends a turn.
//!
//! One [`CodexTranslator`] lives as long as its thread is loaded. Its owner calls:
//!
//! - [`CodexTranslator::new`] after the response to `thread/start`, `thread/resume` or
//!   `thread/fork`. From then on the owner passes it every message whose
//!   [`Route`](super::protocol::message::Route) names a thread (or parent) that it
//!   [`owns`](CodexTranslator::owns), and every message without a thread. It does so between turns
//!   too, and then discards the events.
//! - [`begin_turn`](CodexTranslator::begin_turn) before it sends `turn/start`. The response goes to
//!   [`on_turn_accepted`](CodexTranslator::on_turn_accepted), an error to
//!   [`on_turn_refused`](CodexTranslator::on_turn_refused). Notifications may arrive before the
//!   response. If [`active_turn`](CodexTranslator::active_turn) still names a turn, the owner must
//!   interrupt that one and wait first: `turn/start` would steer it.
//! - [`on_notification`](CodexTranslator::on_notification) for each notification;
//!   [`Signal::Ended`] ends the turn.
//! - [`on_request`](CodexTranslator::on_request) for each request of the app-server. The
//!   [`RequestOutcome`] says what to write, now or after [`decide`](CodexTranslator::decide) or
//!   [`on_tool_result`](CodexTranslator::on_tool_result). A [`DeferredReply`] may ask for an
//!   interrupt or for steering input after it.
//! - [`on_steer`](CodexTranslator::on_steer) for each `turn/steer` that is sent.
//! - [`on_too_long`](CodexTranslator::on_too_long) for a line over the length limit.
//! - [`on_end_of_output`](CodexTranslator::on_end_of_output) when the connection is gone.
//!
//! Rules of the translation:
//!
//! - **Ownership.** An item belongs to a turn by the turn's id; ids of items repeat from turn to
//!   turn. The first turn id that is not of an earlier turn is ours. What an earlier turn left
//!   running is reported in the next one as a notice.
//! - **Blocks.** Deltas are provisional, the completed item is authoritative. Every block that had
//!   a delta gets a `Block`: the whole text, or an empty one when a retry replaced it. When a turn
//!   breaks off, the text that was shown stays.
//! - **Dangling items are normal**; the end of the turn closes them.
//!
//! | file | contents |
//! |---|---|
//! | `text` | messages, reasoning, plans: deltas and whole blocks |
//! | `item` | items that are tool calls |
//! | `status` | retries, compaction, limits, warnings |
//! | `silent` | messages that are not passed on, and why |
//! | `past_turns` | earlier turns, and notices between turns |
//! | `requests` | requests of the app-server |
//! | `lifecycle` | the start and the end of a turn |
//! | `sub_agents` | threads of sub-agents |
//! | `turn` | the state of the running turn |

mod agents;
mod ask;
mod end;
mod item;
mod late;
mod silent;
mod status;
mod text;
mod turn;

use std::{path::PathBuf, sync::Arc};

use angelia_core::{
    model::{
        Content, Decision, EventKind, Level, Mode, NativeSessionId, Notice, Permissions, Started,
        ToolId,
    },
    ports::{Emitted, Ended},
};
use jiff::{Timestamp, tz::TimeZone};
use serde_json::value::RawValue;

pub use self::silent::SILENT;
use self::{agents::Agents, late::Late, turn::Turn};
use super::{
    approval::Pending,
    protocol::{
        answer,
        message::{METHOD_NOT_FOUND, RequestId, Route, RpcError},
    },
    usage::Ledger,
};
use crate::lenient::{Soft, Text};

/// The facts about a thread that are known before its first message.
#[derive(Clone, Debug)]
pub struct Context {
    pub profile: Arc<str>,
    pub executor: Arc<str>,
    /// The app-server's own id of the conversation.
    pub thread: NativeSessionId,
    pub model: Option<Arc<str>>,
    /// The model's provider; decides whether hints name the login or the provider's key.
    pub provider: Option<Arc<str>>,
    /// The thread continues a conversation of an earlier process.
    pub resumed: bool,
    /// The thread was started before the first turn arrived.
    pub warm: bool,
    pub prefix_sha256: Option<Arc<str>>,
    pub cwd: PathBuf,
    /// In model mode no approval reaches a person: every one is declined at once.
    pub mode: Mode,
    /// The session's rules. The engine applies them; here they only select which of several paths
    /// of one patch the engine sees.
    pub permissions: Permissions,
    /// Names of the MCP servers that Angelia itself provides; their calls are accepted.
    pub own_servers: Vec<Arc<str>>,
    /// The billing lane, from `account/read`.
    pub lane: Option<Arc<str>>,
    /// The time zone in which Codex writes times for people.
    pub zone: TimeZone,
}

/// An event that the agent must act on; at most one per message.
#[derive(Clone, Debug)]
pub enum Signal {
    /// The protocol has ended the turn.
    Ended(Ended),
}

/// What to do with a request of the app-server.
#[derive(Debug)]
pub enum Answer {
    /// A person decides: [`CodexTranslator::decide`] with this key returns the result.
    Asked(Arc<str>),
    /// The caller runs one of its tools: [`CodexTranslator::on_tool_result`] with this id returns
    /// the result.
    Tool(ToolId),
    /// Write this result at once.
    Now(Box<RawValue>),
    /// Write this error at once.
    Error(RpcError),
}

/// The response to an earlier request of the app-server.
#[derive(Debug)]
pub struct Reply {
    pub id: RequestId,
    pub result: Box<RawValue>,
    /// Send `turn/interrupt` after the response: the decision was to stop, and the response alone
    /// does not end the turn.
    pub then_interrupt: bool,
    /// Send this text with `turn/steer` after the response, which has no field for it.
    pub then_tell: Option<Arc<str>>,
}

#[derive(Debug)]
pub struct Translator {
    context: Context,
    model: Option<Arc<str>>,
    turn: Option<Turn>,
    /// The turn that the app-server runs on this thread, ours or not.
    active: Option<Box<str>>,
    late: Late,
    agents: Agents,
    pending: Pending,
    ledger: Ledger,
    resets_at: Option<Timestamp>,
}

/// The owner of a message, by its thread and turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    /// The running turn.
    Ours,
    /// A sub-agent, while a turn runs.
    SubAgents,
    /// An earlier turn.
    Late,
    Nobodys,
}

impl Translator {
    pub fn new(context: Context) -> Self {
        Self {
            model: context.model.clone(),
            ledger: Ledger::new(context.resumed),
            context,
            turn: None,
            active: None,
            late: Late::default(),
            agents: Agents::default(),
            pending: Pending::default(),
            resets_at: None,
        }
    }

    /// Begins our turn; `turn/start` is sent next. A turn that has not ended is given up.
    pub fn begin_turn(&mut self) {
        if let Some(id) = self.turn.take().and_then(|turn| turn.id) {
            self.late.ended(&id);
        }
        if let Some(active) = &self.active {
            self.late.ended(active);
        }
        self.pending.clear();
        self.turn = Some(Turn::new());
    }

    /// Handles the response to `turn/start`, which names the turn.
    pub fn turn_accepted(&mut self, result: &RawValue, out: &mut Vec<Emitted>) {
        let Some(id) = super::protocol::opened::turn_id(result) else {
            return;
        };
        let Some(turn) = self.turn.as_mut() else {
            return;
        };
        if turn.id.as_deref() == Some(&*id) {
            return;
        }
        // The response is authoritative, also when it names a turn that was already running and
        // took our input as steering.
        let earlier = turn.id.replace((&*id).into());
        if let Some(earlier) = earlier {
            self.late.ended(&earlier);
        }
        self.late.runs_on(&id);
        self.start(out);
    }

    /// Handles an error response to `turn/start`.
    pub fn turn_refused(&mut self, error: &RpcError, out: &mut Vec<Emitted>) -> Ended {
        self.refused(&error.message, out)
    }

    /// Records that `turn/steer` sends another message into the running turn.
    pub fn steered(&mut self) {
        if let Some(turn) = self.turn.as_mut() {
            turn.steer();
        }
    }

    /// Translates a notification of this thread, of a sub-agent's thread, or of the whole process.
    pub fn notification(
        &mut self,
        method: &str,
        params: &RawValue,
        out: &mut Vec<Emitted>,
    ) -> Option<Signal> {
        match method {
            "item/agentMessage/delta"
            | "item/plan/delta"
            | "item/reasoning/summaryTextDelta"
            | "item/reasoning/textDelta" => self.delta(method, params, out),
            "item/commandExecution/outputDelta" | "item/fileChange/outputDelta" => {
                self.output_delta(params);
            }
            "item/fileChange/patchUpdated" => self.patch_updated(params),
            "item/started" => return self.item_started(params, out),
            "item/completed" => return self.item_completed(params, out),
            "turn/started" => self.turn_started(params, out),
            "turn/completed" => return self.turn_completed(params, out),
            "turn/plan/updated" => self.plan(params, out),
            "turn/diff/updated" => self.diff(params, out),
            "thread/closed" => return self.thread_closed(params, out),
            "thread/started" => self.thread_started(params),
            "serverRequest/resolved" => self.resolved(params, out),
            _ => self.status(method, params, out),
        }
        None
    }

    /// Translates a request of the app-server into an approval, or into an immediate response.
    pub fn request(
        &mut self,
        id: &RequestId,
        method: &str,
        params: &RawValue,
        out: &mut Vec<Emitted>,
    ) -> Answer {
        let known = answer::declined(method).is_some();
        if !known {
            native(method, params, out);
            let message = format!("{method} is not offered by this client");
            let code = METHOD_NOT_FOUND;
            return Answer::Error(RpcError { code, message });
        }
        self.ask(id, method, params, out)
    }

    /// Applies the engine's decision to an earlier request. Returns `None` if no request waits for
    /// it (any more).
    pub fn decide(&mut self, key: &str, decision: &Decision) -> Option<Reply> {
        self.pending.decide(key, decision)
    }

    /// Takes the result of a caller's tool. Returns `None` if the app-server has not sent its
    /// request yet (the result is kept for it), or no longer waits for the result.
    pub fn tool_result(&mut self, id: &ToolId, ok: bool, content: &[Content]) -> Option<Reply> {
        let running = |turn: &Turn| turn.tools.running().any(|open| open.call.id == *id);
        let runs = self.turn.as_ref().is_some_and(running);
        self.pending.tool_result(id, answer::tool_result(ok, content), runs)
    }

    /// Reports that a line over the limit was skipped. It never ends a turn, whatever it was.
    pub fn too_long(&mut self, bytes: usize, out: &mut Vec<Emitted>) {
        let text = format!("the agent wrote a line of {bytes} bytes, too long to read; skipped");
        notice(Level::Warning, "line_too_long", text, out);
    }

    /// Handles the end of the connection. It fails a running turn.
    pub fn end_of_output(&mut self, out: &mut Vec<Emitted>) -> Option<Signal> {
        self.active = None;
        self.broken_off("the agent exited before it finished the turn", out)
    }

    /// Returns whether this thread is ours or one of our sub-agents'.
    pub fn owns(&self, thread: &str) -> bool {
        thread == self.context.thread.as_str() || self.agents.owns(thread)
    }

    /// Returns whether a message with this route concerns us.
    pub fn is_for(&self, route: &Route<'_>) -> bool {
        let owned = |thread: &Option<std::borrow::Cow<'_, str>>| {
            thread.as_deref().is_some_and(|thread| self.owns(thread))
        };
        route.thread.is_none() || owned(&route.thread) || owned(&route.parent)
    }

    /// Returns the turn that the app-server runs on this thread, as far as it has told: the turn to
    /// interrupt or to steer, and the one that must end before the next is started.
    pub fn active_turn(&self) -> Option<&str> {
        let ours = self.turn.as_ref().and_then(|turn| turn.id.as_deref());
        ours.or(self.active.as_deref())
    }

    /// Returns the keys of approvals for which the app-server still waits.
    pub fn pending(&self) -> impl Iterator<Item = &Arc<str>> {
        self.pending.keys()
    }

    /// Returns the model, as last reported.
    pub fn model(&self) -> Option<&Arc<str>> {
        self.model.as_ref()
    }

    /// Returns the time at which an exhausted quota resets. The translator has no clock: the caller
    /// must check whether that time has passed.
    pub fn resets_at(&self) -> Option<Timestamp> {
        self.resets_at
    }

    /// Returns the owner of a message by its thread and turn.
    fn whose(&self, thread: &Soft<Text<'_>>, turn: &Soft<Text<'_>>) -> Whose {
        if let Some(thread) = thread.as_str()
            && thread != self.context.thread.as_str()
        {
            return match self.turn {
                Some(_) if self.agents.owns(thread) => Whose::SubAgents,
                _ => Whose::Nobodys,
            };
        }
        let id = turn.as_str();
        if id.is_some_and(|id| self.late.is_past(id)) {
            return Whose::Late;
        }
        match (&self.turn, id) {
            (None, _) => Whose::Nobodys,
            (Some(ours), Some(id)) if ours.id.as_deref() != Some(id) => Whose::Nobodys,
            _ => Whose::Ours,
        }
    }

    /// Returns the owner of a `turn/started` or `turn/completed`. The first turn that is not an
    /// earlier one becomes ours. No other message may name our turn, because a resumed thread
    /// repeats its last messages.
    fn whose_turn(
        &mut self,
        thread: &Soft<Text<'_>>,
        turn: &Soft<Text<'_>>,
        out: &mut Vec<Emitted>,
    ) -> Whose {
        let is_main = thread.as_str().is_none_or(|id| id == self.context.thread.as_str());
        if let (true, Some(id), Some(ours)) = (is_main, turn.as_str(), self.turn.as_mut())
            && ours.id.is_none()
            && !self.late.is_past(id)
        {
            ours.id = Some(id.into());
            self.start(out);
        }
        self.whose(thread, turn)
    }

    /// Emits `Started` once, and the notices that were queued between turns.
    fn start(&mut self, out: &mut Vec<Emitted>) {
        let Some(turn) = self.turn.as_mut() else {
            return;
        };
        if std::mem::replace(&mut turn.started, true) {
            return;
        }
        let started = Started {
            profile: self.context.profile.clone(),
            executor: self.context.executor.clone(),
            model: self.model.clone(),
            native_session_id: Some(self.context.thread.clone()),
            resumed: self.context.resumed,
            warm: self.context.warm,
        };
        event(EventKind::Started(started), out);
        for notice in self.late.news() {
            event(EventKind::Notice(notice), out);
        }
    }

    /// Emits a notice now if a turn has started, otherwise at the start of the next turn.
    fn news(
        &mut self,
        level: Level,
        code: &str,
        text: impl Into<Arc<str>>,
        out: &mut Vec<Emitted>,
    ) {
        let notice = Notice::new(level, code, text);
        if self.turn.as_ref().is_some_and(|turn| turn.started) {
            event(EventKind::Notice(notice), out);
        } else {
            self.late.keep(notice);
        }
    }
}

fn event(kind: EventKind, out: &mut Vec<Emitted>) {
    out.push(Emitted::Event(kind));
}

fn notice(level: Level, code: &str, text: impl Into<Arc<str>>, out: &mut Vec<Emitted>) {
    event(EventKind::Notice(Notice::new(level, code, text)), out);
}

fn native(name: &str, raw: &RawValue, out: &mut Vec<Emitted>) {
    let (name, raw) = (name.into(), raw.to_owned().into());
    event(EventKind::Native { name, raw }, out);
}

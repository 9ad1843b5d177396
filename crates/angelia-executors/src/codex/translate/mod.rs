//! What one thread of the app-server says, as events of one running turn: pure, synchronous, total.
//! No message panics, none is dropped unless [`SILENT`] says why, and only the end of our own turn
//! (or of the connection) ends a turn.
//!
//! One [`Translator`] lives as long as its thread is loaded. What the process half does with it:
//!
//! - [`Translator::new`] when `thread/start`, `resume` or `fork` has answered. Route to it every
//!   message of which it [`owns`](Translator::owns) the [`Route`](super::protocol::message::Route)'s
//!   thread (or parent), and everything that belongs to no thread; also between turns, when what it
//!   emits belongs to nobody.
//! - [`begin_turn`](Translator::begin_turn), then `turn/start`; its answer goes to
//!   [`turn_accepted`](Translator::turn_accepted), an error to
//!   [`turn_refused`](Translator::turn_refused). Notifications may come before the answer.
//!   If [`active_turn`](Translator::active_turn) still names a turn, interrupt that one and wait
//!   first: `turn/start` would steer it.
//! - [`notification`](Translator::notification) for each notification; [`Signal::Ended`] ends the turn.
//! - [`request`](Translator::request) for each request of the server; [`Answer`] says what to write,
//!   now or after [`decide`](Translator::decide) or [`tool_result`](Translator::tool_result). A
//!   [`Reply`] may want an interrupt, or words for the running turn, behind it.
//! - [`steered`](Translator::steered) for each `turn/steer` that is sent.
//! - [`too_long`](Translator::too_long) for a line over the limit.
//! - [`end_of_output`](Translator::end_of_output) when the connection is gone.
//!
//! How it reads:
//!
//! - **Whose line is it.** Items belong to a turn by its id; ids of items repeat from turn to turn.
//!   The first turn id that is not of an earlier turn is ours. What an earlier turn left running is
//!   reported in the next one as a notice.
//! - **Blocks.** Deltas are provisional, the completed item is authoritative. Every block that had a
//!   delta gets a `Block`: the whole text, or empty when a retry replaced it. What was shown when
//!   a turn breaks off stays.
//! - **Dangling items are normal**; the end of the turn closes them.
//!
//! | file | |
//! |---|---|
//! | `text` | messages, reasoning, plans: deltas and whole blocks |
//! | `item` | items that are tools |
//! | `status` | retries, compaction, limits, warnings |
//! | `silent` | what is not passed on, and why |
//! | `late` | what belongs to no turn |
//! | `ask` | requests of the server |
//! | `end` | the end of a turn |
//! | `agents` | threads of sub-agents |
//! | `turn` | what is known about the running turn |

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

/// What is known about the thread before it says anything.
#[derive(Clone, Debug)]
pub struct Context {
    pub profile: Arc<str>,
    pub executor: Arc<str>,
    /// The server's own id of the conversation.
    pub thread: NativeSessionId,
    pub model: Option<Arc<str>>,
    /// Of the model; decides whether a login or a key is to be checked.
    pub provider: Option<Arc<str>>,
    /// The thread continues a conversation of an earlier process.
    pub resumed: bool,
    /// The process was running before the first turn came.
    pub warm: bool,
    pub prefix_sha256: Option<Arc<str>>,
    pub cwd: PathBuf,
    /// In model mode nothing is asked: every approval is declined at once.
    pub mode: Mode,
    /// The session's rules. The engine applies them; here they only choose which of several paths of
    /// one patch it gets to see.
    pub permissions: Permissions,
    /// Names of the MCP servers that we ourselves are; their calls are accepted.
    pub own_servers: Vec<Arc<str>>,
    /// Who pays, from `account/read`.
    pub lane: Option<Arc<str>>,
    /// In which the program writes times for people.
    pub zone: TimeZone,
}

/// What the agent must act on; at most one per message.
#[derive(Clone, Debug)]
pub enum Signal {
    /// The turn is over by protocol.
    Ended(Ended),
}

/// What becomes of a request of the server.
#[derive(Debug)]
pub enum Answer {
    /// Somebody decides: [`Translator::decide`] with this key has the result.
    Asked(Arc<str>),
    /// One of the caller's tools: [`Translator::tool_result`] with this id has the result.
    Tool(ToolId),
    /// To be written at once.
    Now(Box<RawValue>),
    /// To be written at once.
    Error(RpcError),
}

/// The answer to an earlier request of the server.
#[derive(Debug)]
pub struct Reply {
    pub id: RequestId,
    pub result: Box<RawValue>,
    /// The answer alone does not end the turn, but it was meant to: send `turn/interrupt` behind it.
    pub then_interrupt: bool,
    /// The answer has no place for these words to the agent; `turn/steer` has.
    pub then_tell: Option<Arc<str>>,
}

#[derive(Debug)]
pub struct Translator {
    context: Context,
    model: Option<Arc<str>>,
    turn: Option<Turn>,
    /// The turn the server is running, ours or not.
    active: Option<Box<str>>,
    late: Late,
    agents: Agents,
    pending: Pending,
    ledger: Ledger,
    resets_at: Option<Timestamp>,
}

/// Whose a message is, by its thread and turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    /// Of the running turn.
    Ours,
    /// Of a sub-agent, while a turn runs.
    SubAgents,
    /// Of an earlier turn.
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

    /// Our turn begins; `turn/start` is written next. A turn that has not ended is given up.
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

    /// The answer to `turn/start`: what the turn is called.
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
        // It knows best, also when it took our words into a turn that already ran.
        let earlier = turn.id.replace((&*id).into());
        if let Some(earlier) = earlier {
            self.late.ended(&earlier);
        }
        self.late.runs_on(&id);
        self.start(out);
    }

    /// The error in place of an answer to `turn/start`.
    pub fn turn_refused(&mut self, error: &RpcError, out: &mut Vec<Emitted>) -> Ended {
        self.refused(&error.message, out)
    }

    /// We write a further message into the running turn.
    pub fn steered(&mut self) {
        if let Some(turn) = self.turn.as_mut() {
            turn.steer();
        }
    }

    /// A notification of this thread, of a sub-agent's, or of the whole process.
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

    /// A request of the server: what is asked of people, or the answer to give at once.
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

    /// The engine's decision on an earlier request; `None`: nothing waits for it (any more).
    pub fn decide(&mut self, key: &str, decision: &Decision) -> Option<Reply> {
        self.pending.decide(key, decision)
    }

    /// What a caller's tool has answered. `None`: the server has not asked yet and gets it when it
    /// does, or does not wait for it any more.
    pub fn tool_result(&mut self, id: &ToolId, ok: bool, content: &[Content]) -> Option<Reply> {
        let running = |turn: &Turn| turn.tools.running().any(|open| open.call.id == *id);
        let runs = self.turn.as_ref().is_some_and(running);
        self.pending.tool_result(id, answer::tool_result(ok, content), runs)
    }

    /// A line over the limit was skipped. It never ends a turn, whatever it was.
    pub fn too_long(&mut self, bytes: usize, out: &mut Vec<Emitted>) {
        let text = format!("the agent wrote a line of {bytes} bytes, too long to read; skipped");
        notice(Level::Warning, "line_too_long", text, out);
    }

    /// The connection is gone. Within a turn that ends it, as failed.
    pub fn end_of_output(&mut self, out: &mut Vec<Emitted>) -> Option<Signal> {
        self.active = None;
        self.broken_off("the agent exited before it finished the turn", out)
    }

    /// Is this thread ours, or a sub-agent's of ours?
    pub fn owns(&self, thread: &str) -> bool {
        thread == self.context.thread.as_str() || self.agents.owns(thread)
    }

    /// Is a message on this way ours?
    pub fn is_for(&self, route: &Route<'_>) -> bool {
        let owned = |thread: &Option<std::borrow::Cow<'_, str>>| {
            thread.as_deref().is_some_and(|thread| self.owns(thread))
        };
        route.thread.is_none() || owned(&route.thread) || owned(&route.parent)
    }

    /// The turn the server is running on this thread, as far as it has told: what to interrupt and
    /// to steer, and what must be over before the next one is begun.
    pub fn active_turn(&self) -> Option<&str> {
        let ours = self.turn.as_ref().and_then(|turn| turn.id.as_deref());
        ours.or(self.active.as_deref())
    }

    /// Keys of approvals the server still waits for.
    pub fn pending(&self) -> impl Iterator<Item = &Arc<str>> {
        self.pending.keys()
    }

    /// The model, as of the latest news.
    pub fn model(&self) -> Option<&Arc<str>> {
        self.model.as_ref()
    }

    /// When an exhausted quota opens again, for whoever has a clock.
    pub fn resets_at(&self) -> Option<Timestamp> {
        self.resets_at
    }

    /// Sorts a message.
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

    /// Sorts the beginning or the end of a turn: the first that is not an earlier one is ours.
    /// Nothing else names it, because a thread that is taken up repeats what it last told.
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

    /// The server has taken our turn up.
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

    /// Something people may want to know, now or in the next turn.
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

//! The CLI's stdout, line by line, as events: pure, synchronous, total. No line panics, none is
//! dropped unless [`SILENT`] says why, and only a `result` that is ours (or the end of the output)
//! ends a turn.
//!
//! One [`Translator`] lives as long as its process. Feed it every line, also between turns: it
//! then keeps the counters and the background tasks straight, and what it emits belongs to nobody.
//!
//! - **Whose line is it.** Every message we write has a uuid. Versions that echo it bind results
//!   by it; for the others a result is ours unless its `origin` is a task's notification. Turns the
//!   CLI runs for itself (`Foreign`) are kept as `Native`, never mixed into an answer.
//! - **Background work.** When the answer comes while tasks run (or their report is still owed), the
//!   turn goes on as `Activity::Background` until the CLI's follow-up turns are through. The text
//!   of the turn is the last non-empty result; a failed follow-up does not take the answer back.
//! - **Blocks.** Every block that had a delta gets a `Block`: the whole text, or empty when it was
//!   abandoned. What was shown when a turn breaks off stays.
//!
//! | file | |
//! |---|---|
//! | `stream` | deltas, and the blocks of the message being written |
//! | `message` | `assistant` and `user` lines: text, tool calls, tool results |
//! | `system` | `init`, notices, retries, compaction, rate limits |
//! | `background` | tasks that outlive an answer |
//! | `control` | questions and answers between the CLI and us |
//! | `result` | the end of a turn |
//! | `turn` | what is known about the running turn |
//! | `plan` | to-do lists |

mod background;
mod control;
mod message;
mod plan;
mod result;
mod stream;
mod system;
mod turn;

use std::{path::PathBuf, sync::Arc};

use angelia_core::{
    model::{Decision, EventKind, Level, NativeSessionId, Notice, RawJson},
    ports::{Emitted, Ended},
};
use jiff::Timestamp;
use serde_json::value::RawValue;

use self::{background::Tasks, plan::Todo, stream::Stream, turn::Turn};
use super::{
    permission::Pending,
    protocol::incoming::Head,
    usage::{Lane, Ledger},
};

/// What is said on one line but not passed on, and why. The names are those `Native` would have.
pub const SILENT: &[(&str, &str)] = &[
    ("control_response", "becomes `Signal::Answered`"),
    ("control_cancel_request", "becomes `Withdraw`"),
    ("command_lifecycle", "of our own message: it is how we know whose lines follow"),
    ("keep_alive", "says nothing"),
    ("user/replay", "our own words come back"),
    ("user/interrupted", "the outcome says it"),
    ("system/init", "only the first of a turn is news; the CLI repeats it"),
    ("system/status", "`requesting`, and the end of a compaction that its boundary reports"),
    ("stream_event/message_start", "carries nothing that the `assistant` line does not"),
    ("stream_event/message_delta", "what the message has cost"),
    ("stream_event/message_stop", "what it abandons is withdrawn"),
    ("stream_event/content_block_start", "carries nothing that the `assistant` line does not"),
    ("stream_event/content_block_delta", "`input_json_delta`, `signature_delta`: in the block"),
    ("stream_event/content_block_stop", "carries nothing that the `assistant` line does not"),
    ("stream_event/ping", "says nothing"),
    ("assistant", "empty text"),
];

/// A line that is not JSON is kept up to here.
const GARBAGE: usize = 64 * 1024;

/// What is known about the process before it says anything.
#[derive(Clone, Debug)]
pub struct Context {
    pub profile: Arc<str>,
    pub executor: Arc<str>,
    /// The process continues a conversation of an earlier one.
    pub resumed: bool,
    /// It was started before its first turn came.
    pub warm: bool,
    pub prefix_sha256: Option<Arc<str>>,
    pub cwd: PathBuf,
}

/// What the agent must act on; at most one per line.
#[derive(Clone, Debug)]
pub enum Signal {
    /// The turn is over by protocol.
    Ended(Ended),
    /// The CLI answers one of our control requests. `Ok(None)`: done, nothing to say.
    Answered { request_id: Box<str>, result: Result<Option<RawJson>, String> },
    /// The CLI waits for an answer that is not an approval.
    Asked(ControlAsk),
    /// What the CLI tries again cannot succeed: it should be interrupted. Its turn then fails.
    InVain,
}

/// A control request of the CLI that the agent must answer, whatever it is.
#[derive(Clone, Debug)]
pub struct ControlAsk {
    pub request_id: Box<str>,
    pub ask: Ask,
}

#[derive(Clone, Debug)]
pub enum Ask {
    /// JSON-RPC for an MCP server that we ourselves are; notifications want an answer too.
    Mcp {
        server: Box<str>,
        message: RawJson,
    },
    Hook {
        callback_id: Box<str>,
        input: RawJson,
    },
    /// To be refused.
    Unknown {
        subtype: Box<str>,
        request: RawJson,
    },
}

/// Whose turn the CLI is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Running {
    Nothing,
    Ours,
    /// One that we did not ask for, or no longer wait for.
    Foreign,
}

#[derive(Debug)]
pub struct Translator {
    context: Context,
    native_session: Option<NativeSessionId>,
    model: Option<Arc<str>>,
    running: Running,
    turn: Option<Turn>,
    /// The message before this turn's; what is said about it late is ours too.
    last_uuid: Option<Box<str>>,
    stream: Stream,
    tasks: Tasks,
    todo: Todo,
    pending: Pending,
    ledger: Ledger,
    lane: Lane,
    resets_at: Option<Timestamp>,
    /// This version says what becomes of each message.
    says_lifecycle: bool,
}

impl Translator {
    pub fn new(context: Context) -> Self {
        Self {
            ledger: Ledger::new(context.resumed),
            context,
            native_session: None,
            model: None,
            running: Running::Nothing,
            turn: None,
            last_uuid: None,
            says_lifecycle: false,
            stream: Stream::default(),
            tasks: Tasks::default(),
            todo: Todo::default(),
            pending: Pending::default(),
            lane: Lane::default(),
            resets_at: None,
        }
    }

    /// Our next message has this uuid. A turn that has not ended is given up.
    pub fn begin_turn(&mut self, message_uuid: &str) {
        // What the CLI still runs is not the answer to this.
        if self.running == Running::Ours {
            self.running = Running::Foreign;
        }
        self.stream = Stream::default();
        self.turn = Some(Turn::new(message_uuid));
    }

    /// A further message written now becomes a part of the running turn: the program says what it
    /// does with it, or a tool runs, behind which every version takes it up. Otherwise it might
    /// run as a turn of its own whose result nobody could tell from the next one's.
    pub fn takes_words(&self) -> bool {
        self.says_lifecycle || self.turn.as_ref().is_some_and(Turn::runs_a_tool)
    }

    /// We write a further message into the running turn.
    pub fn steered(&mut self, message_uuid: &str) {
        if let Some(turn) = self.turn.as_mut() {
            turn.steer(message_uuid);
        }
    }

    /// Translates one line, without its newline.
    pub fn line(&mut self, line: &[u8], out: &mut Vec<Emitted>) -> Option<Signal> {
        let Ok(text) = std::str::from_utf8(line) else {
            garbage(line, out);
            return None;
        };
        let Some(head) = Head::parse(text) else {
            native("unknown", text, out);
            return None;
        };
        match &*head.kind {
            "stream_event" => self.stream_event(&head, text, out),
            "assistant" => self.assistant(text, out),
            "user" => self.user(text, out),
            "system" => return self.system(&head, text, out),
            "result" => return self.result(text, out),
            "control_request" => return self.control_request(text, out),
            "control_response" => return self.control_response(text, out),
            "control_cancel_request" => self.control_cancel(text, out),
            "command_lifecycle" => return self.lifecycle(text, out),
            "rate_limit_event" => self.rate_limit(text, out),
            "keep_alive" => {}
            kind => native(&name(kind, head.subtype.as_deref()), text, out),
        }
        None
    }

    /// A line over the limit was skipped. It never ends a turn, whatever it was.
    pub fn too_long(&mut self, bytes: usize, out: &mut Vec<Emitted>) {
        let text = format!("the agent wrote a line of {bytes} bytes, too long to read; skipped");
        notice(Level::Warning, "line_too_long", text, out);
    }

    /// The output has ended. Within a turn that ends it: as failed, unless the answer was there.
    pub fn end_of_output(&mut self, out: &mut Vec<Emitted>) -> Option<Signal> {
        self.tasks = Tasks::default();
        self.pending.clear();
        self.running = Running::Nothing;
        self.broken_off(out).map(Signal::Ended)
    }

    /// The line that answers an approval; `None` if nothing waits for it (any more).
    pub fn answer(&mut self, key: &str, decision: &Decision) -> Option<Vec<u8>> {
        self.pending.answer(key, decision)
    }

    /// Keys of approvals the CLI still waits for; a background task's may outlive its turn.
    pub fn pending(&self) -> impl Iterator<Item = &Arc<str>> {
        self.pending.keys()
    }

    /// The answer is there, but work it started goes on.
    pub fn in_background(&self) -> bool {
        let waits = |turn: &Turn| turn.has_answer() && !turn.awaits_steer();
        self.turn.as_ref().is_some_and(waits)
    }

    /// Ids of the background tasks that run, for `stop_task`.
    pub fn running_tasks(&self) -> impl Iterator<Item = &str> {
        self.tasks.running()
    }

    /// Ends a turn in the background with the answer it has.
    pub fn end_background(&mut self, out: &mut Vec<Emitted>) -> Ended {
        if self.running == Running::Ours {
            self.running = Running::Foreign;
        }
        self.give_stored(out)
    }

    /// The CLI is running a turn that is not ours. A message written now might be folded into it.
    pub fn is_busy_elsewhere(&self) -> bool {
        self.running == Running::Foreign
    }

    /// The CLI's own id of the conversation, as of its latest `init`.
    pub fn native_session(&self) -> Option<&NativeSessionId> {
        self.native_session.as_ref()
    }

    /// The model, as of the latest `init`.
    pub fn model(&self) -> Option<&Arc<str>> {
        self.model.as_ref()
    }

    /// When an exhausted quota opens again, for whoever has a clock.
    pub fn resets_at(&self) -> Option<Timestamp> {
        self.resets_at
    }

    /// The turn that this line's content belongs to, if it is ours.
    fn ours(&mut self) -> Option<&mut Turn> {
        match self.running {
            Running::Foreign => None,
            Running::Ours | Running::Nothing => self.turn.as_mut(),
        }
    }
}

fn name(kind: &str, subtype: Option<&str>) -> String {
    match subtype {
        Some(subtype) => format!("{kind}/{subtype}"),
        None => kind.to_owned(),
    }
}

fn event(kind: EventKind, out: &mut Vec<Emitted>) {
    out.push(Emitted::Event(kind));
}

fn notice(level: Level, code: &str, text: impl Into<Arc<str>>, out: &mut Vec<Emitted>) {
    event(EventKind::Notice(Notice::new(level, code, text)), out);
}

/// Keeps valid JSON as it is.
fn native(name: &str, json: &str, out: &mut Vec<Emitted>) {
    match serde_json::from_str::<&RawValue>(json) {
        Ok(raw) => native_raw(name, raw, out),
        Err(_) => garbage(json.as_bytes(), out),
    }
}

fn native_raw(name: &str, raw: &RawValue, out: &mut Vec<Emitted>) {
    let (name, raw) = (name.into(), raw.to_owned().into());
    event(EventKind::Native { name, raw }, out);
}

/// What is not even JSON is kept as text.
fn garbage(line: &[u8], out: &mut Vec<Emitted>) {
    if line.iter().all(u8::is_ascii_whitespace) {
        return;
    }
    let kept = String::from_utf8_lossy(&line[..line.len().min(GARBAGE)]);
    if let Ok(raw) = serde_json::value::to_raw_value(&kept) {
        let name = "not_json".into();
        event(EventKind::Native { name, raw: raw.into() }, out);
    }
}

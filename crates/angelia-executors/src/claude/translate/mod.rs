//! Translates the CLI's stdout, line by line, into events. Pure, synchronous and total: no line
//! panics, no line is dropped unless [`SILENT_LINES`] says why, and only a `result` of ours (or the
//! end of the output) ends a turn.
//!
//! A [`StreamTranslator`] lives as long as its process. It must see every line, including those
//! between turns, to keep counters and background tasks correct. The events that it emits between
//! turns belong to no turn.
//!
//! - **Ownership of lines.** Every message that we write has a uuid. Versions that echo it bind
//!   results by it; in other versions a result is ours unless its `origin` is a task's
//!   notification. Turns that the CLI runs on its own (`Foreign`) are kept as `Native` and never
//!   mixed into an answer.
//! - **Background work.** If the answer arrives while tasks are running (or their report is still
//!   owed), the turn continues as `Activity::Background` until the CLI's follow-up turns are done.
//!   The text of the turn is the last non-empty result; a failed follow-up does not remove the
//!   answer.
//! - **Blocks.** Every block that had a delta gets a `Block` with the whole text, or an empty one
//!   if it was abandoned. Text that was already shown is kept if the turn breaks off.
//!
//! | file | content |
//! |---|---|
//! | `stream` | deltas, and the blocks of the message being written |
//! | `message` | `assistant` and `user` lines: text, tool calls, tool results |
//! | `system` | `init`, notices, retries, compaction, rate limits |
//! | `background` | tasks that outlive an answer |
//! | `control` | control requests and responses between the CLI and us |
//! | `result` | the end of a turn |
//! | `turn` | the state of the running turn |
//! | `plan` | to-do lists |

mod background;
pub(super) mod control;
mod message;
mod plan;
mod result;
mod stream;
mod system;
mod turn;

use std::{path::PathBuf, sync::Arc};

use angelia_core::{
    model::{Decision, EventKind, NativeSessionId, NoticeLevel, RawJson},
    ports::{AgentEvent, AgentOutcome},
};
use jiff::Timestamp;
use serde_json::value::RawValue;

use self::{background::BackgroundTasks, plan::TodoList, stream::MessageStream, turn::ClaudeTurn};
use super::{
    permission::PendingPermissions,
    protocol::incoming::LineHead,
    usage::{BillingLane, UsageLedger},
};
use crate::emit::{emit_event, emit_native, emit_notice};

/// Lines that produce no event, and why. The names are those that `Native` would have.
pub const SILENT_LINES: &[(&str, &str)] = &[
    ("control_response", "becomes `StreamSignal::Response`"),
    ("control_cancel_request", "becomes `Withdraw`"),
    ("command_lifecycle", "of our own message: shows which turn the next lines belong to"),
    ("keep_alive", "carries nothing"),
    ("user/replay", "repeats our own message"),
    ("user/interrupted", "the outcome reports it"),
    ("system/init", "only the first of a turn is new; the CLI repeats it"),
    ("system/status", "`requesting`, and the end of a compaction that its boundary reports"),
    ("stream_event/message_start", "carries nothing that the `assistant` line does not"),
    ("stream_event/message_delta", "the usage of the message"),
    ("stream_event/message_stop", "the blocks it abandons are withdrawn"),
    ("stream_event/content_block_start", "carries nothing that the `assistant` line does not"),
    ("stream_event/content_block_delta", "`input_json_delta`, `signature_delta`: in the block"),
    ("stream_event/content_block_stop", "carries nothing that the `assistant` line does not"),
    ("stream_event/ping", "carries nothing"),
    ("assistant", "empty text"),
];

/// How much of a line that is not JSON is kept.
const MAX_GARBAGE_BYTES: usize = 64 * 1024;

/// What is known about the process before its first line.
#[derive(Clone, Debug)]
pub struct TranslatorContext {
    pub profile: Arc<str>,
    pub executor: Arc<str>,
    /// Whether the process continues the conversation of an earlier process.
    pub resumed: bool,
    /// Whether the process was started before its first turn arrived.
    pub warm: bool,
    pub prefix_sha256: Option<Arc<str>>,
    pub cwd: PathBuf,
    /// `HOME` of the process.
    pub home: PathBuf,
    /// The names by which the model sees the caller's tools.
    pub caller_tools: Vec<String>,
}

/// Something that the agent must act on; at most one per line.
#[derive(Clone, Debug)]
pub enum StreamSignal {
    /// The protocol has ended the turn.
    TurnEnded(AgentOutcome),
    /// The CLI's response to one of our control requests; `Ok(None)` is success without a payload.
    Response { request_id: Box<str>, result: Result<Option<RawJson>, String> },
    /// A control request from the CLI that is not an approval; it must be answered.
    Request(CliRequest),
    /// The response to a control request that is already decided.
    Respond(Vec<u8>),
    /// The CLI retries a request that cannot succeed. The agent should interrupt it, and the turn
    /// then fails.
    FutileRetry,
}

/// A control request from the CLI. The agent must answer every kind.
#[derive(Clone, Debug)]
pub struct CliRequest {
    pub request_id: Box<str>,
    pub kind: CliRequestKind,
}

#[derive(Clone, Debug)]
pub enum CliRequestKind {
    /// JSON-RPC for an MCP server that we serve ourselves; notifications need an answer too.
    Mcp {
        server: Box<str>,
        message: RawJson,
    },
    Hook {
        callback_id: Box<str>,
        input: RawJson,
    },
    /// An unknown request, which the agent must refuse.
    Unknown {
        subtype: Box<str>,
        request: RawJson,
    },
}

/// Whose turn the CLI is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TurnOwner {
    Nobody,
    Ours,
    /// A turn that we did not request, or no longer wait for.
    Foreign,
}

#[derive(Debug)]
pub struct StreamTranslator {
    context: TranslatorContext,
    native_session: Option<NativeSessionId>,
    model: Option<Arc<str>>,
    turn_owner: TurnOwner,
    turn: Option<ClaudeTurn>,
    /// The uuid of the previous turn's message. Late lines about it are ours too.
    last_uuid: Option<Box<str>>,
    stream: MessageStream,
    tasks: BackgroundTasks,
    todo_list: TodoList,
    permissions: PendingPermissions,
    ledger: UsageLedger,
    lane: BillingLane,
    resets_at: Option<Timestamp>,
    /// Set if this version reports the lifecycle of each message.
    reports_lifecycle: bool,
}

impl StreamTranslator {
    pub fn new(context: TranslatorContext) -> Self {
        Self {
            ledger: UsageLedger::new(context.resumed),
            context,
            native_session: None,
            model: None,
            turn_owner: TurnOwner::Nobody,
            turn: None,
            last_uuid: None,
            reports_lifecycle: false,
            stream: MessageStream::default(),
            tasks: BackgroundTasks::default(),
            todo_list: TodoList::default(),
            permissions: PendingPermissions::default(),
            lane: BillingLane::default(),
            resets_at: None,
        }
    }

    /// Begins a turn with the uuid of our next message. Gives up a turn that has not ended.
    pub fn begin_turn(&mut self, message_uuid: &str) {
        // The turn that the CLI is still running does not answer the new message.
        if self.turn_owner == TurnOwner::Ours {
            self.turn_owner = TurnOwner::Foreign;
        }
        self.stream = MessageStream::default();
        self.permissions.begin_turn();
        self.turn = Some(ClaudeTurn::new(message_uuid));
    }

    /// Reports whether a message written now becomes part of the running turn. It does if this
    /// version reports the lifecycle of messages, or if a tool is running, because every version
    /// takes up messages after a tool. Otherwise the message might run as a separate turn, whose
    /// result could not be distinguished from the next turn's.
    pub fn accepts_steering(&self) -> bool {
        self.reports_lifecycle || self.turn.as_ref().is_some_and(ClaudeTurn::has_open_tool)
    }

    /// Records a message that we write into the running turn.
    pub fn add_steer(&mut self, message_uuid: &str) {
        if let Some(turn) = self.turn.as_mut() {
            turn.add_steer(message_uuid);
        }
    }

    /// Translates one line, without its newline.
    pub fn translate_line(
        &mut self,
        line: &[u8],
        out: &mut Vec<AgentEvent>,
    ) -> Option<StreamSignal> {
        let Ok(text) = std::str::from_utf8(line) else {
            emit_garbage(line, out);
            return None;
        };
        let Some(head) = LineHead::parse(text) else {
            emit_native_line("unknown", text, out);
            return None;
        };
        match &*head.kind {
            "stream_event" => self.on_stream_event(&head, text, out),
            "assistant" => self.on_assistant(text, out),
            "user" => self.on_user(text, out),
            "system" => return self.on_system(&head, text, out),
            "result" => return self.on_result(text, out),
            "control_request" => return self.on_control_request(text, out),
            "control_response" => return self.on_control_response(text, out),
            "control_cancel_request" => self.on_control_cancel(text, out),
            "command_lifecycle" => return self.on_lifecycle(text, out),
            "rate_limit_event" => self.on_rate_limit(text, out),
            "keep_alive" => {}
            kind => emit_native_line(&name(kind, head.subtype.as_deref()), text, out),
        }
        None
    }

    /// Emits a notice for a line that was skipped because it was over the limit. Never ends a turn.
    pub fn report_long_line(&mut self, bytes: usize, out: &mut Vec<AgentEvent>) {
        let text = format!("the agent wrote a line of {bytes} bytes, too long to read; skipped");
        emit_notice(NoticeLevel::Warning, "line_too_long", text, out);
    }

    /// Handles the end of the output. A running turn ends as failed, unless it has an answer.
    pub fn end_of_output(&mut self, out: &mut Vec<AgentEvent>) -> Option<AgentOutcome> {
        self.tasks = BackgroundTasks::default();
        self.permissions.clear();
        self.turn_owner = TurnOwner::Nobody;
        self.end_at_eof(out)
    }

    /// Returns the line that answers an approval, or `None` if the CLI does not wait for it.
    pub fn answer_approval(&mut self, key: &str, decision: &Decision) -> Option<Vec<u8>> {
        self.permissions.answer(key, decision)
    }

    /// Returns the line that lets a reported call proceed, or `None` if the CLI is not waiting.
    pub fn proceed(&mut self, key: &str) -> Option<Vec<u8>> {
        self.permissions.proceed(key)
    }

    /// Reports whether the CLI waits for the answer to a report with this key.
    pub fn is_pending_report(&self, key: &str) -> bool {
        self.permissions.is_report(key)
    }

    /// Returns the keys of the approvals that the CLI still waits for. Those of a background task
    /// may outlive its turn.
    pub fn pending_approvals(&self) -> impl Iterator<Item = &Arc<str>> {
        self.permissions.keys()
    }

    /// Reports whether the turn has its answer while background work continues.
    pub fn in_background(&self) -> bool {
        let waits = |turn: &ClaudeTurn| turn.has_answer() && !turn.awaits_steer();
        self.turn.as_ref().is_some_and(waits)
    }

    /// Returns the ids of the running background tasks, for `stop_task`.
    pub fn running_tasks(&self) -> impl Iterator<Item = &str> {
        self.tasks.running_ids()
    }

    /// Ends a turn that is in the background, with the answer that it has.
    pub fn end_background(&mut self, out: &mut Vec<AgentEvent>) -> AgentOutcome {
        if self.turn_owner == TurnOwner::Ours {
            self.turn_owner = TurnOwner::Foreign;
        }
        self.end_with_answer(out)
    }

    /// Reports whether the CLI is running a turn that is not ours. A message written now might be
    /// folded into that turn.
    pub fn runs_foreign_turn(&self) -> bool {
        self.turn_owner == TurnOwner::Foreign
    }

    /// Returns when an exhausted quota resets. The caller has the clock.
    pub fn resets_at(&self) -> Option<Timestamp> {
        self.resets_at
    }

    /// Returns our turn, unless the CLI is running a foreign one.
    fn our_turn(&mut self) -> Option<&mut ClaudeTurn> {
        match self.turn_owner {
            TurnOwner::Foreign => None,
            TurnOwner::Ours | TurnOwner::Nobody => self.turn.as_mut(),
        }
    }
}

fn name(kind: &str, subtype: Option<&str>) -> String {
    match subtype {
        Some(subtype) => format!("{kind}/{subtype}"),
        None => kind.to_owned(),
    }
}

/// Emits a line as `Native`, with its JSON unchanged.
fn emit_native_line(name: &str, json: &str, out: &mut Vec<AgentEvent>) {
    match serde_json::from_str::<&RawValue>(json) {
        Ok(raw) => emit_native(name, raw, out),
        Err(_) => emit_garbage(json.as_bytes(), out),
    }
}

/// Emits a line that is not JSON as `Native` text.
fn emit_garbage(line: &[u8], out: &mut Vec<AgentEvent>) {
    if line.iter().all(u8::is_ascii_whitespace) {
        return;
    }
    let kept = String::from_utf8_lossy(&line[..line.len().min(MAX_GARBAGE_BYTES)]);
    if let Ok(raw) = serde_json::value::to_raw_value(&kept) {
        let name = "not_json".into();
        emit_event(EventKind::Native { name, raw: raw.into() }, out);
    }
}

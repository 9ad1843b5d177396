//! Encodes the events of a turn as `session/update` lines. Pure: events in, bytes out.
//!
//! Text deltas are the hot path: the JSON before a block's text is built once and copied. Sent text
//! cannot be withdrawn, so a block whose final text differs is sent again after a notice.

use std::{
    collections::HashMap,
    fmt::Write as _,
    path::{Path, PathBuf},
};

use angelia_core::model::{
    Approval, BlockId, Content, EventKind, Level, Notice, Plan, RawJson, Resolution, SessionId,
    TextChannel, ToolCall, ToolClass, ToolId, ToolResult, TurnEvent, TurnId, Usage,
};
use angelia_wire::jsonrpc::{Dialect, encode};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::Serialize;

use super::{
    meter::{self, Spent},
    shown::{AskedTool, MessageChunk, Meta, Parent, Shown, ToolCallUpdate, ToolContent, asked_id},
    tool::Look,
};

const WITHDRAWN: &str = "\n\n[the text above was cut off; the answer begins anew]\n\n";

/// Limits the bytes of text in one line. Some clients read lines of at most 64 KiB, and a
/// control character takes six bytes in JSON.
const PIECE: usize = 8 * 1024;

/// Optional features of the editor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    pub notices: bool,
}

/// Encodes the events of a session's turns, and remembers what it has encoded.
#[derive(Debug)]
pub struct Updates {
    id: SessionId,
    session: String,
    cwd: PathBuf,
    features: Features,
    turn: Option<TurnId>,
    chunk: Option<Chunk>,
    /// The text sent so far of blocks that are not complete.
    unfinished: HashMap<BlockId, String>,
    tools: HashMap<ToolId, Tool>,
    /// The tool calls of open approvals.
    asked: HashMap<angelia_core::model::ApprovalId, ToolId>,
    spent: Spent,
}

/// The JSON before the text in the lines of one block.
#[derive(Debug)]
struct Chunk {
    block: BlockId,
    channel: TextChannel,
    head: Vec<u8>,
}

/// The JSON after the text.
const CHUNK_END: &[u8] = b"}}}}\n";

/// A tool call that has been sent and has no result yet.
#[derive(Debug)]
struct Tool {
    class: ToolClass,
    input: RawJson,
    look: Look,
}

impl Updates {
    /// Creates an encoder for a session whose agent works in `cwd`.
    pub fn new(session: SessionId, cwd: &Path, features: Features) -> Self {
        Self {
            id: session,
            session: session.to_string(),
            cwd: cwd.to_owned(),
            features,
            turn: None,
            chunk: None,
            unfinished: HashMap::new(),
            tools: HashMap::new(),
            asked: HashMap::new(),
            spent: Spent::UNKNOWN,
        }
    }

    /// Sets what the session's turns have cost before the first event.
    #[must_use]
    pub const fn having_spent(mut self, spent: Spent) -> Self {
        self.spent = spent;
        self
    }

    pub const fn spent(&self) -> Spent {
        self.spent
    }

    /// Encodes an event as no line, one line, or several.
    pub fn event(&mut self, event: &TurnEvent, out: &mut Vec<u8>) {
        self.begin(event.turn);
        match &event.kind {
            EventKind::Delta { block, channel, text } => {
                self.text(*block, *channel, text, out);
                self.unfinished.entry(*block).or_default().push_str(text);
            }
            EventKind::Block { block, channel, text } => self.whole(*block, *channel, text, out),
            EventKind::ToolCall(call) => self.tool_call(call, out),
            EventKind::ToolResult(result) => self.tool_result(result, out),
            EventKind::Plan(plan) => self.plan(plan, out),
            EventKind::Approval(approval) => {
                if let Some(tool) = &approval.tool_id {
                    self.asked.insert(approval.id, tool.clone());
                }
            }
            EventKind::Resolved(resolution) => self.resolved(resolution, out),
            EventKind::Notice(notice) => self.notice(notice, out),
            EventKind::Usage(usage) => self.usage(event.session, usage, out),
            // Turns of a session that this one was forked from do not count towards its cost.
            EventKind::Finished(outcome) if event.session == self.id => {
                self.spent = self.spent.and(&outcome.usage);
            }
            EventKind::Started(_) | EventKind::Native { .. } | EventKind::Finished(_) => {}
        }
    }

    /// Encodes the input of a turn, which is sent when a session is loaded.
    pub fn input(&mut self, turn: TurnId, input: &[Content], out: &mut Vec<u8>) {
        self.begin(turn);
        let id = format!("{turn}-input");
        for content in input {
            match content {
                Content::Text(text) => self.words(true, &id, text, out),
                Content::Image { media_type, data } => {
                    let image =
                        Shown::Image { mime_type: media_type, data: BASE64_STANDARD.encode(data) };
                    self.put(&MessageChunk::user(&id, image), out);
                }
            }
        }
    }

    /// Encodes text of a history that came from elsewhere.
    pub fn words(&self, from_user: bool, id: &str, text: &str, out: &mut Vec<u8>) {
        let update = if from_user { "user_message_chunk" } else { "agent_message_chunk" };
        for piece in pieces(text) {
            let chunk = MessageChunk {
                session_update: update,
                message_id: id,
                content: Shown::text(piece),
            };
            self.put(&chunk, out);
        }
    }

    /// Returns the tool call for the `session/request_permission` of an approval.
    pub(super) fn asked_about<'a>(&'a self, approval: &'a Approval) -> AskedTool<'a> {
        let tool = (approval.tool_id.as_ref()).and_then(|id| Some((id, self.tools.get(id)?)));
        let detail = vec![ToolContent::Content { content: Shown::text(&*approval.detail) }];
        match tool {
            Some((id, tool)) => AskedTool {
                tool_call_id: id.to_string(),
                title: &approval.title,
                kind: tool.look.kind,
                status: "pending",
                // A diff says more than the approval's detail.
                content: if tool.look.diffs.is_empty() {
                    detail
                } else {
                    tool.look.diffs.iter().map(Into::into).collect()
                },
                locations: &tool.look.locations,
                raw_input: Some(&tool.input),
            },
            None => AskedTool {
                tool_call_id: asked_id(approval),
                title: &approval.title,
                kind: "other",
                status: "pending",
                content: detail,
                locations: &[],
                raw_input: None,
            },
        }
    }

    /// Forgets the blocks of the previous turn, because block ids are unique only within a turn.
    fn begin(&mut self, turn: TurnId) {
        if self.turn.replace(turn) != Some(turn) {
            self.chunk = None;
            self.unfinished.clear();
        }
    }

    /// Encodes what is missing of a complete block. The block is authoritative over its deltas.
    fn whole(&mut self, block: BlockId, channel: TextChannel, text: &str, out: &mut Vec<u8>) {
        let shown = self.unfinished.remove(&block).unwrap_or_default();
        if let Some(rest) = text.strip_prefix(&*shown) {
            self.text(block, channel, rest, out);
        } else if shown.trim() != text.trim() {
            // The block was withdrawn, or its final text differs from its deltas.
            if channel == TextChannel::Answer {
                self.text(block, channel, WITHDRAWN, out);
            }
            self.text(block, channel, text, out);
        }
    }

    fn text(&mut self, block: BlockId, channel: TextChannel, text: &str, out: &mut Vec<u8>) {
        if text.is_empty() {
            return;
        }
        let known = (self.chunk.as_ref())
            .is_some_and(|chunk| chunk.block == block && chunk.channel == channel);
        if !known {
            self.chunk = Some(self.begin_block(block, channel));
        }
        let Some(chunk) = &self.chunk else { return };
        for piece in pieces(text) {
            out.extend_from_slice(&chunk.head);
            // Writing a string to a vector cannot fail.
            let _infallible = serde_json::to_writer(&mut *out, piece);
            out.extend_from_slice(CHUNK_END);
        }
    }

    fn begin_block(&self, block: BlockId, channel: TextChannel) -> Chunk {
        let update = match channel {
            TextChannel::Answer => "agent_message_chunk",
            TextChannel::Reasoning => "agent_thought_chunk",
        };
        let mut head = format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{}","update":{{"sessionUpdate":"{update}","#,
            self.session
        );
        if let Some(turn) = self.turn {
            let _infallible = write!(head, r#""messageId":"{turn}-{block}","#);
        }
        head.push_str(r#""content":{"type":"text","text":"#);
        Chunk { block, channel, head: head.into_bytes() }
    }

    fn tool_call(&mut self, call: &ToolCall, out: &mut Vec<u8>) {
        let look = Look::of(call.class, &call.input, &self.cwd);
        let update = ToolCallUpdate {
            session_update: "tool_call",
            tool_call_id: call.id.as_str(),
            title: Some(&call.title),
            name: Some(&call.name),
            kind: Some(look.kind),
            status: "in_progress",
            content: Some(look.diffs.iter().map(Into::into).collect())
                .filter(|diffs: &Vec<_>| !diffs.is_empty()),
            locations: Some(&*look.locations).filter(|places| !places.is_empty()),
            raw_input: Some(&call.input),
            raw_output: None,
            meta: (call.parent.as_ref())
                .map(|parent| Meta { angelia: Parent { parent_tool_call_id: parent.as_str() } }),
        };
        self.put(&update, out);
        let tool = Tool { class: call.class, input: call.input.clone(), look };
        self.tools.insert(call.id.clone(), tool);
    }

    fn tool_result(&mut self, result: &ToolResult, out: &mut Vec<u8>) {
        let tool = self.tools.remove(&result.id);
        let diffs = tool.as_ref().map_or(&[][..], |tool| &*tool.look.diffs);
        let fenced;
        let mut content = Vec::new();
        // The diff of a successful change was sent with the call; its output adds nothing.
        if diffs.is_empty() || !result.ok {
            content.extend(diffs.iter().map(ToolContent::from));
            let class = tool.as_ref().map_or(ToolClass::Other, |tool| tool.class);
            if !result.output.trim().is_empty() {
                let text = match class {
                    ToolClass::Read | ToolClass::Execute => {
                        fenced = fence(&result.output);
                        &fenced
                    }
                    ToolClass::Edit | ToolClass::Other => &*result.output,
                };
                content.push(ToolContent::Content { content: Shown::text(text) });
            }
        }
        let update = ToolCallUpdate {
            status: if result.ok { "completed" } else { "failed" },
            content: Some(content).filter(|content| !content.is_empty()),
            raw_output: Some(&result.output),
            ..ToolCallUpdate::of(result.id.as_str())
        };
        self.put(&update, out);
    }

    /// Reports an approved tool call as running again. A declined one reports it in its result.
    fn resolved(&mut self, resolution: &Resolution, out: &mut Vec<u8>) {
        if let Some(tool) = self.asked.remove(&resolution.id)
            && resolution.verdict.allows()
            && self.tools.contains_key(&tool)
        {
            self.put(&ToolCallUpdate::of(tool.as_str()), out);
        }
    }

    fn plan(&self, plan: &Plan, out: &mut Vec<u8>) {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Entries<'a> {
            session_update: &'static str,
            entries: Vec<Entry<'a>>,
        }
        #[derive(Serialize)]
        struct Entry<'a> {
            content: &'a str,
            /// Agents do not report a priority, but the protocol requires one.
            priority: &'static str,
            status: &'static str,
        }
        let entries = plan.items.iter().map(|item| Entry {
            content: &item.text,
            priority: "medium",
            status: item.status.as_str(),
        });
        let update = Entries { session_update: "plan", entries: entries.collect() };
        self.put(&update, out);
    }

    fn usage(&self, session: SessionId, usage: &Usage, out: &mut Vec<u8>) {
        let before = if session == self.id { self.spent } else { Spent::UNKNOWN };
        if let Some(update) = meter::update(usage, before) {
            self.put(&update, out);
        }
    }

    fn notice(&self, notice: &Notice, out: &mut Vec<u8>) {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Told<'a> {
            session_update: &'static str,
            severity: &'static str,
            title: &'a str,
            #[serde(rename = "_meta")]
            meta: Meta<Code<'a>>,
        }
        #[derive(Serialize)]
        struct Code<'a> {
            code: &'a str,
        }
        if self.features.notices {
            let update = Told {
                session_update: "notice",
                severity: match notice.level {
                    Level::Info => "info",
                    Level::Warning => "warning",
                },
                title: &notice.text,
                meta: Meta { angelia: Code { code: &notice.code } },
            };
            self.put(&update, out);
        }
    }

    /// Encodes an update as a line.
    pub(super) fn put<U: Serialize>(&self, update: &U, out: &mut Vec<u8>) {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Params<'a, U> {
            session_id: &'a str,
            update: &'a U,
        }
        let params = Params { session_id: &self.session, update };
        match encode::notification(Dialect::V2, "session/update", Some(&params)) {
            Ok(line) => out.extend_from_slice(&line),
            // Not expected for our own types; half a line would be worse than none.
            Err(error) => tracing::error!(%error, "cannot serialize an update"),
        }
    }
}

/// Splits text into chunks that are short enough for every editor.
fn pieces(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let (piece, rest) = text.split_at(text.floor_char_boundary(PIECE));
        text = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Puts text into a Markdown code fence. Editors render tool content as Markdown, which output and
/// files are not.
fn fence(text: &str) -> String {
    let mut longest = 0;
    let mut run = 0;
    for byte in text.bytes() {
        run = if byte == b'`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat(longest.max(2) + 1);
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("{fence}\n{text}{end}{fence}")
}

//! The events of a turn as `session/update` lines. Pure: events in, bytes out.
//!
//! Pieces of text are the hot path: the line around a block's text is made once and copied. What
//! was said cannot be taken back, so a block that turns out different begins anew, with a word.

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

/// Bytes of text in one line. Some clients read lines of at most 64 KiB, and an odd character takes
/// six bytes of JSON for one of its own.
const PIECE: usize = 8 * 1024;

/// What the editor understands besides the basics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    pub notices: bool,
}

/// What has been shown of a session's turns.
#[derive(Debug)]
pub struct Updates {
    id: SessionId,
    session: String,
    cwd: PathBuf,
    features: Features,
    turn: Option<TurnId>,
    chunk: Option<Chunk>,
    /// What was shown of blocks that are not whole yet.
    unfinished: HashMap<BlockId, String>,
    tools: HashMap<ToolId, Tool>,
    /// The tools that people are asked about.
    asked: HashMap<angelia_core::model::ApprovalId, ToolId>,
    spent: Spent,
}

/// The beginning of the lines of one block.
#[derive(Debug)]
struct Chunk {
    block: BlockId,
    channel: TextChannel,
    head: Vec<u8>,
}

/// The end of such a line.
const CHUNK_END: &[u8] = b"}}}}\n";

/// A tool call that has been shown.
#[derive(Debug)]
struct Tool {
    class: ToolClass,
    input: RawJson,
    look: Look,
}

impl Updates {
    /// For one session, whose agent works in `cwd`.
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

    /// What the session's turns have cost before the first event.
    #[must_use]
    pub const fn having_spent(mut self, spent: Spent) -> Self {
        self.spent = spent;
        self
    }

    pub const fn spent(&self) -> Spent {
        self.spent
    }

    /// What the next event adds: nothing, a line, or several.
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
            // Of the session that this one was forked from, only what was said is part of it.
            EventKind::Finished(outcome) if event.session == self.id => {
                self.spent = self.spent.and(&outcome.usage);
            }
            EventKind::Started(_) | EventKind::Native { .. } | EventKind::Finished(_) => {}
        }
    }

    /// What the person said to begin a turn; shown when a conversation is loaded.
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

    /// Words of a conversation that happened elsewhere.
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

    /// The parameters of `session/request_permission` for the tool that an approval is about.
    pub(super) fn asked_about<'a>(&'a self, approval: &'a Approval) -> AskedTool<'a> {
        let tool = (approval.tool_id.as_ref()).and_then(|id| Some((id, self.tools.get(id)?)));
        let detail = vec![ToolContent::Content { content: Shown::text(&*approval.detail) }];
        match tool {
            Some((id, tool)) => AskedTool {
                tool_call_id: id.to_string(),
                title: &approval.title,
                kind: tool.look.kind,
                status: "pending",
                // The change itself says more than words about it.
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

    /// Blocks are counted within a turn.
    fn begin(&mut self, turn: TurnId) {
        if self.turn.replace(turn) != Some(turn) {
            self.chunk = None;
            self.unfinished.clear();
        }
    }

    /// The whole block is authoritative: what goes beyond its pieces is shown too.
    fn whole(&mut self, block: BlockId, channel: TextChannel, text: &str, out: &mut Vec<u8>) {
        let shown = self.unfinished.remove(&block).unwrap_or_default();
        if let Some(rest) = text.strip_prefix(&*shown) {
            self.text(block, channel, rest, out);
        } else if shown.trim() != text.trim() {
            // Withdrawn, or written differently in the end.
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
            // Neither a vector nor a text can refuse.
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
        // A change that was made speaks for itself.
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

    /// A tool that waited goes on; one that was refused says so with its result.
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
            /// Agents do not tell us any; the protocol wants one.
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

    /// One update as a line.
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
            // Our own types cannot refuse; half a line would be worse than none.
            Err(error) => tracing::error!(%error, "an update cannot be written"),
        }
    }
}

/// A text in pieces that are short enough for every editor.
fn pieces(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let (piece, rest) = text.split_at(text.floor_char_boundary(PIECE));
        text = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Editors read the content of tools as Markdown; output and files are none.
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

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
    Approval, BlockId, Content, EventKind, Notice, NoticeLevel, Plan, RawJson, Resolution,
    SessionId, TextChannel, ToolCall, ToolClass, ToolId, ToolResult, TurnEvent, TurnId, Usage,
};
use angelia_wire::jsonrpc::{VersionField, encode};
use serde::Serialize;

use super::{
    tool::ToolDisplay,
    unified_diff::parse_unified,
    update_json::{
        AngeliaMeta, ContentBlockJson, MessageChunk, ParentToolCall, PermissionToolCall,
        ToolCallUpdate, ToolContent, approval_tool_call_id,
    },
    usage_update::{self, SessionCost},
};
use crate::embedded_data::encode_base64;

const RESTART_NOTICE: &str = "\n\n[the text above was cut off; the answer begins anew]\n\n";

/// The limit on text in one line, in bytes. Some clients read lines of at most 64 KiB, and a
/// control character takes six bytes in JSON.
const MAX_TEXT_BYTES: usize = 8 * 1024;

/// Optional features of the editor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EditorFeatures {
    pub notices: bool,
}

/// Encodes the events of a session's turns, and remembers the text that it has encoded.
#[derive(Debug)]
pub struct UpdateEncoder {
    id: SessionId,
    session: String,
    cwd: PathBuf,
    features: EditorFeatures,
    turn: Option<TurnId>,
    block_prefix: Option<BlockPrefix>,
    /// The text sent so far for incomplete blocks.
    unfinished: HashMap<BlockId, String>,
    tools: HashMap<ToolId, OpenToolCall>,
    /// The tool calls of open approvals.
    approval_tools: HashMap<angelia_core::model::ApprovalId, ToolId>,
    cost: SessionCost,
}

/// The JSON before the text in the lines of one block.
#[derive(Debug)]
struct BlockPrefix {
    block: BlockId,
    channel: TextChannel,
    head: Vec<u8>,
}

/// The JSON after the text.
const CHUNK_END: &[u8] = b"}}}}\n";

/// A tool call that was sent but has no result yet.
#[derive(Debug)]
struct OpenToolCall {
    class: ToolClass,
    input: RawJson,
    display: ToolDisplay,
}

impl UpdateEncoder {
    /// Creates an encoder for a session whose agent works in `cwd`.
    pub fn new(session: SessionId, cwd: &Path, features: EditorFeatures) -> Self {
        Self {
            id: session,
            session: session.to_string(),
            cwd: cwd.to_owned(),
            features,
            turn: None,
            block_prefix: None,
            unfinished: HashMap::new(),
            tools: HashMap::new(),
            approval_tools: HashMap::new(),
            cost: SessionCost::UNKNOWN,
        }
    }

    /// Sets the cost of the session's turns before the first event.
    #[must_use]
    pub const fn with_cost(mut self, spent: SessionCost) -> Self {
        self.cost = spent;
        self
    }

    pub const fn cost(&self) -> SessionCost {
        self.cost
    }

    /// Encodes an event as no line, one line, or several.
    pub fn encode_event(&mut self, event: &TurnEvent, out: &mut Vec<u8>) {
        self.begin_turn(event.turn);
        match &event.kind {
            EventKind::Delta { block, channel, text } => {
                self.write_text(*block, *channel, text, out);
                self.unfinished.entry(*block).or_default().push_str(text);
            }
            EventKind::Block { block, channel, text } => {
                self.complete_block(*block, *channel, text, out);
            }
            EventKind::ToolCall(call) => self.tool_call(call, out),
            EventKind::ToolResult(result) => self.tool_result(result, out),
            EventKind::Plan(plan) => self.plan(plan, out),
            EventKind::Approval(approval) => {
                if let Some(tool) = &approval.tool_id {
                    self.approval_tools.insert(approval.id, tool.clone());
                }
            }
            EventKind::Resolved(resolution) => self.resolved(resolution, out),
            EventKind::Notice(notice) => self.notice(notice, out),
            EventKind::Usage(usage) => self.usage(event.session, usage, out),
            // Turns of a session that this one was forked from do not count towards its cost.
            EventKind::Finished(outcome) if event.session == self.id => {
                self.cost = self.cost.add_turn(&outcome.usage);
            }
            EventKind::Started(_) | EventKind::Native { .. } | EventKind::Finished(_) => {}
        }
    }

    /// Encodes the input of a turn, which is sent when a session is loaded.
    pub fn encode_input(&mut self, turn: TurnId, input: &[Content], out: &mut Vec<u8>) {
        self.begin_turn(turn);
        let id = format!("{turn}-input");
        for content in input {
            match content {
                Content::Text(text) => self.encode_history_text(true, &id, text, out),
                Content::Image { media_type, data } => {
                    let image = ContentBlockJson::Image {
                        mime_type: media_type,
                        data: encode_base64(data),
                    };
                    self.write_update(&MessageChunk::user(&id, image), out);
                }
            }
        }
    }

    /// Encodes text of a history that came from another client.
    pub fn encode_history_text(&self, from_user: bool, id: &str, text: &str, out: &mut Vec<u8>) {
        let update = if from_user { "user_message_chunk" } else { "agent_message_chunk" };
        for piece in split_text(text) {
            let chunk = MessageChunk {
                session_update: update,
                message_id: id,
                content: ContentBlockJson::text(piece),
            };
            self.write_update(&chunk, out);
        }
    }

    /// Returns the tool call for the `session/request_permission` of an approval.
    pub(super) fn permission_tool_call<'a>(
        &'a self,
        approval: &'a Approval,
    ) -> PermissionToolCall<'a> {
        let tool = (approval.tool_id.as_ref()).and_then(|id| Some((id, self.tools.get(id)?)));
        let diff = approval.diff.as_deref().map(|diff| parse_unified(diff, &self.cwd));
        let diff = diff.filter(|diff| !diff.hunks.is_empty());
        let shown = match (diff, &tool) {
            // A diff is more informative than the approval's detail.
            (Some(diff), _) => {
                let hunks = diff.hunks.into_iter().map(ToolContent::from);
                let note = |text: String| ContentBlockJson::text(text);
                let notes = diff.notes.into_iter().map(note);
                hunks.chain(notes.map(|content| ToolContent::Content { content })).collect()
            }
            (None, Some((_, tool))) if !tool.display.diffs.is_empty() => {
                tool.display.diffs.iter().map(Into::into).collect()
            }
            (None, _) => {
                vec![ToolContent::Content { content: ContentBlockJson::text(&*approval.detail) }]
            }
        };
        match tool {
            Some((id, tool)) => PermissionToolCall {
                tool_call_id: id.to_string(),
                title: &approval.title,
                kind: tool.display.kind,
                status: "pending",
                content: shown,
                locations: &tool.display.locations,
                raw_input: Some(&tool.input),
            },
            None => PermissionToolCall {
                tool_call_id: approval_tool_call_id(approval),
                title: &approval.title,
                kind: "other",
                status: "pending",
                content: shown,
                locations: &[],
                raw_input: None,
            },
        }
    }

    /// Forgets the blocks of the previous turn, because block ids are unique only within a turn.
    fn begin_turn(&mut self, turn: TurnId) {
        if self.turn.replace(turn) != Some(turn) {
            self.block_prefix = None;
            self.unfinished.clear();
        }
    }

    /// Encodes the missing part of a complete block. The block is authoritative over its deltas.
    fn complete_block(
        &mut self,
        block: BlockId,
        channel: TextChannel,
        text: &str,
        out: &mut Vec<u8>,
    ) {
        let shown = self.unfinished.remove(&block).unwrap_or_default();
        if let Some(rest) = text.strip_prefix(&*shown) {
            self.write_text(block, channel, rest, out);
        } else if shown.trim() != text.trim() {
            // The block was withdrawn, or its final text differs from its deltas.
            if channel == TextChannel::Answer {
                self.write_text(block, channel, RESTART_NOTICE, out);
            }
            self.write_text(block, channel, text, out);
        }
    }

    fn write_text(&mut self, block: BlockId, channel: TextChannel, text: &str, out: &mut Vec<u8>) {
        if text.is_empty() {
            return;
        }
        let known = (self.block_prefix.as_ref())
            .is_some_and(|chunk| chunk.block == block && chunk.channel == channel);
        if !known {
            self.block_prefix = Some(self.build_block_prefix(block, channel));
        }
        let Some(chunk) = &self.block_prefix else { return };
        for piece in split_text(text) {
            out.extend_from_slice(&chunk.head);
            // Writing a string to a vector cannot fail.
            let _infallible = serde_json::to_writer(&mut *out, piece);
            out.extend_from_slice(CHUNK_END);
        }
    }

    fn build_block_prefix(&self, block: BlockId, channel: TextChannel) -> BlockPrefix {
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
        BlockPrefix { block, channel, head: head.into_bytes() }
    }

    fn tool_call(&mut self, call: &ToolCall, out: &mut Vec<u8>) {
        let look = ToolDisplay::from_input(call.class, &call.input, &self.cwd);
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
            meta: (call.parent.as_ref()).map(|parent| AngeliaMeta {
                angelia: ParentToolCall { parent_tool_call_id: parent.as_str() },
            }),
        };
        self.write_update(&update, out);
        let tool = OpenToolCall { class: call.class, input: call.input.clone(), display: look };
        self.tools.insert(call.id.clone(), tool);
    }

    fn tool_result(&mut self, result: &ToolResult, out: &mut Vec<u8>) {
        let tool = self.tools.remove(&result.id);
        let diffs = tool.as_ref().map_or(&[][..], |tool| &*tool.display.diffs);
        let fenced;
        let mut content = Vec::new();
        // The diff of a successful change was sent with the call; the output adds nothing.
        if diffs.is_empty() || !result.ok {
            content.extend(diffs.iter().map(ToolContent::from));
            let class = tool.as_ref().map_or(ToolClass::Other, |tool| tool.class);
            if !result.output.trim().is_empty() {
                let text = match class {
                    ToolClass::Read | ToolClass::Execute => {
                        fenced = code_fence(&result.output);
                        &fenced
                    }
                    ToolClass::Edit | ToolClass::Other => &*result.output,
                };
                content.push(ToolContent::Content { content: ContentBlockJson::text(text) });
            }
        }
        let update = ToolCallUpdate {
            status: if result.ok { "completed" } else { "failed" },
            content: Some(content).filter(|content| !content.is_empty()),
            raw_output: Some(&result.output),
            ..ToolCallUpdate::running(result.id.as_str())
        };
        self.write_update(&update, out);
    }

    /// Reports an approved tool call as running again. A declined call is reported by its result.
    fn resolved(&mut self, resolution: &Resolution, out: &mut Vec<u8>) {
        if let Some(tool) = self.approval_tools.remove(&resolution.id)
            && resolution.verdict.allows()
            && self.tools.contains_key(&tool)
        {
            self.write_update(&ToolCallUpdate::running(tool.as_str()), out);
        }
    }

    fn plan(&self, plan: &Plan, out: &mut Vec<u8>) {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct PlanUpdate<'a> {
            session_update: &'static str,
            entries: Vec<PlanEntryJson<'a>>,
        }
        #[derive(Serialize)]
        struct PlanEntryJson<'a> {
            content: &'a str,
            /// Agents do not report a priority, but the protocol requires one.
            priority: &'static str,
            status: &'static str,
        }
        let entries = plan.items.iter().map(|item| PlanEntryJson {
            content: &item.text,
            priority: "medium",
            status: item.status.as_str(),
        });
        let update = PlanUpdate { session_update: "plan", entries: entries.collect() };
        self.write_update(&update, out);
    }

    fn usage(&self, session: SessionId, usage: &Usage, out: &mut Vec<u8>) {
        let before = if session == self.id { self.cost } else { SessionCost::UNKNOWN };
        if let Some(update) = usage_update::build_update(usage, before) {
            self.write_update(&update, out);
        }
    }

    fn notice(&self, notice: &Notice, out: &mut Vec<u8>) {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct NoticeUpdate<'a> {
            session_update: &'static str,
            severity: &'static str,
            title: &'a str,
            #[serde(rename = "_meta")]
            meta: AngeliaMeta<NoticeCode<'a>>,
        }
        #[derive(Serialize)]
        struct NoticeCode<'a> {
            code: &'a str,
        }
        if self.features.notices {
            let update = NoticeUpdate {
                session_update: "notice",
                severity: match notice.level {
                    NoticeLevel::Info => "info",
                    NoticeLevel::Warning => "warning",
                },
                title: &notice.text,
                meta: AngeliaMeta { angelia: NoticeCode { code: &notice.code } },
            };
            self.write_update(&update, out);
        }
    }

    /// Encodes an update as a line.
    pub(super) fn write_update<U: Serialize>(&self, update: &U, out: &mut Vec<u8>) {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Params<'a, U> {
            session_id: &'a str,
            update: &'a U,
        }
        let params = Params { session_id: &self.session, update };
        match encode::notification(VersionField::Include, "session/update", Some(&params)) {
            Ok(line) => out.extend_from_slice(&line),
            // Not expected for our own types. No line is better than half a line.
            Err(error) => tracing::error!(%error, "cannot serialize an update"),
        }
    }
}

/// Splits text into chunks that are short enough for every editor.
fn split_text(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let (piece, rest) = text.split_at(text.floor_char_boundary(MAX_TEXT_BYTES));
        text = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Puts text into a Markdown code fence, because editors render tool content as Markdown, but
/// output and files are plain text.
fn code_fence(text: &str) -> String {
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

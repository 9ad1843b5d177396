//! The state of the running turn.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use angelia_core::{
    model::{
        BlockId, ContextWindow, EventKind, RawJson, TextChannel, ToolCall, ToolId, ToolResult,
    },
    ports::{Activity, AgentEvent},
};

use super::{emit_event, text::TextBlocks};
use crate::codex::{failure::ReportedError, patch::PatchSummary, usage::TokenTotals};

/// How much of a command's output is kept, in case its end is never reported.
const MAX_OUTPUT_BYTES: usize = 64 * 1024;

/// The thread and turn of an item (empty for the main ones), and the item's id.
pub(super) type ItemKey = (Box<str>, Box<str>);

#[derive(Debug, Default)]
pub(super) struct CodexTurn {
    /// The app-server's id for the turn, once it is known.
    pub(super) id: Option<Box<str>>,
    pub(super) started: bool,
    /// The number of our messages that the app-server has not echoed yet.
    expected_echoes: usize,
    echoed_items: HashSet<Box<str>>,
    next_block: BlockId,
    pub(super) texts: TextBlocks,
    pub(super) tools: CodexToolCalls,
    activity: Option<Activity>,
    pub(super) usage: TokenTotals,
    /// How full the context of the thread itself is, never that of a sub-agent.
    pub(super) context_window: Option<ContextWindow>,
    pub(super) error: Option<ReportedError>,
    pub(super) login_hint_given: bool,
    pub(super) compacted: bool,
    /// The latest combined diff of this turn.
    pub(super) diff: Option<RawJson>,
    /// The last message that could be the answer.
    pub(super) answer: Option<Arc<str>>,
    /// Questions that do not wait for an answer in this turn.
    pub(super) questions: Vec<Arc<str>>,
}

impl CodexTurn {
    pub(super) fn new() -> Self {
        Self { expected_echoes: 1, ..Self::default() }
    }

    pub(super) fn expect_echo(&mut self) {
        self.expected_echoes += 1;
    }

    /// Reports whether a user message is the echo of one that we sent.
    pub(super) fn is_own_message(&mut self, item: &str) -> bool {
        if self.echoed_items.contains(item) {
            return true;
        }
        let own = self.expected_echoes > 0;
        if own {
            self.expected_echoes -= 1;
            self.echoed_items.insert(item.into());
        }
        own
    }

    pub(super) fn new_block(&mut self) -> BlockId {
        let block = self.next_block;
        self.next_block += 1;
        block
    }

    pub(super) fn set_activity(&mut self, activity: Activity, out: &mut Vec<AgentEvent>) {
        if self.activity != Some(activity) {
            self.activity = Some(activity);
            out.push(AgentEvent::Activity(activity));
        }
    }

    /// Ends the activity of a retry or a compaction, because the model is working again.
    pub(super) fn resume_activity(&mut self, out: &mut Vec<AgentEvent>) {
        if matches!(self.activity, Some(Activity::Retrying | Activity::Compacting)) {
            self.set_activity(Activity::WaitingForModel, out);
        }
    }
}

/// The tool calls of a turn: the running ones, and the ids that are taken.
#[derive(Debug, Default)]
pub(super) struct CodexToolCalls {
    open: Vec<RunningToolCall>,
    /// How often each item id was used; item ids may repeat.
    item_uses: HashMap<Box<str>, usize>,
    ids: HashSet<ToolId>,
}

#[derive(Debug)]
pub(super) struct RunningToolCall {
    pub(super) key: ItemKey,
    pub(super) call: ToolCall,
    /// Set once the `ToolCall` event was emitted.
    pub(super) is_emitted: bool,
    pub(super) detail: ToolCallDetail,
    output: String,
}

/// The details of a tool call that its approval shows.
#[derive(Debug)]
pub(super) enum ToolCallDetail {
    Command { cwd: Option<Box<str>> },
    Patch(PatchSummary),
    Mcp { server: Box<str>, tool: Box<str>, read_only: bool },
    CallerTool,
    Other,
}

impl ToolCallDetail {
    /// Reports whether an MCP server declares that its tool changes nothing.
    pub(super) fn is_read_only(&self) -> bool {
        matches!(self, Self::Mcp { read_only: true, .. })
    }
}

impl CodexToolCalls {
    /// Returns an id that no other tool call of the turn has: the item's own id if it is free.
    fn assign_id(&mut self, item: &str) -> ToolId {
        let count = self.item_uses.entry(item.into()).or_insert(0);
        loop {
            *count += 1;
            let id = match *count {
                1 => ToolId::new(item),
                more => ToolId::new(format!("{item}#{more}")),
            };
            if self.ids.insert(id.clone()) {
                return id;
            }
        }
    }

    pub(super) fn contains_id(&self, id: &ToolId) -> bool {
        self.ids.contains(id)
    }

    pub(super) fn has_ended(&self, key: &ItemKey) -> bool {
        self.item_uses.contains_key(&key.1) && self.find(key).is_none()
    }

    pub(super) fn open(
        &mut self,
        key: ItemKey,
        mut call: ToolCall,
        about: ToolCallDetail,
    ) -> &mut RunningToolCall {
        call.id = self.assign_id(&key.1);
        self.open.push_mut(RunningToolCall {
            key,
            call,
            is_emitted: false,
            detail: about,
            output: String::new(),
        })
    }

    pub(super) fn find(&self, key: &ItemKey) -> Option<&RunningToolCall> {
        self.open.iter().find(|open| open.key == *key)
    }

    pub(super) fn find_mut(&mut self, key: &ItemKey) -> Option<&mut RunningToolCall> {
        self.open.iter_mut().find(|open| open.key == *key)
    }

    pub(super) fn running(&self) -> impl Iterator<Item = &RunningToolCall> {
        self.open.iter()
    }

    pub(super) fn close(
        &mut self,
        key: &ItemKey,
        ok: bool,
        output: String,
        out: &mut Vec<AgentEvent>,
    ) {
        if let Some(at) = self.open.iter().position(|open| open.key == *key) {
            let mut open = self.open.remove(at);
            open.emit_call(out);
            emit_tool_result(open.call.id, ok, output, out);
        }
    }

    /// Closes all calls at the end of the turn. With `ran_on`, commands may run on in the
    /// background.
    pub(super) fn close_all(&mut self, why: &str, ran_on: bool, out: &mut Vec<AgentEvent>) {
        for mut open in self.open.drain(..) {
            open.emit_call(out);
            let goes_on = ran_on && matches!(open.detail, ToolCallDetail::Command { .. });
            let why = if goes_on { "still running in the background" } else { why };
            let output = if open.output.is_empty() {
                why.to_owned()
            } else {
                let line = if open.output.ends_with('\n') { "" } else { "\n" };
                format!("{}{line}[{why}]", open.output)
            };
            emit_tool_result(open.call.id, goes_on, output, out);
        }
    }
}

impl RunningToolCall {
    pub(super) fn emit_call(&mut self, out: &mut Vec<AgentEvent>) {
        if !std::mem::replace(&mut self.is_emitted, true) {
            emit_event(EventKind::ToolCall(self.call.clone()), out);
        }
    }

    pub(super) fn append_output(&mut self, more: &str) {
        let room = MAX_OUTPUT_BYTES.saturating_sub(self.output.len());
        self.output.push_str(&more[..more.floor_char_boundary(room)]);
    }
}

fn emit_tool_result(id: ToolId, ok: bool, output: String, out: &mut Vec<AgentEvent>) {
    emit_event(EventKind::ToolResult(ToolResult::new(id, ok, output)), out);
}

pub(super) fn emit_block(
    block: BlockId,
    channel: TextChannel,
    text: Arc<str>,
    out: &mut Vec<AgentEvent>,
) {
    emit_event(EventKind::Block { block, channel, text }, out);
}

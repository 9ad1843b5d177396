//! Handles items: text goes to `text`, most others are tool calls, and some have a special meaning.

use angelia_core::{
    model::{NoticeLevel, ToolCall, ToolId},
    ports::{Activity, AgentEvent, AgentOutcome},
};
use serde_json::value::RawValue;

use super::{
    CodexTranslator, MessageOwner, emit_native, emit_notice,
    text::is_abort_marker,
    turn::{ItemKey, RunningToolCall, ToolCallDetail},
};
use crate::codex::{
    patch::PatchSummary,
    protocol::{
        item::{ItemParams, ThreadItem},
        notification::NotificationParams,
    },
    tool,
};

/// Whether an item has started or completed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ItemPhase {
    Started,
    Completed,
}

impl ItemPhase {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Started => "item/started",
            Self::Completed => "item/completed",
        }
    }
}

/// A parsed item, with the facts that identify its owner.
struct ItemNotification<'a> {
    phase: ItemPhase,
    params: &'a RawValue,
    raw: &'a RawValue,
    item: ThreadItem<'a>,
    id: &'a str,
    key: ItemKey,
    /// The tool call that started the sub-agent to which the item belongs.
    parent: Option<ToolId>,
}

impl ItemNotification<'_> {
    fn emit_native(&self, out: &mut Vec<AgentEvent>) {
        let name = format!("{}/{}", self.phase.as_str(), self.item.kind());
        emit_native(&name, self.params, out);
    }
}

impl CodexTranslator {
    pub(super) fn on_item_started(
        &mut self,
        params: &RawValue,
        out: &mut Vec<AgentEvent>,
    ) -> Option<AgentOutcome> {
        self.handle_item(ItemPhase::Started, params, out)
    }

    pub(super) fn on_item_completed(
        &mut self,
        params: &RawValue,
        out: &mut Vec<AgentEvent>,
    ) -> Option<AgentOutcome> {
        self.handle_item(ItemPhase::Completed, params, out)
    }

    fn handle_item(
        &mut self,
        end: ItemPhase,
        params: &RawValue,
        out: &mut Vec<AgentEvent>,
    ) -> Option<AgentOutcome> {
        let Ok(parsed) = serde_json::from_str::<ItemParams<'_>>(params.get()) else {
            emit_native(end.as_str(), params, out);
            return None;
        };
        let item = ThreadItem::parse(parsed.item);
        let whose = self.owner_of(&parsed.thread_id, &parsed.turn_id);
        let Some(id) = item.id.as_str().map(str::to_owned) else {
            emit_native(&format!("{}/{}", end.as_str(), item.kind()), params, out);
            return None;
        };
        let thread = parsed.thread_id.as_str().unwrap_or_default();
        let scope = match whose {
            MessageOwner::SubAgent => {
                format!("{thread}/{}", parsed.turn_id.as_str().unwrap_or_default())
            }
            _ => String::new(),
        };
        let told = ItemNotification {
            phase: end,
            params,
            raw: parsed.item,
            item,
            id: &id,
            key: (scope.into(), id.as_str().into()),
            parent: self.sub_agents.parent_call(thread).cloned(),
        };
        match whose {
            MessageOwner::OurTurn => return self.handle_own_item(&told, out),
            MessageOwner::SubAgent => self.handle_sub_agent_item(&told, out),
            MessageOwner::PastTurn => self.handle_late_item(&told, out),
            MessageOwner::Unknown => told.emit_native(out),
        }
        None
    }

    fn handle_own_item(
        &mut self,
        told: &ItemNotification<'_>,
        out: &mut Vec<AgentEvent>,
    ) -> Option<AgentOutcome> {
        let item = &told.item;
        match item.kind() {
            "userMessage" => return self.handle_user_message(told, out),
            "agentMessage" | "plan" | "exitedReviewMode" => {
                if told.phase == ItemPhase::Started {
                    self.on_text_started(told.id, out);
                    return None;
                }
                if item.text.as_str().is_some_and(is_abort_marker) {
                    told.emit_native(out);
                    return self.end_aborted(out);
                }
                if !self.on_text_completed(told.id, item, out) {
                    told.emit_native(out);
                }
            }
            "reasoning" if told.phase == ItemPhase::Started => self.on_text_started(told.id, out),
            "reasoning" => {
                if !self.on_reasoning_completed(told.id, item, out) {
                    told.emit_native(out);
                }
            }
            "contextCompaction" => self.handle_compaction(told.phase, out),
            "subAgentActivity" => {
                if let Some(thread) = item.agent_thread_id.as_str() {
                    self.sub_agents.register(thread, None);
                }
                told.emit_native(out);
            }
            _ => self.handle_tool_item(told, out),
        }
        None
    }

    /// Ignores the echo of our own message. Any other user message may say that the turn was
    /// aborted.
    fn handle_user_message(
        &mut self,
        told: &ItemNotification<'_>,
        out: &mut Vec<AgentEvent>,
    ) -> Option<AgentOutcome> {
        let turn = self.turn.as_mut()?;
        if told.item.client_id.as_str().is_some() || turn.is_own_message(told.id) {
            return None;
        }
        told.emit_native(out);
        let texts = told.item.texts();
        let aborted = texts.first().is_some_and(|text| is_abort_marker(text));
        if aborted { self.end_aborted(out) } else { None }
    }

    fn handle_compaction(&mut self, end: ItemPhase, out: &mut Vec<AgentEvent>) {
        let Some(turn) = self.turn.as_mut() else {
            return;
        };
        match end {
            ItemPhase::Started => {
                turn.set_activity(Activity::Compacting, out);
                let text = "the agent shortens its history";
                emit_notice(NoticeLevel::Info, "compacting", text, out);
            }
            ItemPhase::Completed => {
                turn.resume_activity(out);
                turn.compacted = true;
                emit_notice(
                    NoticeLevel::Info,
                    "compacted",
                    "the agent has shortened its history",
                    out,
                );
            }
        }
    }

    fn handle_tool_item(&mut self, told: &ItemNotification<'_>, out: &mut Vec<AgentEvent>) {
        let Some(described) = tool::describe(&told.item, told.raw) else {
            return told.emit_native(out);
        };
        let Some(turn) = self.turn.as_mut() else {
            return;
        };
        turn.resume_activity(out);
        let parent = (told.parent.clone()).filter(|parent| turn.tools.contains_id(parent));
        let call = ToolCall {
            id: ToolId::new(told.id),
            name: described.name,
            class: described.class,
            input: described.input,
            title: described.title,
            parent,
        };
        let tools = &mut turn.tools;
        let is_open = tools.find(&told.key).is_some();
        match told.phase {
            // The `item/tool/call` request for a caller's tool may arrive before its item.
            ItemPhase::Started if is_open => {
                let open = tools.find(&told.key);
                if !open.is_some_and(|open| matches!(open.detail, ToolCallDetail::CallerTool)) {
                    told.emit_native(out);
                }
                return;
            }
            ItemPhase::Started => {
                turn.texts.withdraw_abandoned(out);
                let open = tools.open(told.key.clone(), call, call_detail(&told.item));
                if !is_title_deferred(&told.item) {
                    open.emit_call(out);
                }
            }
            ItemPhase::Completed if !is_open && tools.has_ended(&told.key) => {
                return told.emit_native(out);
            }
            ItemPhase::Completed => {
                if !is_open {
                    tools.open(told.key.clone(), call.clone(), call_detail(&told.item));
                }
                let (ok, output) = tool::outcome(&told.item);
                if let Some(open) = tools.find_mut(&told.key) {
                    open.update(call);
                }
                tools.close(&told.key, ok, output, out);
            }
        }
        self.register_sub_agents(told);
    }

    /// Registers the sub-agent threads that a tool call has started.
    fn register_sub_agents(&mut self, told: &ItemNotification<'_>) {
        let Some(turn) = self.turn.as_ref() else {
            return;
        };
        let call = (turn.tools.find(&told.key))
            .map_or_else(|| ToolId::new(told.id), |open| open.call.id.clone());
        for thread in told.item.receiver_thread_ids.0.iter().flatten() {
            if **thread != *self.context.thread.as_str() {
                self.sub_agents.register(thread, Some(call.clone()));
            }
        }
    }

    fn handle_sub_agent_item(&mut self, told: &ItemNotification<'_>, out: &mut Vec<AgentEvent>) {
        match told.item.kind() {
            "agentMessage" | "userMessage" | "reasoning" | "plan"
                if told.phase == ItemPhase::Started => {}
            _ if tool::describe(&told.item, told.raw).is_some() => self.handle_tool_item(told, out),
            kind => {
                let name = format!("sub-agent/{}/{kind}", told.phase.as_str());
                emit_native(&name, told.params, out);
            }
        }
    }

    /// Reports a command of an earlier turn that outlived that turn.
    fn handle_late_item(&mut self, told: &ItemNotification<'_>, out: &mut Vec<AgentEvent>) {
        if self.turn.is_some() {
            told.emit_native(out);
        }
        if told.phase == ItemPhase::Started {
            return;
        }
        if let Some(described) = tool::describe(&told.item, told.raw) {
            let how = match (tool::outcome(&told.item).0, told.item.exit_code.get()) {
                (true, _) => "has ended".to_owned(),
                (false, Some(code)) => format!("has failed with exit code {code}"),
                (false, None) => "has failed".to_owned(),
            };
            let text = format!("work left running by an earlier turn {how}: {}", described.title);
            self.notify(NoticeLevel::Info, "background", text, out);
        }
    }

    /// Keeps the output of a running tool, in case its end is never reported.
    pub(super) fn on_output_delta(&mut self, params: &RawValue) {
        let common = NotificationParams::parse(params);
        if let Some(open) = self.find_open_call(&common)
            && let Some(delta) = common.delta.as_str()
        {
            open.append_output(delta);
        }
    }

    /// Updates the patch that an approval shows.
    pub(super) fn on_patch_updated(&mut self, params: &RawValue) {
        let common = NotificationParams::parse(params);
        let changes = PatchSummary::parse(common.changes);
        if let Some(open) = self.find_open_call(&common)
            && let ToolCallDetail::Patch(known) = &mut open.detail
            && !changes.is_empty()
        {
            *known = changes;
        }
    }

    fn find_open_call(&mut self, common: &NotificationParams<'_>) -> Option<&mut RunningToolCall> {
        let id = common.item_id.as_str()?;
        let turn = self.turn.as_mut()?;
        let ours = turn.id.as_deref() == common.turn_id.as_str();
        let key = ("".into(), id.into());
        turn.tools.find_mut(&key).filter(|_| ours)
    }
}

impl RunningToolCall {
    /// Adds details that were not known when the call started.
    fn update(&mut self, call: ToolCall) {
        if !self.is_emitted {
            let id = self.call.id.clone();
            self.call = ToolCall { id, ..call };
        }
    }
}

fn call_detail(item: &ThreadItem<'_>) -> ToolCallDetail {
    match item.kind() {
        "commandExecution" => ToolCallDetail::Command { cwd: item.cwd.as_str().map(Into::into) },
        "fileChange" => ToolCallDetail::Patch(PatchSummary::parse(item.changes)),
        "mcpToolCall" => ToolCallDetail::Mcp {
            server: item.server.as_str().unwrap_or_default().into(),
            tool: item.tool.as_str().unwrap_or_default().into(),
            read_only: item.read_only_hint.get() == Some(true),
        },
        "dynamicToolCall" => ToolCallDetail::CallerTool,
        _ => ToolCallDetail::Other,
    }
}

/// Reports whether an item's title is known only when it completes, as for a web search.
fn is_title_deferred(item: &ThreadItem<'_>) -> bool {
    item.kind() == "webSearch" && tool::search_query(item).is_none()
}

//! `assistant` and `user` lines: whole blocks, tool calls and their results.
//!
//! Each `assistant` line holds a finished block of the model's message and is authoritative. Lines
//! of sub-agents name the tool call that they work for: their own calls are shown under that call,
//! and their text is not part of the answer.

use std::fmt::Write as _;

use angelia_core::{
    model::{EventKind, Plan, TextChannel, ToolCall, ToolId, ToolResult},
    ports::AgentEvent,
};
use serde_json::value::RawValue;

use super::{
    StreamTranslator, TurnOwner, emit_event, emit_native, emit_native_line, turn::CliApiError,
};
use crate::claude::{
    protocol::incoming::{
        CliBlock, CliContent, Lenient, MessageLine, MessageUuids, SYNTHETIC_MODEL,
    },
    tool::{self, ToolInput},
};

/// The start of the user message that the CLI writes when a turn is interrupted.
const INTERRUPTED_PREFIX: &str = "[Request interrupted by user";

/// The text that the CLI writes for a local command without output.
const NO_CONTENT: &str = "(no content)";

impl StreamTranslator {
    /// Confirms the turn if the line names our message, which means that the CLI is working on it.
    pub(super) fn confirm_by_line(&mut self, line: &str, out: &mut Vec<AgentEvent>) {
        let Some(turn) = &self.turn else { return };
        if turn.confirmed {
            return;
        }
        self.confirm_if_named(&serde_json::from_str(line).unwrap_or_default(), out);
    }

    pub(super) fn confirm_if_named(&mut self, uuids: &MessageUuids<'_>, out: &mut Vec<AgentEvent>) {
        let turn = self.turn.as_ref().filter(|turn| !turn.confirmed);
        if turn.is_some_and(|turn| turn.is_named_in(uuids)) {
            self.confirm_turn(out);
        }
    }

    pub(super) fn confirm_turn(&mut self, out: &mut Vec<AgentEvent>) {
        let folded = self.turn_owner == TurnOwner::Foreign;
        let Some(turn) = self.turn.as_mut() else {
            return;
        };
        turn.confirmed = true;
        if folded {
            turn.folded = true;
            self.turn_owner = TurnOwner::Ours;
            self.emit_started(out);
        }
    }

    pub(super) fn on_assistant(&mut self, line: &str, out: &mut Vec<AgentEvent>) {
        let Ok(mut parsed) = serde_json::from_str::<MessageLine<'_>>(line) else {
            return emit_native_line("assistant", line, out);
        };
        let uuids = parsed.take_uuids();
        let MessageLine {
            message: Lenient(Some(message)),
            parent_tool_use_id,
            timestamp,
            error,
            api_error_status,
            api_error,
            ..
        } = parsed
        else {
            return emit_native_line("assistant", line, out);
        };
        self.confirm_if_named(&uuids, out);
        let Some(turn) = self.our_turn() else {
            return emit_native_line("assistant", line, out);
        };
        turn.record_time(timestamp.as_str());
        let content = CliContent::parse(message.content);
        if let Some(parent) = parent_tool_use_id.as_str() {
            return self.on_subagent(parent, content, line, out);
        }
        if let Some(error) = error.as_str() {
            // Not the model's text: it becomes the failure's message if the turn fails.
            turn.refused |= message.stop_reason.as_str() == Some("refusal");
            turn.error = Some(CliApiError {
                error: error.into(),
                status: api_error_status.get(),
                code: api_error.as_str().map(Into::into),
            });
            return emit_native_line("assistant/error", line, out);
        }
        turn.resume_activity(out);
        let synthetic = message.model.as_str() == Some(SYNTHETIC_MODEL);
        if !synthetic {
            self.stream.record_unstreamed_usage(&message);
        }
        let id = message.id.as_str();
        let blocks = match content {
            CliContent::Text(text) => return self.settle_text(id, TextChannel::Answer, &text, out),
            CliContent::Blocks(blocks) => blocks,
        };
        for (raw, block) in &blocks {
            match (block.kind.as_str(), block.text.as_str(), block.thinking.as_str()) {
                (Some("text"), Some(NO_CONTENT), _) if synthetic => {
                    emit_native_line("assistant/synthetic", line, out);
                }
                (Some("text"), Some(text), _) => {
                    self.settle_text(id, TextChannel::Answer, text, out);
                }
                (Some("thinking"), _, Some(text)) => {
                    self.settle_text(id, TextChannel::Reasoning, text, out);
                }
                (Some("tool_use"), ..) => self.emit_tool_call(id, None, raw, block, out),
                (kind, ..) => {
                    let name = format!("assistant/{}", kind.unwrap_or("unknown"));
                    emit_native(&name, raw, out);
                }
            }
        }
    }

    fn settle_text(
        &mut self,
        message: Option<&str>,
        channel: TextChannel,
        text: &str,
        out: &mut Vec<AgentEvent>,
    ) {
        if let Some(turn) = self.turn.as_mut() {
            self.stream.settle(message, channel, text, turn, out);
        }
    }

    fn on_subagent(
        &mut self,
        parent: &str,
        content: CliContent<'_>,
        line: &str,
        out: &mut Vec<AgentEvent>,
    ) {
        let CliContent::Blocks(blocks) = content else {
            return emit_native_line("assistant/subagent", line, out);
        };
        let is_call = |block: &CliBlock<'_>| block.kind.as_str() == Some("tool_use");
        for (raw, block) in blocks.iter().filter(|(_, block)| is_call(block)) {
            self.emit_tool_call(None, Some(ToolId::new(parent)), raw, block, out);
        }
        if !blocks.iter().all(|(_, block)| is_call(block)) {
            emit_native_line("assistant/subagent", line, out);
        }
    }

    fn emit_tool_call(
        &mut self,
        message: Option<&str>,
        parent: Option<ToolId>,
        raw: &RawValue,
        block: &CliBlock<'_>,
        out: &mut Vec<AgentEvent>,
    ) {
        let (Some(turn), Some(id), Some(name)) =
            (self.turn.as_mut(), block.id.as_str(), block.name.as_str())
        else {
            return emit_native("assistant/tool_use", raw, out);
        };
        let id = ToolId::new(id);
        if parent.is_none() {
            self.stream.add_tool(message, &id, turn, out);
        }
        if !turn.open_tool(&id) {
            return emit_native("assistant/tool_use", raw, out);
        }
        let input = block.input.unwrap_or(RawValue::NULL);
        let plan = (parent.is_none())
            .then(|| self.todo_list.apply_call(name, id.as_str(), input))
            .flatten();
        let call = ToolCall {
            id,
            name: name.into(),
            class: tool::tool_class(name),
            input: input.to_owned().into(),
            title: ToolInput::parse(input).title(name),
            parent,
        };
        emit_event(EventKind::ToolCall(call), out);
        if let Some(items) = plan {
            emit_event(EventKind::Plan(Plan { items }), out);
        }
    }

    pub(super) fn on_user(&mut self, line: &str, out: &mut Vec<AgentEvent>) {
        let Ok(parsed) = serde_json::from_str::<MessageLine<'_>>(line) else {
            return emit_native_line("user", line, out);
        };
        let content =
            CliContent::parse(parsed.message.0.as_ref().and_then(|message| message.content));
        if parsed.is_replay.get() == Some(true) {
            return self.on_replay(&parsed, &content, line, out);
        }
        if parsed.is_synthetic.get() == Some(true) {
            return emit_native_line("user/synthetic", line, out);
        }
        let Some(turn) = self.our_turn() else {
            return emit_native_line("user", line, out);
        };
        turn.record_time(parsed.timestamp.as_str());
        let main = parsed.parent_tool_use_id.0.is_none();
        let mut words = matches!(content, CliContent::Text(_));
        if let CliContent::Blocks(blocks) = &content {
            for (raw, block) in blocks {
                match (block.kind.as_str(), block.tool_use_id.as_str()) {
                    (Some("tool_result"), Some(id)) => {
                        self.emit_tool_result(id, raw, block, parsed.tool_use_result, main, out);
                    }
                    _ => words |= !(main && is_interruption(block)),
                }
            }
            words |= blocks.is_empty();
        }
        if words {
            emit_native_line(if main { "user" } else { "user/subagent" }, line, out);
        }
    }

    fn on_replay(
        &mut self,
        parsed: &MessageLine<'_>,
        content: &CliContent<'_>,
        line: &str,
        out: &mut Vec<AgentEvent>,
    ) {
        let ours = self
            .turn
            .as_ref()
            .is_some_and(|turn| !turn.confirmed && parsed.uuid.as_str() == Some(&*turn.uuid));
        if ours {
            self.confirm_turn(out);
        }
        // The output of local commands also arrives as a replayed user message.
        if matches!(content, CliContent::Text(text) if text.starts_with("<local-command-")) {
            emit_native_line("user/local_command", line, out);
        }
    }

    fn emit_tool_result(
        &mut self,
        id: &str,
        raw: &RawValue,
        block: &CliBlock<'_>,
        detail: Option<&RawValue>,
        main: bool,
        out: &mut Vec<AgentEvent>,
    ) {
        let id = ToolId::new(id);
        if main {
            self.tasks.record_tool_result();
            self.todo_list.apply_result(id.as_str(), detail);
        }
        if !self.turn.as_mut().is_some_and(|turn| turn.close_tool(&id)) {
            return emit_native("user/tool_result", raw, out);
        }
        let result = ToolResult::new(
            id,
            block.is_error.get() != Some(true),
            tool_output_text(block.content),
        );
        emit_event(EventKind::ToolResult(result), out);
    }
}

fn is_interruption(block: &CliBlock<'_>) -> bool {
    block.text.as_str().is_some_and(|text| text.starts_with(INTERRUPTED_PREFIX))
}

/// Returns the text of a tool's result. Other blocks appear as their type in brackets.
fn tool_output_text(content: Option<&RawValue>) -> String {
    let blocks = match CliContent::parse(content) {
        CliContent::Text(text) => return text.0.into_owned(),
        CliContent::Blocks(blocks) => blocks,
    };
    let mut output = String::new();
    for (_, block) in &blocks {
        if !output.is_empty() {
            output.push('\n');
        }
        match (block.kind.as_str(), block.text.as_str()) {
            (Some("text"), Some(text)) => output.push_str(text),
            (kind, _) => {
                let _infallible = write!(output, "[{}]", kind.unwrap_or("unknown"));
            }
        }
    }
    output
}

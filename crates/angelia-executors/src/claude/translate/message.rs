//! `assistant` and `user` lines: whole blocks, tool calls and their results.
//!
//! Each `assistant` line holds a finished block of the model's message and is authoritative. Lines
//! of sub-agents name the tool call they work for: their own calls are shown under it, and their
//! text is not part of the answer.

use std::fmt::Write as _;

use angelia_core::{
    model::{EventKind, Plan, TextChannel, ToolCall, ToolId, ToolResult},
    ports::Emitted,
};
use serde_json::value::RawValue;

use super::{Running, Translator, event, native, native_raw, turn::ApiError};
use crate::claude::{
    protocol::incoming::{Block, Content, MessageLine, SYNTHETIC, Soft, Uuids},
    tool::{self, Input},
};

/// The start of the user message that the CLI writes when a turn is interrupted.
const INTERRUPTED: &str = "[Request interrupted by user";

/// The text that the CLI writes for a local command without output.
const NO_CONTENT: &str = "(no content)";

impl Translator {
    /// Confirms the turn if the line names our message, because then the CLI is working on it.
    pub(super) fn see_uuids(&mut self, line: &str, out: &mut Vec<Emitted>) {
        let Some(turn) = &self.turn else { return };
        if turn.confirmed {
            return;
        }
        self.see_named(&serde_json::from_str(line).unwrap_or_default(), out);
    }

    pub(super) fn see_named(&mut self, uuids: &Uuids<'_>, out: &mut Vec<Emitted>) {
        let turn = self.turn.as_ref().filter(|turn| !turn.confirmed);
        if turn.is_some_and(|turn| turn.is_named_in(uuids)) {
            self.confirm(out);
        }
    }

    pub(super) fn confirm(&mut self, out: &mut Vec<Emitted>) {
        let folded = self.running == Running::Foreign;
        let Some(turn) = self.turn.as_mut() else {
            return;
        };
        turn.confirmed = true;
        if folded {
            turn.folded = true;
            self.running = Running::Ours;
            self.start(out);
        }
    }

    pub(super) fn assistant(&mut self, line: &str, out: &mut Vec<Emitted>) {
        let Ok(mut parsed) = serde_json::from_str::<MessageLine<'_>>(line) else {
            return native("assistant", line, out);
        };
        let uuids = parsed.uuids();
        let MessageLine {
            message: Soft(Some(message)),
            parent_tool_use_id,
            timestamp,
            error,
            api_error_status,
            api_error,
            ..
        } = parsed
        else {
            return native("assistant", line, out);
        };
        self.see_named(&uuids, out);
        let Some(turn) = self.ours() else {
            return native("assistant", line, out);
        };
        turn.see_time(timestamp.as_str());
        let content = Content::parse(message.content);
        if let Some(parent) = parent_tool_use_id.as_str() {
            return self.subagent(parent, content, line, out);
        }
        if let Some(error) = error.as_str() {
            // Not text of the model: it becomes the failure's message, if the turn fails.
            turn.refused |= message.stop_reason.as_str() == Some("refusal");
            turn.error = Some(ApiError {
                error: error.into(),
                status: api_error_status.get(),
                code: api_error.as_str().map(Into::into),
            });
            return native("assistant/error", line, out);
        }
        turn.back_to_work(out);
        let synthetic = message.model.as_str() == Some(SYNTHETIC);
        if !synthetic {
            self.stream.see_whole(&message);
        }
        let id = message.id.as_str();
        let blocks = match content {
            Content::Text(text) => return self.text(id, TextChannel::Answer, &text, out),
            Content::Blocks(blocks) => blocks,
        };
        for (raw, block) in &blocks {
            match (block.kind.as_str(), block.text.as_str(), block.thinking.as_str()) {
                (Some("text"), Some(NO_CONTENT), _) if synthetic => {
                    native("assistant/synthetic", line, out);
                }
                (Some("text"), Some(text), _) => self.text(id, TextChannel::Answer, text, out),
                (Some("thinking"), _, Some(text)) => {
                    self.text(id, TextChannel::Reasoning, text, out);
                }
                (Some("tool_use"), ..) => self.tool_call(id, None, raw, block, out),
                (kind, ..) => {
                    let name = format!("assistant/{}", kind.unwrap_or("unknown"));
                    native_raw(&name, raw, out);
                }
            }
        }
    }

    fn text(
        &mut self,
        message: Option<&str>,
        channel: TextChannel,
        text: &str,
        out: &mut Vec<Emitted>,
    ) {
        if let Some(turn) = self.turn.as_mut() {
            self.stream.settle(message, channel, text, turn, out);
        }
    }

    fn subagent(&mut self, parent: &str, content: Content<'_>, line: &str, out: &mut Vec<Emitted>) {
        let Content::Blocks(blocks) = content else {
            return native("assistant/subagent", line, out);
        };
        let is_call = |block: &Block<'_>| block.kind.as_str() == Some("tool_use");
        for (raw, block) in blocks.iter().filter(|(_, block)| is_call(block)) {
            self.tool_call(None, Some(ToolId::new(parent)), raw, block, out);
        }
        if !blocks.iter().all(|(_, block)| is_call(block)) {
            native("assistant/subagent", line, out);
        }
    }

    fn tool_call(
        &mut self,
        message: Option<&str>,
        parent: Option<ToolId>,
        raw: &RawValue,
        block: &Block<'_>,
        out: &mut Vec<Emitted>,
    ) {
        let (Some(turn), Some(id), Some(name)) =
            (self.turn.as_mut(), block.id.as_str(), block.name.as_str())
        else {
            return native_raw("assistant/tool_use", raw, out);
        };
        let id = ToolId::new(id);
        if parent.is_none() {
            self.stream.tool(message, &id, turn, out);
        }
        if !turn.open_tool(&id) {
            return native_raw("assistant/tool_use", raw, out);
        }
        let input = block.input.unwrap_or(RawValue::NULL);
        let plan = (parent.is_none()).then(|| self.todo.call(name, id.as_str(), input)).flatten();
        let call = ToolCall {
            id,
            name: name.into(),
            class: tool::class(name),
            input: input.to_owned().into(),
            title: Input::parse(input).title(name),
            parent,
        };
        event(EventKind::ToolCall(call), out);
        if let Some(items) = plan {
            event(EventKind::Plan(Plan { items }), out);
        }
    }

    pub(super) fn user(&mut self, line: &str, out: &mut Vec<Emitted>) {
        let Ok(parsed) = serde_json::from_str::<MessageLine<'_>>(line) else {
            return native("user", line, out);
        };
        let content = Content::parse(parsed.message.0.as_ref().and_then(|message| message.content));
        if parsed.is_replay.get() == Some(true) {
            return self.replay(&parsed, &content, line, out);
        }
        if parsed.is_synthetic.get() == Some(true) {
            return native("user/synthetic", line, out);
        }
        let Some(turn) = self.ours() else {
            return native("user", line, out);
        };
        turn.see_time(parsed.timestamp.as_str());
        let main = parsed.parent_tool_use_id.0.is_none();
        let mut words = matches!(content, Content::Text(_));
        if let Content::Blocks(blocks) = &content {
            for (raw, block) in blocks {
                match (block.kind.as_str(), block.tool_use_id.as_str()) {
                    (Some("tool_result"), Some(id)) => {
                        self.tool_result(id, raw, block, parsed.tool_use_result, main, out);
                    }
                    _ => words |= !(main && is_interrupted(block)),
                }
            }
            words |= blocks.is_empty();
        }
        if words {
            native(if main { "user" } else { "user/subagent" }, line, out);
        }
    }

    fn replay(
        &mut self,
        parsed: &MessageLine<'_>,
        content: &Content<'_>,
        line: &str,
        out: &mut Vec<Emitted>,
    ) {
        let ours = self
            .turn
            .as_ref()
            .is_some_and(|turn| !turn.confirmed && parsed.uuid.as_str() == Some(&*turn.uuid));
        if ours {
            self.confirm(out);
        }
        // The output of local commands also arrives as a replayed user message.
        if matches!(content, Content::Text(text) if text.starts_with("<local-command-")) {
            native("user/local_command", line, out);
        }
    }

    fn tool_result(
        &mut self,
        id: &str,
        raw: &RawValue,
        block: &Block<'_>,
        detail: Option<&RawValue>,
        main: bool,
        out: &mut Vec<Emitted>,
    ) {
        let id = ToolId::new(id);
        if main {
            self.tasks.tool_finished();
            self.todo.result(id.as_str(), detail);
        }
        if !self.turn.as_mut().is_some_and(|turn| turn.close_tool(&id)) {
            return native_raw("user/tool_result", raw, out);
        }
        let result = ToolResult {
            id,
            ok: block.is_error.get() != Some(true),
            output: output(block.content).into(),
        };
        event(EventKind::ToolResult(result), out);
    }
}

fn is_interrupted(block: &Block<'_>) -> bool {
    block.text.as_str().is_some_and(|text| text.starts_with(INTERRUPTED))
}

/// Returns the text of a tool's result; other blocks appear as their type in brackets.
fn output(content: Option<&RawValue>) -> String {
    let blocks = match Content::parse(content) {
        Content::Text(text) => return text.0.into_owned(),
        Content::Blocks(blocks) => blocks,
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

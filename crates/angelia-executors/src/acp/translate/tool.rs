//! Tool calls. The protocol reports them in parts and in any order, and not every agent sends all
//! parts: a call may first appear in its permission request, or only when it has ended.
//!
//! A call that was only announced is held back until more is known, because its event is emitted
//! only once.

use std::{collections::HashMap, path::PathBuf, sync::Arc};

use angelia_core::{
    model::{EventKind, FileEdit, RawJson, ToolAccess, ToolCall, ToolClass, ToolId, ToolResult},
    ports::AgentEvent,
};
use serde_json::{Value, value::RawValue};

use super::emit_event;
use crate::{
    acp::protocol::{
        incoming::{AcpToolInput, ToolCallFields, tool_class},
        outgoing::to_raw,
    },
    truncation::first_line,
};

/// The output of a declined call if the agent sends none.
const DECLINED_OUTPUT: &str = "declined";
/// The output of a call that was still running at the end of the turn.
const NO_RESULT_OUTPUT: &str = "the turn ended before its result was known";

#[derive(Debug, Default)]
pub(super) struct AcpToolCalls {
    calls: Vec<AcpToolCall>,
    /// Terminal output, by terminal id.
    terminals: HashMap<Box<str>, Arc<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallState {
    Announced,
    Running,
    Done,
}

/// The state of one tool call.
#[derive(Debug)]
pub(super) struct AcpToolCall {
    /// The agent's id for the call, which the agent may reuse for a later call.
    native_id: Box<str>,
    pub(super) id: ToolId,
    name: Option<Arc<str>>,
    kind: Option<Box<str>>,
    title: Option<Box<str>>,
    input: Option<RawJson>,
    pub(super) paths: Vec<Box<str>>,
    /// The file changes that the call makes.
    edits: Vec<FileEdit>,
    /// Text content that arrived before the call ran.
    description: Option<String>,
    output: CallOutput,
    state: CallState,
    /// Set if the approval for the call was denied.
    declined: bool,
}

/// The output of a call so far.
#[derive(Debug, Default)]
struct CallOutput {
    raw: Option<RawJson>,
    text: Option<String>,
    terminals: Vec<Box<str>>,
}

impl AcpToolCalls {
    fn index(&self, native: &str) -> Option<usize> {
        self.calls.iter().rposition(|tool| *tool.native_id == *native)
    }

    /// Returns the index of the call with this id. Adds a call if there is none, or if `is_new` is
    /// set and the last call with this id has ended.
    fn find_or_add(&mut self, native: &str, is_new: bool) -> usize {
        if let Some(at) = self.index(native)
            && !(is_new && self.calls[at].state == CallState::Done)
        {
            return at;
        }
        let before = self.calls.iter().filter(|tool| *tool.native_id == *native).count();
        let id = match before {
            0 => ToolId::new(native),
            _ => ToolId::new(format!("{native}#{}", before + 1)),
        };
        self.calls.push(AcpToolCall::new(native, id));
        self.calls.len() - 1
    }

    pub(super) fn contains(&self, native: &str) -> bool {
        self.index(native).is_some()
    }

    pub(super) fn has_announced(&self) -> bool {
        self.calls.iter().any(|tool| tool.state == CallState::Announced)
    }

    /// Applies a `tool_call` (`is_new`) or a `tool_call_update`.
    pub(super) fn apply_update(
        &mut self,
        native: &str,
        fields: &ToolCallFields<'_>,
        is_new: bool,
        out: &mut Vec<AgentEvent>,
    ) {
        let at = self.find_or_add(native, is_new);
        let tool = &mut self.calls[at];
        if tool.state == CallState::Done {
            return;
        }
        tool.update(fields);
        let status = fields.status.as_str();
        let is_announced = is_new && matches!(status, None | Some("pending"));
        let is_over = matches!(status, Some("completed" | "failed" | "cancelled"));
        // Text before the call runs describes it; text that arrives with its end is output.
        if tool.state == CallState::Announced && !is_over {
            tool.move_text_to_description();
        }
        if !is_announced {
            tool.start(out);
        }
        match status {
            Some("completed") => self.finish(at, true, out),
            Some("failed" | "cancelled") => self.finish(at, false, out),
            _ => {}
        }
    }

    /// Applies the tool call of a permission request, and shows the call before its approval.
    pub(super) fn apply_permission_request(
        &mut self,
        native: &str,
        fields: &ToolCallFields<'_>,
        out: &mut Vec<AgentEvent>,
    ) -> &AcpToolCall {
        let at = self.find_or_add(native, true);
        let tool = &mut self.calls[at];
        tool.update(fields);
        tool.move_text_to_description();
        tool.start(out);
        tool
    }

    pub(super) fn mark_declined(&mut self, id: &ToolId) {
        if let Some(tool) = self.calls.iter_mut().find(|tool| tool.id == *id) {
            tool.declined = true;
        }
    }

    /// Updates the other calls when the agent starts another action: shows announced calls as
    /// running, and finishes declined calls.
    pub(super) fn advance_others(&mut self, except: Option<&str>, out: &mut Vec<AgentEvent>) {
        for at in 0..self.calls.len() {
            if except.is_some_and(|native| *self.calls[at].native_id == *native) {
                continue;
            }
            if self.calls[at].declined {
                self.finish(at, false, out);
            } else if self.calls[at].state == CallState::Announced {
                self.calls[at].start(out);
            }
        }
    }

    pub(super) fn set_terminal_output(&mut self, terminal: &str, text: &str) {
        self.terminals.insert(terminal.into(), text.into());
    }

    /// Finishes every call at the end of the turn.
    pub(super) fn finish_all(&mut self, out: &mut Vec<AgentEvent>) {
        for at in 0..self.calls.len() {
            self.calls[at].start(out);
            self.finish(at, false, out);
        }
    }

    pub(super) fn native_ids(&self) -> impl Iterator<Item = &str> {
        self.calls.iter().map(|tool| &*tool.native_id)
    }

    fn finish(&mut self, at: usize, ok: bool, out: &mut Vec<AgentEvent>) {
        let tool = &mut self.calls[at];
        if tool.state != CallState::Running {
            return;
        }
        tool.state = CallState::Done;
        let output = tool.output.render(&self.terminals).unwrap_or_else(|| {
            let words = match (ok, tool.declined) {
                (true, _) => "",
                (false, true) => DECLINED_OUTPUT,
                (false, false) => NO_RESULT_OUTPUT,
            };
            words.into()
        });
        let result = ToolResult::new(tool.id.clone(), ok, output);
        emit_event(EventKind::ToolResult(result), out);
    }
}

impl AcpToolCall {
    fn new(native: &str, id: ToolId) -> Self {
        Self {
            native_id: native.into(),
            id,
            name: None,
            kind: None,
            title: None,
            input: None,
            paths: Vec::new(),
            edits: Vec::new(),
            description: None,
            output: CallOutput::default(),
            state: CallState::Announced,
            declined: false,
        }
    }

    fn update(&mut self, fields: &ToolCallFields<'_>) {
        if let Some(name) = fields.tool_name() {
            self.name = Some(name.into());
        }
        if let Some(kind) = fields.kind.as_str() {
            self.kind = Some(kind.into());
        }
        if let Some(title) = fields.title.as_str().filter(|title| !title.trim().is_empty()) {
            self.title = Some(title.into());
        }
        // A later update may carry an empty input; keep the earlier one then.
        if let Some(input) = fields.raw_input
            && (self.input.is_none() || entry_count(input) > 0)
        {
            self.input = Some(input.to_owned().into());
        }
        for path in fields.paths() {
            if !self.paths.iter().any(|known| **known == *path) {
                self.paths.push(path.into());
            }
        }
        if let Some(edits) = fields.file_edits() {
            self.edits = edits;
        }
        self.output.update(fields);
    }

    fn start(&mut self, out: &mut Vec<AgentEvent>) {
        if self.state != CallState::Announced {
            return;
        }
        self.state = CallState::Running;
        let call = ToolCall {
            id: self.id.clone(),
            name: self.name(),
            class: self.class(),
            input: self.input(),
            title: self.title(),
            parent: None,
        };
        emit_event(EventKind::ToolCall(call), out);
    }

    /// Returns the agent's own name for the tool, or else the protocol's kind.
    pub(super) fn name(&self) -> Arc<str> {
        let kind = || self.kind.as_deref().filter(|kind| !kind.trim().is_empty());
        match &self.name {
            Some(name) => Arc::clone(name),
            None => kind().unwrap_or("other").into(),
        }
    }

    pub(super) fn class(&self) -> ToolClass {
        tool_class(self.kind.as_deref())
    }

    pub(super) fn input(&self) -> RawJson {
        match &self.input {
            Some(input) => Arc::clone(input),
            None => RawJson::from(to_raw(&Value::Object(serde_json::Map::new()))),
        }
    }

    pub(super) fn command(&self) -> Option<String> {
        if self.class() != ToolClass::Execute {
            return None;
        }
        let told = self.input.as_ref().and_then(|raw| AcpToolInput::parse(raw).command());
        told.or_else(|| {
            let title = self.title.as_deref()?.trim();
            let quoted = title.strip_prefix('`').and_then(|rest| rest.strip_suffix('`'));
            Some(quoted.unwrap_or(title).to_owned())
        })
    }

    /// Returns the paths and the command that the call touches. They come from the agent's
    /// structured fields, never from display text.
    pub(super) fn access(&self) -> ToolAccess {
        let input = self.input.as_ref().map(|raw| AcpToolInput::parse(raw)).unwrap_or_default();
        let paths = self.paths.iter().map(|path| &**path).chain(input.paths());
        let mut paths: Vec<PathBuf> = paths.map(PathBuf::from).collect();
        paths.dedup();
        let mut access = ToolAccess::default();
        match (self.class(), self.kind.as_deref()) {
            (ToolClass::Read, _) => access.reads = paths,
            (ToolClass::Edit, _) | (_, Some("move")) => access.writes = paths,
            (ToolClass::Execute, _) => access.command = input.command_access(),
            (ToolClass::Other, _) => {}
        }
        access.cwd = input.cwd().map(PathBuf::from);
        access
    }

    /// Returns the text that patterns with a subject match against: the command, the only path, or
    /// the URL.
    pub(super) fn subject(&self) -> Option<Arc<str>> {
        if let Some(command) = self.command() {
            return Some(command.into());
        }
        let access = self.access();
        match (&*access.reads, &*access.writes) {
            ([path], []) | ([], [path]) => return Some(path.to_string_lossy().into()),
            ([], []) => {}
            _ => return None,
        }
        let input = self.input.as_ref().map(|raw| AcpToolInput::parse(raw))?;
        input.url().map(Arc::from)
    }

    /// Returns the first line of the title, or else the name.
    pub(super) fn title(&self) -> Arc<str> {
        let line = self.title.as_deref().and_then(first_line);
        line.map_or_else(|| self.name(), Into::into)
    }

    /// Moves text that arrived before the call ran from its output to its description.
    fn move_text_to_description(&mut self) {
        self.description = self.output.text.take().or_else(|| self.description.take());
    }

    pub(super) fn edits(&self) -> &[FileEdit] {
        &self.edits
    }

    pub(super) fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }
}

impl CallOutput {
    fn update(&mut self, fields: &ToolCallFields<'_>) {
        if let Some(output) = fields.raw_output {
            self.raw = Some(output.to_owned().into());
        }
        let Some(content) = fields.content() else {
            return;
        };
        let mut text = String::new();
        self.terminals.clear();
        for one in content {
            if let Some(words) = one.text() {
                if !text.is_empty() && !text.ends_with('\n') {
                    text.push('\n');
                }
                text.push_str(words);
            }
            if let Some(terminal) = one.terminal_id.as_str() {
                self.terminals.push(terminal.into());
            }
        }
        self.text = Some(text);
    }

    fn render(&self, terminals: &HashMap<Box<str>, Arc<str>>) -> Option<Arc<str>> {
        let raw: Option<Value> =
            (self.raw.as_ref()).and_then(|raw| serde_json::from_str(raw.get()).ok());
        let words = raw.as_ref().and_then(|raw| {
            let fields = ["output", "error", "stdout"];
            raw.as_str().or_else(|| fields.iter().find_map(|field| raw.get(field)?.as_str()))
        });
        if let Some(words) = words {
            return Some(words.into());
        }
        let told = self.terminals.iter().filter_map(|id| terminals.get(id));
        let told: Vec<&str> = told.map(|text| &**text).collect();
        let text = self.text.as_deref().filter(|text| !text.is_empty());
        if text.is_some() || !told.is_empty() {
            let all: Vec<&str> = text.into_iter().chain(told).collect();
            return Some(all.join("\n").into());
        }
        let raw = self.raw.as_ref()?;
        (raw.get() != "null").then(|| raw.get().into())
    }
}

/// Returns the number of entries in an object or an array; other values count as 1.
fn entry_count(raw: &RawValue) -> usize {
    match serde_json::from_str(raw.get()) {
        Ok(Value::Object(map)) => map.len(),
        Ok(Value::Array(list)) => list.len(),
        _ => 1,
    }
}

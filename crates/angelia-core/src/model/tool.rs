//! Tool calls of an agent, as shown to viewers.

use std::sync::Arc;

use super::{RawJson, ToolId};

/// What a tool does to the machine. Permissions and renderers use the class, never the tool's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ToolClass {
    Read,
    Edit,
    Execute,
    Other,
}

impl ToolClass {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Edit => "edit",
            Self::Execute => "execute",
            Self::Other => "other",
        }
    }
}

/// The start of a tool call.
#[derive(Clone, Debug)]
pub struct ToolCall {
    pub id: ToolId,
    pub name: Arc<str>,
    pub class: ToolClass,
    pub input: RawJson,
    /// One line for people: the command, the path, the query.
    pub title: Arc<str>,
    /// The tool call whose sub-agent made this one.
    pub parent: Option<ToolId>,
}

/// The end of a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult {
    pub id: ToolId,
    pub ok: bool,
    pub output: Arc<str>,
    /// A unified diff of an edit that was allowed without asking a person; otherwise the approval
    /// has the diff. Set by the engine.
    pub diff: Option<Arc<str>>,
}

impl ToolResult {
    pub fn new(id: ToolId, ok: bool, output: impl Into<Arc<str>>) -> Self {
        Self { id, ok, output: output.into(), diff: None }
    }
}

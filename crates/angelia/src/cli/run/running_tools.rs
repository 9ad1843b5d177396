//! The tool calls that have not ended yet.

use angelia_core::model::{ToolCall, ToolClass, ToolId};
use jiff::Timestamp;

#[derive(Debug, Default)]
pub(crate) struct RunningTools(Vec<RunningTool>);

#[derive(Debug)]
pub(crate) struct RunningTool {
    id: ToolId,
    pub(crate) title: String,
    pub(crate) began_at: Timestamp,
}

impl RunningTools {
    pub(crate) fn begin(&mut self, call: &ToolCall, at: Timestamp) {
        let indent = if call.parent.is_some() { "  " } else { "" };
        // Most titles already begin with the tool's name; a command line does not.
        let title = match call.class {
            ToolClass::Execute if !call.title.starts_with(&*call.name) => {
                format!("{indent}{} {}", call.name, call.title)
            }
            _ => format!("{indent}{}", call.title),
        };
        self.0.push(RunningTool { id: call.id.clone(), title, began_at: at });
    }

    /// Removes a tool that has ended.
    pub(crate) fn end(&mut self, id: &ToolId) -> Option<RunningTool> {
        let place = self.0.iter().position(|tool| tool.id == *id)?;
        Some(self.0.remove(place))
    }

    pub(crate) fn take_all(&mut self) -> Vec<RunningTool> {
        std::mem::take(&mut self.0)
    }

    /// Returns the title of the tool that started last, and the number of others.
    pub(crate) fn label(&self) -> Option<String> {
        let last = self.0.last()?.title.trim_start();
        Some(match self.0.len() - 1 {
            0 => last.to_owned(),
            others => format!("{last} (and {others} more)"),
        })
    }
}

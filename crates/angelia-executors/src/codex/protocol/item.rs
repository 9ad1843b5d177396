//! Items of a thread. One struct serves all item types: absent fields are empty, and the common
//! fields can be read from an unknown type too.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::lenient::{Soft, Text};

/// `item/started` and `item/completed`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ItemParams<'a> {
    #[serde(borrow, default)]
    pub(crate) thread_id: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) turn_id: Soft<Text<'a>>,
    #[serde(borrow)]
    pub(crate) item: &'a RawValue,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Item<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(crate) kind: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) id: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) status: Soft<Text<'a>>,

    // Text.
    #[serde(borrow, default)]
    pub(crate) text: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) phase: Soft<Text<'a>>,
    /// `async`: a question that does not wait for its answer.
    #[serde(borrow, default)]
    pub(crate) delivery: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) review: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) summary: Soft<Vec<Text<'a>>>,
    /// A list of texts for reasoning, a list of parts for a user's message.
    #[serde(borrow, default)]
    pub(crate) content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) client_id: Soft<Text<'a>>,

    // Commands.
    #[serde(borrow, default)]
    pub(crate) command: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) cwd: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) aggregated_output: Soft<Text<'a>>,
    #[serde(default)]
    pub(crate) exit_code: Soft<i64>,

    // Patches.
    #[serde(borrow, default)]
    pub(crate) changes: Option<&'a RawValue>,

    // MCP, the caller's tools, sub-agents.
    #[serde(borrow, default)]
    pub(crate) server: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) tool: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) result: Soft<ToolOutput<'a>>,
    #[serde(borrow, default)]
    pub(crate) error: Soft<ToolError<'a>>,
    #[serde(borrow, default)]
    pub(crate) content_items: Soft<Vec<Part<'a>>>,
    #[serde(default)]
    pub(crate) success: Soft<bool>,
    #[serde(borrow, default)]
    pub(crate) prompt: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) receiver_thread_ids: Soft<Vec<Text<'a>>>,
    #[serde(borrow, default)]
    pub(crate) agent_thread_id: Soft<Text<'a>>,

    // The rest.
    #[serde(borrow, default)]
    pub(crate) query: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) action: Soft<SearchAction<'a>>,
    #[serde(borrow, default)]
    pub(crate) path: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) revised_prompt: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) saved_path: Soft<Text<'a>>,
    #[serde(default)]
    pub(crate) duration_ms: Soft<u64>,
}

impl<'a> Item<'a> {
    pub(crate) fn parse(raw: &'a RawValue) -> Self {
        serde_json::from_str(raw.get()).unwrap_or_default()
    }

    pub(crate) fn kind(&self) -> &str {
        self.kind.as_str().unwrap_or("unknown")
    }

    /// Returns the texts of a list of texts, or of a list of parts with a text.
    pub(crate) fn texts(&self) -> Vec<Text<'a>> {
        let Some(raw) = self.content.map(RawValue::get) else {
            return Vec::new();
        };
        if let Ok(texts) = serde_json::from_str::<Vec<Text<'a>>>(raw) {
            return texts;
        }
        let parts: Vec<Part<'a>> = serde_json::from_str(raw).unwrap_or_default();
        parts.into_iter().filter_map(|part| part.text.0).collect()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolOutput<'a> {
    #[serde(borrow, default)]
    pub(crate) content: Soft<Vec<Part<'a>>>,
    #[serde(borrow, default)]
    pub(crate) structured_content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(crate) struct ToolError<'a> {
    #[serde(borrow, default)]
    pub(crate) message: Soft<Text<'a>>,
}

/// One part of a message or of a tool's output.
#[derive(Deserialize)]
pub(crate) struct Part<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(crate) kind: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) text: Soft<Text<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct SearchAction<'a> {
    #[serde(borrow, default)]
    pub(crate) query: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) queries: Soft<Vec<Text<'a>>>,
    #[serde(borrow, default)]
    pub(crate) url: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) pattern: Soft<Text<'a>>,
}

/// One file of a patch. For an `add`, `diff` is the file's content.
#[derive(Deserialize)]
pub(crate) struct Change<'a> {
    #[serde(borrow, default)]
    pub(crate) path: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) kind: Soft<ChangeKind<'a>>,
    #[serde(borrow, default)]
    pub(crate) diff: Soft<Text<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct ChangeKind<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(crate) kind: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) move_path: Soft<Text<'a>>,
}

pub(crate) fn changes(raw: Option<&RawValue>) -> Vec<Change<'_>> {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

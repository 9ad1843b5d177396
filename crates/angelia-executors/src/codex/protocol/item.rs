//! Items of a thread. One struct serves all item types: absent fields are empty, and the common
//! fields can be read from an unknown type too.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::lenient::{BorrowedStr, Lenient};

/// `item/started` and `item/completed`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ItemParams<'a> {
    #[serde(borrow, default)]
    pub(crate) thread_id: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) turn_id: Lenient<BorrowedStr<'a>>,
    #[serde(borrow)]
    pub(crate) item: &'a RawValue,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ThreadItem<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(crate) kind: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) id: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) status: Lenient<BorrowedStr<'a>>,

    // Text.
    #[serde(borrow, default)]
    pub(crate) text: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) phase: Lenient<BorrowedStr<'a>>,
    /// `async`: a question that does not wait for its answer.
    #[serde(borrow, default)]
    pub(crate) delivery: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) review: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) summary: Lenient<Vec<BorrowedStr<'a>>>,
    /// A list of texts for reasoning, a list of parts for a user's message.
    #[serde(borrow, default)]
    pub(crate) content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) client_id: Lenient<BorrowedStr<'a>>,

    // Commands.
    #[serde(borrow, default)]
    pub(crate) command: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) cwd: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) aggregated_output: Lenient<BorrowedStr<'a>>,
    #[serde(default)]
    pub(crate) exit_code: Lenient<i64>,

    // Patches.
    #[serde(borrow, default)]
    pub(crate) changes: Option<&'a RawValue>,

    // MCP, the caller's tools, sub-agents.
    #[serde(borrow, default)]
    pub(crate) server: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) tool: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) result: Lenient<McpToolResult<'a>>,
    #[serde(borrow, default)]
    pub(crate) error: Lenient<ToolError<'a>>,
    #[serde(borrow, default)]
    pub(crate) content_items: Lenient<Vec<ItemPart<'a>>>,
    #[serde(default)]
    pub(crate) success: Lenient<bool>,
    #[serde(borrow, default)]
    pub(crate) prompt: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) receiver_thread_ids: Lenient<Vec<BorrowedStr<'a>>>,
    #[serde(borrow, default)]
    pub(crate) agent_thread_id: Lenient<BorrowedStr<'a>>,

    // The rest.
    #[serde(borrow, default)]
    pub(crate) query: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) action: Lenient<SearchAction<'a>>,
    #[serde(borrow, default)]
    pub(crate) path: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) revised_prompt: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) saved_path: Lenient<BorrowedStr<'a>>,
    #[serde(default)]
    pub(crate) duration_ms: Lenient<u64>,
}

impl<'a> ThreadItem<'a> {
    pub(crate) fn parse(raw: &'a RawValue) -> Self {
        serde_json::from_str(raw.get()).unwrap_or_default()
    }

    pub(crate) fn kind(&self) -> &str {
        self.kind.as_str().unwrap_or("unknown")
    }

    /// Returns the texts of a list of texts, or of a list of parts with a text.
    pub(crate) fn texts(&self) -> Vec<BorrowedStr<'a>> {
        let Some(raw) = self.content.map(RawValue::get) else {
            return Vec::new();
        };
        if let Ok(texts) = serde_json::from_str::<Vec<BorrowedStr<'a>>>(raw) {
            return texts;
        }
        let parts: Vec<ItemPart<'a>> = serde_json::from_str(raw).unwrap_or_default();
        parts.into_iter().filter_map(|part| part.text.0).collect()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct McpToolResult<'a> {
    #[serde(borrow, default)]
    pub(crate) content: Lenient<Vec<ItemPart<'a>>>,
    #[serde(borrow, default)]
    pub(crate) structured_content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(crate) struct ToolError<'a> {
    #[serde(borrow, default)]
    pub(crate) message: Lenient<BorrowedStr<'a>>,
}

/// One part of a message or of a tool's output.
#[derive(Deserialize)]
pub(crate) struct ItemPart<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(crate) kind: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) text: Lenient<BorrowedStr<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct SearchAction<'a> {
    #[serde(borrow, default)]
    pub(crate) query: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) queries: Lenient<Vec<BorrowedStr<'a>>>,
    #[serde(borrow, default)]
    pub(crate) url: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) pattern: Lenient<BorrowedStr<'a>>,
}

/// One file of a patch. For an `add`, `diff` is the file's content.
#[derive(Deserialize)]
pub(crate) struct FileUpdateChange<'a> {
    #[serde(borrow, default)]
    pub(crate) path: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) kind: Lenient<PatchChangeKind<'a>>,
    #[serde(borrow, default)]
    pub(crate) diff: Lenient<BorrowedStr<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct PatchChangeKind<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(crate) kind: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) move_path: Lenient<BorrowedStr<'a>>,
}

pub(crate) fn parse_changes(raw: Option<&RawValue>) -> Vec<FileUpdateChange<'_>> {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

//! The items of a thread. One struct serves all item types: absent fields are empty, and the common
//! fields are readable even for an unknown type.

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
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(crate) struct ThreadItem<'a> {
    #[serde(rename = "type")]
    pub(crate) kind: Lenient<BorrowedStr<'a>>,
    pub(crate) id: Lenient<BorrowedStr<'a>>,
    pub(crate) status: Lenient<BorrowedStr<'a>>,

    // Text.
    pub(crate) text: Lenient<BorrowedStr<'a>>,
    pub(crate) phase: Lenient<BorrowedStr<'a>>,
    /// `async` for a question that does not wait for its answer.
    pub(crate) delivery: Lenient<BorrowedStr<'a>>,
    pub(crate) review: Lenient<BorrowedStr<'a>>,
    pub(crate) summary: Lenient<Vec<BorrowedStr<'a>>>,
    /// A list of texts for reasoning, a list of parts for a user's message.
    pub(crate) content: Option<&'a RawValue>,
    pub(crate) client_id: Lenient<BorrowedStr<'a>>,

    // Commands.
    pub(crate) command: Lenient<BorrowedStr<'a>>,
    pub(crate) cwd: Lenient<BorrowedStr<'a>>,
    pub(crate) aggregated_output: Lenient<BorrowedStr<'a>>,
    pub(crate) exit_code: Lenient<i64>,

    // Patches.
    pub(crate) changes: Option<&'a RawValue>,

    // MCP, the caller's tools, sub-agents.
    pub(crate) server: Lenient<BorrowedStr<'a>>,
    pub(crate) tool: Lenient<BorrowedStr<'a>>,
    /// Whether the MCP server declares that the tool changes nothing.
    pub(crate) read_only_hint: Lenient<bool>,
    pub(crate) arguments: Option<&'a RawValue>,
    pub(crate) result: Lenient<McpToolResult<'a>>,
    pub(crate) error: Lenient<ToolError<'a>>,
    pub(crate) content_items: Lenient<Vec<ItemPart<'a>>>,
    pub(crate) success: Lenient<bool>,
    pub(crate) prompt: Lenient<BorrowedStr<'a>>,
    pub(crate) receiver_thread_ids: Lenient<Vec<BorrowedStr<'a>>>,
    pub(crate) agent_thread_id: Lenient<BorrowedStr<'a>>,

    // Other items.
    pub(crate) query: Lenient<BorrowedStr<'a>>,
    pub(crate) action: Lenient<SearchAction<'a>>,
    pub(crate) path: Lenient<BorrowedStr<'a>>,
    pub(crate) revised_prompt: Lenient<BorrowedStr<'a>>,
    pub(crate) saved_path: Lenient<BorrowedStr<'a>>,
    pub(crate) duration_ms: Lenient<u64>,
}

impl<'a> ThreadItem<'a> {
    pub(crate) fn parse(raw: &'a RawValue) -> Self {
        serde_json::from_str(raw.get()).unwrap_or_default()
    }

    pub(crate) fn kind(&self) -> &str {
        self.kind.as_str().unwrap_or("unknown")
    }

    /// Returns the texts of the content, which is a list of texts or of parts with a text.
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

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(crate) struct McpToolResult<'a> {
    pub(crate) content: Lenient<Vec<ItemPart<'a>>>,
    pub(crate) structured_content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(crate) struct ToolError<'a> {
    #[serde(borrow, default)]
    pub(crate) message: Lenient<BorrowedStr<'a>>,
}

/// One part of a message or of a tool's output.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(crate) struct ItemPart<'a> {
    #[serde(rename = "type")]
    pub(crate) kind: Lenient<BorrowedStr<'a>>,
    pub(crate) text: Lenient<BorrowedStr<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(crate) struct SearchAction<'a> {
    pub(crate) query: Lenient<BorrowedStr<'a>>,
    pub(crate) queries: Lenient<Vec<BorrowedStr<'a>>>,
    pub(crate) url: Lenient<BorrowedStr<'a>>,
    pub(crate) pattern: Lenient<BorrowedStr<'a>>,
}

/// One file of a patch. For an `add`, `diff` is the file's content.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(crate) struct FileUpdateChange<'a> {
    pub(crate) path: Lenient<BorrowedStr<'a>>,
    pub(crate) kind: Lenient<PatchChangeKind<'a>>,
    pub(crate) diff: Lenient<BorrowedStr<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(crate) struct PatchChangeKind<'a> {
    #[serde(rename = "type")]
    pub(crate) kind: Lenient<BorrowedStr<'a>>,
    pub(crate) move_path: Lenient<BorrowedStr<'a>>,
}

pub(crate) fn parse_changes(raw: Option<&RawValue>) -> Vec<FileUpdateChange<'_>> {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

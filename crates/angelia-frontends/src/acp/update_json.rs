//! The JSON types of updates. They borrow their data, so that nothing is copied.

use std::{borrow::Cow, path::Path};

use angelia_core::model::Approval;
use serde::Serialize;
use serde_json::value::RawValue;

use super::tool::{Diff, ToolLocation};

/// Angelia's part of `_meta`.
#[derive(Serialize)]
pub(super) struct AngeliaMeta<T> {
    pub(super) angelia: T,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ParentToolCall<'a> {
    pub(super) parent_tool_call_id: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MessageChunk<'a> {
    pub(super) session_update: &'static str,
    pub(super) message_id: &'a str,
    pub(super) content: ContentBlockJson<'a>,
}

impl<'a> MessageChunk<'a> {
    pub(super) fn user(message_id: &'a str, content: ContentBlockJson<'a>) -> Self {
        Self { session_update: "user_message_chunk", message_id, content }
    }
}

/// A content block.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(super) enum ContentBlockJson<'a> {
    Text { text: Cow<'a, str> },
    Image { mime_type: &'a str, data: String },
}

impl<'a> ContentBlockJson<'a> {
    pub(super) fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text { text: text.into() }
    }
}

/// An item of a tool call's content.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(super) enum ToolContent<'a> {
    Content { content: ContentBlockJson<'a> },
    Diff { path: Cow<'a, Path>, old_text: Option<Cow<'a, str>>, new_text: Cow<'a, str> },
}

impl<'a> From<&'a Diff> for ToolContent<'a> {
    fn from(diff: &'a Diff) -> Self {
        Self::Diff {
            path: Cow::Borrowed(&diff.path),
            old_text: diff.old.as_deref().map(Cow::Borrowed),
            new_text: Cow::Borrowed(&diff.new),
        }
    }
}

impl From<Diff> for ToolContent<'_> {
    fn from(Diff { path, old, new }: Diff) -> Self {
        Self::Diff {
            path: Cow::Owned(path),
            old_text: old.map(Cow::Owned),
            new_text: Cow::Owned(new),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolCallUpdate<'a> {
    pub(super) session_update: &'static str,
    pub(super) tool_call_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<&'static str>,
    pub(super) status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) content: Option<Vec<ToolContent<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) locations: Option<&'a [ToolLocation]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) raw_input: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) raw_output: Option<&'a str>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub(super) meta: Option<AngeliaMeta<ParentToolCall<'a>>>,
}

impl<'a> ToolCallUpdate<'a> {
    /// Returns an update that only says that the tool is running.
    pub(super) fn running(tool_call_id: &'a str) -> Self {
        Self {
            session_update: "tool_call_update",
            tool_call_id,
            title: None,
            name: None,
            kind: None,
            status: "in_progress",
            content: None,
            locations: None,
            raw_input: None,
            raw_output: None,
            meta: None,
        }
    }
}

/// The tool call of a permission request.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PermissionToolCall<'a> {
    pub(super) tool_call_id: String,
    pub(super) title: &'a str,
    pub(super) kind: &'static str,
    pub(super) status: &'static str,
    pub(super) content: Vec<ToolContent<'a>>,
    pub(super) locations: &'a [ToolLocation],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) raw_input: Option<&'a RawValue>,
}

impl<'a> PermissionToolCall<'a> {
    /// Presents one of the agent's questions as a tool call.
    pub(super) fn for_question(approval: &'a Approval, title: &'a str, about: String) -> Self {
        Self {
            tool_call_id: approval_tool_call_id(approval),
            title,
            kind: "other",
            status: "pending",
            content: vec![ToolContent::Content { content: ContentBlockJson::text(about) }],
            locations: &[],
            raw_input: None,
        }
    }
}

/// Returns the id of the approval's tool call, or of the approval itself if it has none.
pub(super) fn approval_tool_call_id(approval: &Approval) -> String {
    match &approval.tool_id {
        Some(id) => id.to_string(),
        None => approval.id.to_string(),
    }
}

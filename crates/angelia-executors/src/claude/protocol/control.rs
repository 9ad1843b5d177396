//! The CLI's control requests, and its responses to ours, with the fields that we read.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::lenient::{BorrowedStr, Lenient};

/// `control_request` and `control_cancel_request`: a request from the CLI, or its withdrawal.
#[derive(Deserialize)]
pub(crate) struct ControlRequestLine<'a> {
    #[serde(borrow, default)]
    pub(crate) request_id: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) request: Option<&'a RawValue>,
}

/// `control_request.request`, with the fields that we read from all its subtypes.
#[derive(Default, Deserialize)]
pub(crate) struct ControlRequestBody<'a> {
    #[serde(borrow, default)]
    pub(crate) subtype: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) tool_name: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) tool_use_id: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) permission_suggestions: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) decision_reason: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) decision_reason_type: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) blocked_path: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) agent_id: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) server_name: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) callback_id: Lenient<BorrowedStr<'a>>,
}

/// The `input` of a `hook_callback` before a tool call.
#[derive(Default, Deserialize)]
pub(crate) struct ToolReport<'a> {
    #[serde(borrow, default)]
    pub(crate) tool_name: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) tool_input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) tool_use_id: Lenient<BorrowedStr<'a>>,
    /// The shell's directory, which earlier commands may have changed.
    #[serde(borrow, default)]
    pub(crate) cwd: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) agent_id: Lenient<BorrowedStr<'a>>,
}

/// A suggested change to the CLI's permission rules (`permission_suggestions`).
#[derive(Default, Deserialize)]
pub(crate) struct PermissionSuggestion<'a> {
    #[serde(borrow, default)]
    pub(crate) behavior: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) rules: Lenient<Vec<SuggestedRule<'a>>>,
    #[serde(borrow, default)]
    pub(crate) directories: Lenient<Vec<BorrowedStr<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SuggestedRule<'a> {
    #[serde(borrow, default)]
    pub(crate) tool_name: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) rule_content: Lenient<BorrowedStr<'a>>,
}

/// `control_response`: the response to one of our requests.
#[derive(Deserialize)]
pub(crate) struct ControlResponseLine<'a> {
    #[serde(borrow, default)]
    pub(crate) response: Lenient<ControlResponseBody<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct ControlResponseBody<'a> {
    #[serde(borrow, default)]
    pub(crate) subtype: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) request_id: Lenient<BorrowedStr<'a>>,
    #[serde(rename = "response", borrow, default)]
    pub(crate) payload: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) error: Lenient<BorrowedStr<'a>>,
}

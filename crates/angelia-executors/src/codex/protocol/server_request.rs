//! The parameters of the app-server's requests.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::lenient::{BorrowedStr, Lenient};

/// The parameters of every request about an item, and of approvals of commands and patches.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(crate) struct ItemRequestParams<'a> {
    pub(crate) thread_id: Lenient<BorrowedStr<'a>>,
    pub(crate) turn_id: Lenient<BorrowedStr<'a>>,
    pub(crate) item_id: Lenient<BorrowedStr<'a>>,
    /// `command` or `writeStdin`.
    pub(crate) kind: Lenient<BorrowedStr<'a>>,
    pub(crate) reason: Lenient<BorrowedStr<'a>>,
    pub(crate) command: Lenient<BorrowedStr<'a>>,
    pub(crate) cwd: Lenient<BorrowedStr<'a>>,
    pub(crate) network_approval_context: Lenient<NetworkContext<'a>>,
    /// Permissions that the command gets in addition to running.
    pub(crate) additional_permissions: Option<&'a RawValue>,
    /// A folder inside which Codex wants to write for the rest of the session.
    pub(crate) grant_root: Lenient<BorrowedStr<'a>>,
    pub(crate) permissions: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(crate) struct NetworkContext<'a> {
    pub(crate) host: Lenient<BorrowedStr<'a>>,
    pub(crate) protocol: Lenient<BorrowedStr<'a>>,
}

/// The permissions that `item/permissions/requestApproval` asks for.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(crate) struct RequestedPermissions<'a> {
    pub(crate) network: Lenient<NetworkAccess>,
    pub(crate) file_system: Lenient<FileSystemAccess<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct NetworkAccess {
    #[serde(default)]
    pub(crate) enabled: Lenient<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(crate) struct FileSystemAccess<'a> {
    pub(crate) read: Lenient<Vec<BorrowedStr<'a>>>,
    pub(crate) write: Lenient<Vec<BorrowedStr<'a>>>,
    pub(crate) entries: Lenient<Vec<FileSystemEntry<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(crate) struct FileSystemEntry<'a> {
    pub(crate) path: Option<&'a RawValue>,
    pub(crate) access: Lenient<BorrowedStr<'a>>,
}

/// `item/tool/requestUserInput`.
#[derive(Default, Deserialize)]
pub(crate) struct UserInputParams<'a> {
    #[serde(borrow, default)]
    pub(crate) questions: Lenient<Vec<InputQuestion<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(crate) struct InputQuestion<'a> {
    pub(crate) id: Lenient<BorrowedStr<'a>>,
    pub(crate) header: Lenient<BorrowedStr<'a>>,
    pub(crate) question: Lenient<BorrowedStr<'a>>,
    pub(crate) options: Lenient<Vec<InputOption<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(crate) struct InputOption<'a> {
    pub(crate) label: Lenient<BorrowedStr<'a>>,
    pub(crate) description: Lenient<BorrowedStr<'a>>,
}

/// `mcpServer/elicitation/request`: a form, a URL to open, or the approval of a tool call.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(crate) struct ElicitationParams<'a> {
    pub(crate) server_name: Lenient<BorrowedStr<'a>>,
    pub(crate) message: Lenient<BorrowedStr<'a>>,
    pub(crate) url: Lenient<BorrowedStr<'a>>,
    pub(crate) requested_schema: Lenient<FormSchema<'a>>,
    #[serde(rename = "_meta")]
    pub(crate) meta: Lenient<ElicitationMeta<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(crate) struct ElicitationMeta<'a> {
    pub(crate) codex_approval_kind: Lenient<BorrowedStr<'a>>,
    pub(crate) tool_description: Lenient<BorrowedStr<'a>>,
    pub(crate) tool_params: Option<&'a RawValue>,
}

impl ElicitationMeta<'_> {
    /// Reports whether the request asks to approve a tool call, and is not the server's own form.
    pub(crate) fn is_tool_call(&self) -> bool {
        self.codex_approval_kind.as_str() == Some("mcp_tool_call")
    }
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(crate) struct FormSchema<'a> {
    pub(crate) properties: Lenient<BTreeMap<String, Lenient<FormProperty<'a>>>>,
    pub(crate) required: Lenient<Vec<BorrowedStr<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(crate) struct FormProperty<'a> {
    #[serde(rename = "type")]
    pub(crate) kind: Lenient<BorrowedStr<'a>>,
    pub(crate) title: Lenient<BorrowedStr<'a>>,
    pub(crate) description: Lenient<BorrowedStr<'a>>,
    #[serde(rename = "enum")]
    pub(crate) options: Lenient<Vec<BorrowedStr<'a>>>,
    #[serde(rename = "oneOf")]
    pub(crate) one_of: Lenient<Vec<TitledValue<'a>>>,
    pub(crate) items: Lenient<ArrayItems<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(crate) struct ArrayItems<'a> {
    #[serde(rename = "enum")]
    pub(crate) options: Lenient<Vec<BorrowedStr<'a>>>,
    #[serde(rename = "anyOf")]
    pub(crate) any_of: Lenient<Vec<TitledValue<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(crate) struct TitledValue<'a> {
    #[serde(rename = "const")]
    pub(crate) value: Lenient<BorrowedStr<'a>>,
    pub(crate) title: Lenient<BorrowedStr<'a>>,
}

/// `item/tool/call`.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(crate) struct DynamicToolCallParams<'a> {
    pub(crate) call_id: Lenient<BorrowedStr<'a>>,
    pub(crate) tool: Lenient<BorrowedStr<'a>>,
    pub(crate) arguments: Option<&'a RawValue>,
}

//! Parameters of the app-server's requests.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::lenient::{BorrowedStr, Lenient};

/// Parameters of every request that belongs to an item, and of approvals of commands and patches.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ItemRequestParams<'a> {
    #[serde(borrow, default)]
    pub(crate) thread_id: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) turn_id: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) item_id: Lenient<BorrowedStr<'a>>,
    /// `command` or `writeStdin`.
    #[serde(borrow, default)]
    pub(crate) kind: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) reason: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) command: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) cwd: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) network_approval_context: Lenient<NetworkContext<'a>>,
    /// Permissions that the command gets in addition to running.
    #[serde(borrow, default)]
    pub(crate) additional_permissions: Option<&'a RawValue>,
    /// A folder below which Codex wants to write for the rest of the session.
    #[serde(borrow, default)]
    pub(crate) grant_root: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) permissions: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(crate) struct NetworkContext<'a> {
    #[serde(borrow, default)]
    pub(crate) host: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) protocol: Lenient<BorrowedStr<'a>>,
}

/// The permissions that `item/permissions/requestApproval` asks for.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RequestedPermissions<'a> {
    #[serde(default)]
    pub(crate) network: Lenient<NetworkAccess>,
    #[serde(borrow, default)]
    pub(crate) file_system: Lenient<FileSystemAccess<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct NetworkAccess {
    #[serde(default)]
    pub(crate) enabled: Lenient<bool>,
}

#[derive(Deserialize)]
pub(crate) struct FileSystemAccess<'a> {
    #[serde(borrow, default)]
    pub(crate) read: Lenient<Vec<BorrowedStr<'a>>>,
    #[serde(borrow, default)]
    pub(crate) write: Lenient<Vec<BorrowedStr<'a>>>,
    #[serde(borrow, default)]
    pub(crate) entries: Lenient<Vec<FileSystemEntry<'a>>>,
}

#[derive(Deserialize)]
pub(crate) struct FileSystemEntry<'a> {
    #[serde(borrow, default)]
    pub(crate) path: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) access: Lenient<BorrowedStr<'a>>,
}

/// `item/tool/requestUserInput`.
#[derive(Default, Deserialize)]
pub(crate) struct UserInputParams<'a> {
    #[serde(borrow, default)]
    pub(crate) questions: Lenient<Vec<InputQuestion<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InputQuestion<'a> {
    #[serde(borrow, default)]
    pub(crate) id: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) header: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) question: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) options: Lenient<Vec<InputOption<'a>>>,
}

#[derive(Deserialize)]
pub(crate) struct InputOption<'a> {
    #[serde(borrow, default)]
    pub(crate) label: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) description: Lenient<BorrowedStr<'a>>,
}

/// `mcpServer/elicitation/request`: a form, a URL to open, or the approval of a tool call.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ElicitationParams<'a> {
    #[serde(borrow, default)]
    pub(crate) server_name: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) message: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) url: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) requested_schema: Lenient<FormSchema<'a>>,
    #[serde(rename = "_meta", borrow, default)]
    pub(crate) meta: Lenient<ElicitationMeta<'a>>,
}

#[derive(Default, Deserialize)]
pub(crate) struct ElicitationMeta<'a> {
    #[serde(borrow, default)]
    pub(crate) codex_approval_kind: Lenient<BorrowedStr<'a>>,
    /// How long an answer may be remembered: `session`, `always`.
    #[serde(borrow, default)]
    pub(crate) persist: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) tool_description: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) tool_params: Option<&'a RawValue>,
}

impl ElicitationMeta<'_> {
    /// Returns whether the request asks to approve a tool call, and is not the server's own form.
    pub(crate) fn is_tool_call(&self) -> bool {
        self.codex_approval_kind.as_str() == Some("mcp_tool_call")
    }

    pub(crate) fn offers_session(&self) -> bool {
        let Some(raw) = self.persist.map(RawValue::get) else {
            return false;
        };
        match serde_json::from_str::<Vec<BorrowedStr<'_>>>(raw) {
            Ok(all) => all.iter().any(|one| &**one == "session"),
            Err(_) => raw == "\"session\"",
        }
    }
}

#[derive(Deserialize)]
pub(crate) struct FormSchema<'a> {
    #[serde(borrow, default)]
    pub(crate) properties: Lenient<BTreeMap<String, Lenient<FormProperty<'a>>>>,
    #[serde(borrow, default)]
    pub(crate) required: Lenient<Vec<BorrowedStr<'a>>>,
}

#[derive(Deserialize)]
pub(crate) struct FormProperty<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(crate) kind: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) title: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) description: Lenient<BorrowedStr<'a>>,
    #[serde(rename = "enum", borrow, default)]
    pub(crate) options: Lenient<Vec<BorrowedStr<'a>>>,
    #[serde(rename = "oneOf", borrow, default)]
    pub(crate) one_of: Lenient<Vec<TitledValue<'a>>>,
    #[serde(borrow, default)]
    pub(crate) items: Lenient<ArrayItems<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct ArrayItems<'a> {
    #[serde(rename = "enum", borrow, default)]
    pub(crate) options: Lenient<Vec<BorrowedStr<'a>>>,
    #[serde(rename = "anyOf", borrow, default)]
    pub(crate) any_of: Lenient<Vec<TitledValue<'a>>>,
}

#[derive(Deserialize)]
pub(crate) struct TitledValue<'a> {
    #[serde(rename = "const", borrow, default)]
    pub(crate) value: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) title: Lenient<BorrowedStr<'a>>,
}

/// `item/tool/call`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DynamicToolCallParams<'a> {
    #[serde(borrow, default)]
    pub(crate) call_id: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) tool: Lenient<BorrowedStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) arguments: Option<&'a RawValue>,
}

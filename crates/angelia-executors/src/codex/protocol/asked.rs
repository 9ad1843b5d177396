//! Parameters of the app-server's requests.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::lenient::{Soft, Text};

/// Parameters of every request that belongs to an item, and of approvals of commands and patches.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AskParams<'a> {
    #[serde(borrow, default)]
    pub(crate) thread_id: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) turn_id: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) item_id: Soft<Text<'a>>,
    /// `command` or `writeStdin`.
    #[serde(borrow, default)]
    pub(crate) kind: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) reason: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) command: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) cwd: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) network_approval_context: Soft<Network<'a>>,
    /// Permissions that the command gets in addition to running.
    #[serde(borrow, default)]
    pub(crate) additional_permissions: Option<&'a RawValue>,
    /// A folder below which Codex wants to write for the rest of the session.
    #[serde(borrow, default)]
    pub(crate) grant_root: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) permissions: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(crate) struct Network<'a> {
    #[serde(borrow, default)]
    pub(crate) host: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) protocol: Soft<Text<'a>>,
}

/// The permissions that `item/permissions/requestApproval` asks for.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Permissions<'a> {
    #[serde(default)]
    pub(crate) network: Soft<NetworkAccess>,
    #[serde(borrow, default)]
    pub(crate) file_system: Soft<FileSystem<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct NetworkAccess {
    #[serde(default)]
    pub(crate) enabled: Soft<bool>,
}

#[derive(Deserialize)]
pub(crate) struct FileSystem<'a> {
    #[serde(borrow, default)]
    pub(crate) read: Soft<Vec<Text<'a>>>,
    #[serde(borrow, default)]
    pub(crate) write: Soft<Vec<Text<'a>>>,
    #[serde(borrow, default)]
    pub(crate) entries: Soft<Vec<Entry<'a>>>,
}

#[derive(Deserialize)]
pub(crate) struct Entry<'a> {
    #[serde(borrow, default)]
    pub(crate) path: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) access: Soft<Text<'a>>,
}

/// `item/tool/requestUserInput`.
#[derive(Default, Deserialize)]
pub(crate) struct InputParams<'a> {
    #[serde(borrow, default)]
    pub(crate) questions: Soft<Vec<InputQuestion<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InputQuestion<'a> {
    #[serde(borrow, default)]
    pub(crate) id: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) header: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) question: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) options: Soft<Vec<InputOption<'a>>>,
}

#[derive(Deserialize)]
pub(crate) struct InputOption<'a> {
    #[serde(borrow, default)]
    pub(crate) label: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) description: Soft<Text<'a>>,
}

/// `mcpServer/elicitation/request`: a form, a URL to open, or the approval of a tool call.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ElicitParams<'a> {
    #[serde(borrow, default)]
    pub(crate) server_name: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) message: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) url: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) requested_schema: Soft<FormSchema<'a>>,
    #[serde(rename = "_meta", borrow, default)]
    pub(crate) meta: Soft<ElicitMeta<'a>>,
}

#[derive(Default, Deserialize)]
pub(crate) struct ElicitMeta<'a> {
    #[serde(borrow, default)]
    pub(crate) codex_approval_kind: Soft<Text<'a>>,
    /// How long an answer may be remembered: `session`, `always`.
    #[serde(borrow, default)]
    pub(crate) persist: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) tool_description: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) tool_params: Option<&'a RawValue>,
}

impl ElicitMeta<'_> {
    /// Returns whether the request asks to approve a tool call, and is not the server's own form.
    pub(crate) fn is_tool_call(&self) -> bool {
        self.codex_approval_kind.as_str() == Some("mcp_tool_call")
    }

    pub(crate) fn offers_session(&self) -> bool {
        let Some(raw) = self.persist.map(RawValue::get) else {
            return false;
        };
        match serde_json::from_str::<Vec<Text<'_>>>(raw) {
            Ok(all) => all.iter().any(|one| &**one == "session"),
            Err(_) => raw == "\"session\"",
        }
    }
}

#[derive(Deserialize)]
pub(crate) struct FormSchema<'a> {
    #[serde(borrow, default)]
    pub(crate) properties: Soft<BTreeMap<String, Soft<Property<'a>>>>,
    #[serde(borrow, default)]
    pub(crate) required: Soft<Vec<Text<'a>>>,
}

#[derive(Deserialize)]
pub(crate) struct Property<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(crate) kind: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) title: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) description: Soft<Text<'a>>,
    #[serde(rename = "enum", borrow, default)]
    pub(crate) options: Soft<Vec<Text<'a>>>,
    #[serde(rename = "oneOf", borrow, default)]
    pub(crate) one_of: Soft<Vec<Const<'a>>>,
    #[serde(borrow, default)]
    pub(crate) items: Soft<Items<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct Items<'a> {
    #[serde(rename = "enum", borrow, default)]
    pub(crate) options: Soft<Vec<Text<'a>>>,
    #[serde(rename = "anyOf", borrow, default)]
    pub(crate) any_of: Soft<Vec<Const<'a>>>,
}

#[derive(Deserialize)]
pub(crate) struct Const<'a> {
    #[serde(rename = "const", borrow, default)]
    pub(crate) value: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) title: Soft<Text<'a>>,
}

/// `item/tool/call`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CallParams<'a> {
    #[serde(borrow, default)]
    pub(crate) call_id: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) tool: Soft<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) arguments: Option<&'a RawValue>,
}

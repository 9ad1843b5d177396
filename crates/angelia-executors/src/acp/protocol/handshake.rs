//! The agent's answers to `initialize` and to the requests that open a conversation.

use std::sync::Arc;

use angelia_core::model::NativeSessionId;
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

use crate::lenient::{BorrowedStr, Lenient};

/// The only protocol version that we support.
pub const PROTOCOL_VERSION: u64 = 1;

/// The answer to `initialize`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentDescription {
    pub protocol_version: Option<u64>,
    /// The agent's display name.
    pub title: Option<Arc<str>>,
    pub agent_version: Option<Arc<str>>,
    /// The agent can resume a conversation with `session/load`, which replays it.
    pub can_load: bool,
    /// The agent can resume a conversation with `session/resume`, without a replay.
    pub can_resume: bool,
    pub can_delete: bool,
    pub can_fork: bool,
    pub accepts_images: bool,
    pub mcp_http: bool,
    pub mcp_sse: bool,
    /// Descriptions of the ways to log in.
    pub login_methods: Vec<Box<str>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct InitializeFields<'a> {
    protocol_version: Lenient<u64>,
    agent_capabilities: Lenient<Map<String, Value>>,
    agent_info: Lenient<AgentInfo<'a>>,
    auth_methods: Lenient<Vec<Lenient<AuthMethod<'a>>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct AgentInfo<'a> {
    name: Lenient<BorrowedStr<'a>>,
    title: Lenient<BorrowedStr<'a>>,
    version: Lenient<BorrowedStr<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct AuthMethod<'a> {
    name: Lenient<BorrowedStr<'a>>,
    description: Lenient<BorrowedStr<'a>>,
}

impl AgentDescription {
    pub fn of(result: &RawValue) -> Self {
        let fields: InitializeFields<'_> = serde_json::from_str(result.get()).unwrap_or_default();
        let can = Value::Object(fields.agent_capabilities.0.unwrap_or_default());
        let yes = |path: &str| can.pointer(path) == Some(&Value::Bool(true));
        // A capability is `true` or an object with details.
        let has = |path: &str| match can.pointer(path) {
            None | Some(Value::Null | Value::Bool(false)) => false,
            Some(_) => true,
        };
        let info = fields.agent_info.0.as_ref();
        let text = |text: &Lenient<BorrowedStr<'_>>| {
            text.as_str().filter(|text| !text.trim().is_empty()).map(Arc::from)
        };
        Self {
            protocol_version: fields.protocol_version.get(),
            title: info.and_then(|info| text(&info.title).or_else(|| text(&info.name))),
            agent_version: info.and_then(|info| text(&info.version)),
            can_load: yes("/loadSession"),
            can_resume: has("/sessionCapabilities/resume"),
            can_delete: has("/sessionCapabilities/delete"),
            can_fork: has("/sessionCapabilities/fork"),
            accepts_images: yes("/promptCapabilities/image"),
            mcp_http: yes("/mcpCapabilities/http"),
            mcp_sse: yes("/mcpCapabilities/sse"),
            login_methods: (fields.auth_methods.0.iter().flatten())
                .filter_map(|method| {
                    let method = method.0.as_ref()?;
                    let words = method.description.as_str().or(method.name.as_str())?;
                    Some(words.into())
                })
                .collect(),
        }
    }

    /// Returns the agent's display name, or a generic one.
    pub fn name(&self) -> Arc<str> {
        self.title.clone().unwrap_or_else(|| "the ACP agent".into())
    }
}

/// A setting of a conversation (its mode or model): the current value and the available values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionSetting {
    pub current: Option<Arc<str>>,
    /// Ids with their display names.
    pub available: Vec<(Arc<str>, Box<str>)>,
    pub changed_by: SettingRequest,
}

/// The request that changes a setting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SettingRequest {
    /// A dedicated method, such as `session/set_mode`.
    #[default]
    Method,
    /// `session/set_config_option`, with this option id.
    Option(Box<str>),
}

/// The answer to `session/new`, `session/load` and `session/resume`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AcpSessionInfo {
    pub session: Option<NativeSessionId>,
    pub mode: Option<SessionSetting>,
    pub model: Option<SessionSetting>,
}

impl AcpSessionInfo {
    pub fn of(result: &RawValue) -> Self {
        let value: Value = serde_json::from_str(result.get()).unwrap_or_default();
        let session = value.get("sessionId").and_then(Value::as_str);
        Self {
            session: session.map(NativeSessionId::new),
            mode: parse_list(&value["modes"], "currentModeId", "availableModes", "id")
                .or_else(|| parse_config_option(&value, "mode")),
            model: parse_list(&value["models"], "currentModelId", "availableModels", "modelId")
                .or_else(|| parse_config_option(&value, "model")),
        }
    }
}

fn parse_list(value: &Value, current: &str, available: &str, id: &str) -> Option<SessionSetting> {
    let available = value.get(available)?.as_array()?.iter();
    Some(SessionSetting {
        current: value.get(current).and_then(Value::as_str).map(Arc::from),
        available: available.filter_map(|one| parse_named(one, id)).collect(),
        changed_by: SettingRequest::Method,
    })
}

/// Finds a setting among the `configOptions` of the conversation.
fn parse_config_option(value: &Value, category: &str) -> Option<SessionSetting> {
    let options = value.get("configOptions")?.as_array()?;
    let is_it = |one: &&Value| one["category"] == category || one["id"] == category;
    let option = options.iter().find(is_it)?;
    let values = option.get("options")?.as_array()?;
    // The values may be grouped.
    let flat = values.iter().flat_map(|one| match one.get("options") {
        Some(Value::Array(inner)) => inner.iter().collect::<Vec<_>>(),
        _ => vec![one],
    });
    Some(SessionSetting {
        current: option.get("currentValue").and_then(Value::as_str).map(Arc::from),
        available: flat.filter_map(|one| parse_named(one, "value")).collect(),
        changed_by: SettingRequest::Option(option.get("id")?.as_str()?.into()),
    })
}

fn parse_named(value: &Value, id: &str) -> Option<(Arc<str>, Box<str>)> {
    let id = value.get(id)?.as_str()?;
    let name = value.get("name").and_then(Value::as_str).unwrap_or(id);
    Some((id.into(), name.into()))
}

//! The agent's answers to `initialize` and to the requests that open a conversation.

use std::sync::Arc;

use angelia_core::model::NativeSessionId;
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

use crate::lenient::{Soft, Text};

/// The only protocol version that we support.
pub const VERSION: u64 = 1;

/// The answer to `initialize`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Greeting {
    pub version: Option<u64>,
    /// The agent's display name.
    pub title: Option<Arc<str>>,
    pub agent_version: Option<Arc<str>>,
    /// The agent can resume a conversation with `session/load`, which replays it.
    pub loads: bool,
    /// The agent can resume a conversation with `session/resume`, without a replay.
    pub resumes: bool,
    pub deletes: bool,
    pub forks: bool,
    pub images: bool,
    pub mcp_http: bool,
    pub mcp_sse: bool,
    /// Descriptions of the ways to log in.
    pub logins: Vec<Box<str>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct GreetingFields<'a> {
    #[serde(default)]
    protocol_version: Soft<u64>,
    #[serde(default)]
    agent_capabilities: Soft<Map<String, Value>>,
    #[serde(borrow, default)]
    agent_info: Soft<AgentInfo<'a>>,
    #[serde(borrow, default)]
    auth_methods: Soft<Vec<Soft<AuthMethod<'a>>>>,
}

#[derive(Debug, Deserialize)]
struct AgentInfo<'a> {
    #[serde(borrow, default)]
    name: Soft<Text<'a>>,
    #[serde(borrow, default)]
    title: Soft<Text<'a>>,
    #[serde(borrow, default)]
    version: Soft<Text<'a>>,
}

#[derive(Debug, Deserialize)]
struct AuthMethod<'a> {
    #[serde(borrow, default)]
    name: Soft<Text<'a>>,
    #[serde(borrow, default)]
    description: Soft<Text<'a>>,
}

impl Greeting {
    pub fn of(result: &RawValue) -> Self {
        let fields: GreetingFields<'_> = serde_json::from_str(result.get()).unwrap_or_default();
        let can = Value::Object(fields.agent_capabilities.0.unwrap_or_default());
        let yes = |path: &str| can.pointer(path) == Some(&Value::Bool(true));
        // A capability is `true` or an object with details.
        let has = |path: &str| match can.pointer(path) {
            None | Some(Value::Null | Value::Bool(false)) => false,
            Some(_) => true,
        };
        let info = fields.agent_info.0.as_ref();
        let text = |text: &Soft<Text<'_>>| {
            text.as_str().filter(|text| !text.trim().is_empty()).map(Arc::from)
        };
        Self {
            version: fields.protocol_version.get(),
            title: info.and_then(|info| text(&info.title).or_else(|| text(&info.name))),
            agent_version: info.and_then(|info| text(&info.version)),
            loads: yes("/loadSession"),
            resumes: has("/sessionCapabilities/resume"),
            deletes: has("/sessionCapabilities/delete"),
            forks: has("/sessionCapabilities/fork"),
            images: yes("/promptCapabilities/image"),
            mcp_http: yes("/mcpCapabilities/http"),
            mcp_sse: yes("/mcpCapabilities/sse"),
            logins: (fields.auth_methods.0.iter().flatten())
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

/// A setting of a conversation (its mode or model): the current value and the available ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    pub current: Option<Arc<str>>,
    /// Ids with their display names.
    pub available: Vec<(Arc<str>, Box<str>)>,
    pub by: ChosenBy,
}

/// The request that changes a setting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ChosenBy {
    /// A method of its own, such as `session/set_mode`.
    #[default]
    Method,
    /// `session/set_config_option`, with this option id.
    Option(Box<str>),
}

/// The answer to `session/new`, `session/load` and `session/resume`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    pub session: Option<NativeSessionId>,
    pub mode: Option<Choice>,
    pub model: Option<Choice>,
}

impl Opened {
    pub fn of(result: &RawValue) -> Self {
        let value: Value = serde_json::from_str(result.get()).unwrap_or_default();
        let session = value.get("sessionId").and_then(Value::as_str);
        Self {
            session: session.map(NativeSessionId::new),
            mode: listed(&value["modes"], "currentModeId", "availableModes", "id")
                .or_else(|| option(&value, "mode")),
            model: listed(&value["models"], "currentModelId", "availableModels", "modelId")
                .or_else(|| option(&value, "model")),
        }
    }
}

fn listed(value: &Value, current: &str, available: &str, id: &str) -> Option<Choice> {
    let available = value.get(available)?.as_array()?.iter();
    Some(Choice {
        current: value.get(current).and_then(Value::as_str).map(Arc::from),
        available: available.filter_map(|one| named(one, id)).collect(),
        by: ChosenBy::Method,
    })
}

/// Finds a setting among the `configOptions` of the conversation.
fn option(value: &Value, category: &str) -> Option<Choice> {
    let options = value.get("configOptions")?.as_array()?;
    let is_it = |one: &&Value| one["category"] == category || one["id"] == category;
    let option = options.iter().find(is_it)?;
    let values = option.get("options")?.as_array()?;
    // The values may be grouped.
    let flat = values.iter().flat_map(|one| match one.get("options") {
        Some(Value::Array(inner)) => inner.iter().collect::<Vec<_>>(),
        _ => vec![one],
    });
    Some(Choice {
        current: option.get("currentValue").and_then(Value::as_str).map(Arc::from),
        available: flat.filter_map(|one| named(one, "value")).collect(),
        by: ChosenBy::Option(option.get("id")?.as_str()?.into()),
    })
}

fn named(value: &Value, id: &str) -> Option<(Arc<str>, Box<str>)> {
    let id = value.get(id)?.as_str()?;
    let name = value.get("name").and_then(Value::as_str).unwrap_or(id);
    Some((id.into(), name.into()))
}

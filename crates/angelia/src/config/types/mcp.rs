//! MCP servers, in the shape Claude Code uses: kept as JSON, and checked only far enough to refuse a
//! definition that could not start.

use std::sync::Arc;

use angelia_core::model::RawJson;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use serde_json::{Map, Number, Value as Json, value::to_raw_value};

use super::{
    provider_keys::{OAuthFields, oauth_gap},
    values::SECRET_MASK,
};
use crate::config::{
    node::{Node, NodeValue, Scalar, ScalarKind},
    schema::inline_schema,
    setting::{Setting, TextSetting, ValueCursor},
};

/// The keys of `oauth` that no other agent uses.
const OWN_LOGIN_KEYS: [&str; 4] = ["issuer", "device_url", "token_url", "scope"];

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub(crate) struct ServerName(pub(crate) Arc<str>);

impl TextSetting for ServerName {
    const EXPECTS: &'static str = "a name of letters, digits, `_` and `-`";

    fn parse(text: &str) -> Option<Self> {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let is_name = !text.is_empty() && text.chars().all(fits);
        is_name.then(|| Self(text.into()))
    }
}

#[derive(Clone, PartialEq)]
pub(crate) struct McpServer(Map<String, Json>);

impl McpServer {
    pub(crate) fn to_raw_json(&self) -> Option<RawJson> {
        to_raw_value(&self.0).ok().map(RawJson::from)
    }

    /// Returns the values that may be secrets: variables and headers.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &str> {
        let parts = ["env", "headers"].into_iter().filter_map(|key| self.0.get(key)?.as_object());
        parts.flat_map(|values| values.values().filter_map(Json::as_str))
    }

    /// Returns the definition, with values that are likely to be secrets masked.
    fn with_masked_secrets(&self) -> Json {
        let mut shown = self.0.clone();
        for key in ["env", "headers"] {
            if let Some(Json::Object(values)) = shown.get_mut(key) {
                values.values_mut().for_each(|value| *value = SECRET_MASK.into());
            }
        }
        Json::Object(shown)
    }
}

impl std::fmt::Debug for McpServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.with_masked_secrets())
    }
}

impl Serialize for McpServer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.with_masked_secrets().serialize(serializer)
    }
}

inline_schema!(McpServer, {
    "type": "object",
    "anyOf": [{"required": ["command"]}, {"required": ["url"]}],
});

impl Setting for McpServer {
    fn expects() -> String {
        "a server's definition (`command` with `args` and `env`, or `type` with `url`)".to_owned()
    }

    fn read(place: &ValueCursor<'_>) -> Option<Self> {
        let Json::Object(server) = node_to_json(place.node) else {
            return place.mismatch(&Self::expects());
        };
        let has_text = |key: &str| matches!(server.get(key), Some(Json::String(_)));
        if !has_text("command") && !has_text("url") {
            return place.reject("has neither a `command` nor a `url`; name one of them");
        }
        check_login(place, has_text("url"))?;
        Some(Self(server))
    }
}

/// Checks `oauth` if it has a key that only our own logins use. Other agents use the same name for their own
/// settings.
fn check_login(place: &ValueCursor<'_>, has_url: bool) -> Option<()> {
    let Some(entry) = place.node.entries().iter().find(|entry| entry.key == "oauth") else {
        return Some(());
    };
    if !OWN_LOGIN_KEYS.iter().any(|key| entry.node.get(key).is_some()) {
        return Some(());
    }
    if !has_url {
        return place.reject("has `oauth`, which is for servers with a `url`");
    }
    let _fields: OAuthFields = place.read_entry(entry)?;
    // An MCP server can name its issuer itself.
    match oauth_gap(&entry.node, false) {
        Some(gap) => place.reject(gap),
        None => Some(()),
    }
}

fn node_to_json(node: &Node) -> Json {
    match &node.value {
        NodeValue::Scalar(scalar) => scalar_json(scalar),
        NodeValue::List(items) => items.iter().map(node_to_json).collect(),
        NodeValue::Map(entries) => {
            entries.iter().map(|entry| (entry.key.clone(), node_to_json(&entry.node))).collect()
        }
    }
}

fn scalar_json(Scalar { kind, text }: &Scalar) -> Json {
    match kind {
        ScalarKind::Null => Json::Null,
        ScalarKind::Bool => Json::Bool(text.eq_ignore_ascii_case("true")),
        ScalarKind::Number => {
            text.parse::<Number>().map_or_else(|_| Json::String(text.clone()), Json::Number)
        }
        ScalarKind::Text | ScalarKind::Untyped => Json::String(text.clone()),
    }
}

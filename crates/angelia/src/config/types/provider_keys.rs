//! Where a provider's keys come from.

use std::sync::Arc;

use serde::{Serialize, Serializer};

use super::{AgentCommand, FixedPath, VariableName, providers::BaseUrl};
use crate::config::{
    node::{Node, NodeValue},
    schema::inline_schema,
    setting::{Setting, ValueCursor, settings},
};

settings! {
    /// A Microsoft Entra identity. Missing values come from the variables that Azure's own libraries read,
    /// from the identity of the machine, or from `az`.
    EntraFields {
        /// The tenant. `null`: `AZURE_TENANT_ID`.
        tenant: Option<String> = None,
        /// The application, or the identity where the machine has several. `null`: `AZURE_CLIENT_ID`.
        client_id: Option<String> = None,
        /// The variable with the application's secret. `null`: `AZURE_CLIENT_SECRET`.
        secret_env: Option<VariableName> = None,
        /// The file with the token of a workload. `null`: `AZURE_FEDERATED_TOKEN_FILE`.
        token_file: Option<FixedPath> = None,
        /// The scope of the token. `null`: `https://cognitiveservices.azure.com/.default`.
        scope: Option<String> = None,
    }
}

settings! {
    /// An OAuth login with a code (RFC 8628), made with `angelia providers login`.
    OAuthFields {
        /// The address of the server that issues tokens; it publishes the other two addresses.
        issuer: Option<BaseUrl> = None,
        /// The address at which codes are issued, for a server that does not publish it.
        device_url: Option<BaseUrl> = None,
        /// The address at which tokens are issued, for a server that does not publish it.
        token_url: Option<BaseUrl> = None,
        /// The id of your own client; none is built in.
        client_id: Option<String> = None,
        /// The scope of the token. Many servers want `offline_access` in it for a login that lasts.
        scope: Option<String> = None,
    }
}

/// Where a key comes from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum KeySetting {
    Env(VariableName),
    File(FixedPath),
    Command(AgentCommand),
    Entra(EntraFields),
    OAuth(OAuthFields),
}

inline_schema!(KeySetting, {
    "type": "object",
    "minProperties": 1,
    "maxProperties": 1,
    "additionalProperties": false,
    "properties": {
        "env": {"type": "string", "pattern": "^[^=*\\s]+$"},
        "file": {"type": "string", "pattern": "^(/|~/|~$)"},
        "command": {"type": "array", "minItems": 1, "items": {"type": "string"}},
        "entra": {
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "tenant": {"type": "string"},
                "client_id": {"type": "string"},
                "secret_env": {"type": "string", "pattern": "^[^=*\\s]+$"},
                "token_file": {"type": "string", "pattern": "^(/|~/|~$)"},
                "scope": {"type": "string"},
            },
        },
        "oauth": {
            "type": "object",
            "additionalProperties": false,
            "required": ["client_id"],
            "properties": {
                "issuer": {"type": "string", "pattern": "^https?://"},
                "device_url": {"type": "string", "pattern": "^https?://"},
                "token_url": {"type": "string", "pattern": "^https?://"},
                "client_id": {"type": "string"},
                "scope": {"type": "string"},
            },
        },
    },
});

impl Serialize for KeySetting {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Env(name) => serializer.collect_map([("env", name)]),
            Self::File(path) => serializer.collect_map([("file", path)]),
            Self::Command(words) => serializer.collect_map([("command", words)]),
            Self::Entra(fields) => serializer.collect_map([("entra", fields)]),
            Self::OAuth(fields) => serializer.collect_map([("oauth", fields)]),
        }
    }
}

impl Setting for KeySetting {
    fn expects() -> String {
        "`{env: NAME}`, `{file: PATH}`, `{command: [PROGRAM, …]}`, `{entra: {…}}` or `{oauth: {…}}`"
            .to_owned()
    }

    fn read(place: &ValueCursor<'_>) -> Option<Self> {
        const KEYS: [&str; 5] = ["env", "file", "command", "entra", "oauth"];
        // A flag has no structure, so it names a variable.
        if place.is_untyped() {
            return VariableName::read(place).map(Self::Env);
        }
        let [entry] = place.node.entries() else {
            return place.mismatch(&Self::expects());
        };
        match entry.key.as_str() {
            "env" => place.read_entry(entry).map(Self::Env),
            "file" => place.read_entry(entry).map(Self::File),
            "command" => place.read_entry(entry).map(Self::Command),
            "entra" => place.read_entry(entry).map(Self::Entra),
            "oauth" => {
                let fields = place.read_entry(entry)?;
                match oauth_gap(&entry.node, true) {
                    Some(gap) => place.reject(gap),
                    None => Some(Self::OAuth(fields)),
                }
            }
            _ => {
                place.report_unknown_key(entry, &KEYS);
                None
            }
        }
    }
}

/// Returns which keys of an `oauth` block are missing. `needs_address` says whether the block must name the
/// issuer of the tokens. Only checks that the keys are present, because unreadable values have already been
/// reported.
pub(super) fn oauth_gap(block: &Node, needs_address: bool) -> Option<&'static str> {
    if !has_client(block) {
        return Some(NO_CLIENT);
    }
    match address_keys(block) {
        [true, false, false] | [false, true, true] => None,
        [false, false, false] if !needs_address => None,
        _ => Some(NO_ADDRESS),
    }
}

const NO_CLIENT: &str = "needs `oauth.client_id`: register a client at the server and write its id";
const NO_ADDRESS: &str =
    "needs `oauth.issuer`, or `oauth.device_url` and `oauth.token_url` instead of it";

fn has_client(block: &Node) -> bool {
    let is_blank =
        |node: &Node| matches!(&node.value, NodeValue::Scalar(it) if it.text.trim().is_empty());
    block.get("client_id").is_some_and(|node| !node.is_null() && !is_blank(node))
}

/// Returns whether `issuer`, `device_url` and `token_url` are present.
fn address_keys(block: &Node) -> [bool; 3] {
    ["issuer", "device_url", "token_url"]
        .map(|key| block.get(key).is_some_and(|node| !node.is_null()))
}

impl OAuthFields {
    /// Returns the addresses. [`oauth_gap`] has ensured that there are enough of them.
    pub(crate) fn addresses(&self) -> [Option<Arc<str>>; 3] {
        [&self.issuer, &self.device_url, &self.token_url]
            .map(|one| one.as_ref().map(|address| Arc::clone(&address.0)))
    }
}

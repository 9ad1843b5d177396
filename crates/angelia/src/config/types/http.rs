//! The settings of the model APIs under `/v1`, and the keys that grant access to them.

use std::{collections::BTreeMap, sync::Arc};

use hex::FromHex;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::{Dollars, Period, ProfileName};
use crate::config::{
    node::NodeValue,
    schema::inline_schema,
    setting::{Setting, TextSetting, ValueCursor, settings},
};

settings! {
    /// The model APIs under `/v1`.
    Http {
        /// Whether keys that allow it may reach agents that act on this machine over `/v1`.
        agent_mode: bool = false,
        /// Keys that let others use the model APIs, created by `angelia keys add`; only their
        /// hashes are stored.
        keys: Vec<ApiKey> = Vec::new(),
        /// Names besides localhost under which this machine may be addressed: `name`, or
        /// `name:port`.
        allowed_hosts: Vec<String> = Vec::new(),
        /// Web origins whose pages may call from a browser, as they appear in the `Origin` header.
        allowed_origins: Vec<String> = Vec::new(),
        /// Further model ids and the ids they mean.
        model_aliases: BTreeMap<ModelId, String> = BTreeMap::new(),
        /// The profile for titles, tags and other side turns of chat programs.
        utility_profile: Option<String> = None,
        /// How long a turn continues after its streaming client has disconnected.
        disconnect_grace: Period = Period::seconds(10),
        /// How long a request's idempotency key is remembered.
        idempotency_window: Period = Period::hours(24),
    }
}

settings! {
    /// A key and its rights.
    KeyFields {
        /// The key's name, for lists and records.
        name: String = String::new(),
        /// The SHA-256 of the key, in hexadecimal.
        sha256: KeyHash = KeyHash([0; 32]),
        /// The profiles it may use, and the words before the `/` of model ids.
        profiles: KeyProfiles = KeyProfiles::All,
        /// The providers whose models it may use as `native/PROVIDER/MODEL`; these are billed by the token.
        providers: Vec<String> = Vec::new(),
        /// Whether it reaches agents that act on this machine, where `http.agent_mode` allows it.
        agent_mode: bool = false,
        /// The most its turns may cost in 24 hours.
        max_cost_usd_per_day: Option<Dollars> = None,
    }
}

/// A key in the list; `name` and `sha256` are required.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub(crate) struct ApiKey(pub(crate) KeyFields);

impl Setting for ApiKey {
    fn expects() -> String {
        "a mapping with `name` and `sha256`, as `angelia keys add` writes it".to_owned()
    }

    fn read(place: &ValueCursor<'_>) -> Option<Self> {
        let fields = KeyFields::read(place)?;
        let missing = ["name", "sha256"].into_iter().find(|key| place.node.get(key).is_none());
        match missing {
            Some(key) => {
                place.reject(&format!("has no `{key}`; `angelia keys add` writes whole keys"))
            }
            None => Some(Self(fields)),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyHash(pub(crate) [u8; 32]);

impl KeyHash {
    pub(crate) fn to_hex(self) -> String {
        hex::encode(self.0)
    }
}

impl TextSetting for KeyHash {
    const EXPECTS: &'static str = "64 hexadecimal digits";

    fn parse(text: &str) -> Option<Self> {
        FromHex::from_hex(text).ok().map(Self)
    }
}

impl std::fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyHash")
    }
}

impl Serialize for KeyHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.to_hex())
    }
}

inline_schema!(KeyHash, {"type": "string", "pattern": "^[0-9a-fA-F]{64}$"});

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeyProfiles {
    All,
    Only(Vec<Arc<str>>),
}

impl Serialize for KeyProfiles {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::All => serializer.serialize_str("all"),
            Self::Only(names) => serializer.collect_seq(names),
        }
    }
}

inline_schema!(KeyProfiles, {
    "anyOf": [{"const": "all"}, {"type": "array", "items": {"type": "string"}}],
});

impl Setting for KeyProfiles {
    fn expects() -> String {
        "`all`, or a list of names".to_owned()
    }

    fn read(place: &ValueCursor<'_>) -> Option<Self> {
        match &place.node.value {
            _ if place.text() == Some("all") => Some(Self::All),
            NodeValue::List(_) => {
                let names = Vec::<String>::read(place)?;
                Some(Self::Only(names.into_iter().map(Into::into).collect()))
            }
            NodeValue::Scalar(_) | NodeValue::Map(_) => place.mismatch(&Self::expects()),
        }
    }
}

/// A model id as callers write it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub(crate) struct ModelId(pub(crate) Arc<str>);

impl TextSetting for ModelId {
    const EXPECTS: &'static str = "a model id";

    fn parse(text: &str) -> Option<Self> {
        let fits = !text.is_empty() && text.len() <= 128 && !text.contains(char::is_whitespace);
        fits.then(|| Self(text.into()))
    }
}

/// Returns whether a key can have this name.
pub(crate) fn is_key_name(text: &str) -> bool {
    ProfileName::parse(text).is_some()
}

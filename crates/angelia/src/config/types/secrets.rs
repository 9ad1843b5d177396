//! Secrets of channels and webhooks, which are never in the file itself.

use serde::{Serialize, Serializer};

use super::{AgentCommand, FixedPath, VariableName};
use crate::config::{
    schema::inline_schema,
    setting::{Setting, ValueCursor},
};

/// Where a secret comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SecretSetting {
    Env(VariableName),
    File(FixedPath),
    Command(AgentCommand),
}

inline_schema!(SecretSetting, {
    "type": "object",
    "minProperties": 1,
    "maxProperties": 1,
    "additionalProperties": false,
    "properties": {
        "env": {"type": "string", "pattern": "^[^=*\\s]+$"},
        "file": {"type": "string", "pattern": "^(/|~/|~$)"},
        "command": {"type": "array", "minItems": 1, "items": {"type": "string"}},
    },
});

impl Serialize for SecretSetting {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Env(name) => serializer.collect_map([("env", name)]),
            Self::File(path) => serializer.collect_map([("file", path)]),
            Self::Command(words) => serializer.collect_map([("command", words)]),
        }
    }
}

impl Setting for SecretSetting {
    fn expects() -> String {
        "`{env: NAME}`, `{file: PATH}` or `{command: [PROGRAM, …]}`".to_owned()
    }

    fn read(place: &ValueCursor<'_>) -> Option<Self> {
        const KEYS: [&str; 3] = ["env", "file", "command"];
        let [entry] = place.node.entries() else {
            return place.mismatch(&Self::expects());
        };
        match entry.key.as_str() {
            "env" => place.read_entry(entry).map(Self::Env),
            "file" => place.read_entry(entry).map(Self::File),
            "command" => place.read_entry(entry).map(Self::Command),
            _ => {
                place.report_unknown_key(entry, &KEYS);
                None
            }
        }
    }
}

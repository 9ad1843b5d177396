//! Whether agents keep anything from session to session.

use angelia_core::model::MemoryUse;
use serde::{Serialize, Serializer, ser::SerializeMap as _};

use crate::config::{
    node::NodeValue,
    schema::inline_schema,
    setting::{Setting, ValueCursor},
};

/// Whether agents remember anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemorySetting(pub(crate) MemoryUse);

inline_schema!(MemorySetting, {
    "anyOf": [
        {"enum": ["off", "on", false, true]},
        {
            "type": "object",
            "properties": {"from": {"enum": ["owner", "any"]}},
            "additionalProperties": false,
        },
    ],
});

impl Serialize for MemorySetting {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            MemoryUse::Off => serializer.serialize_str("off"),
            MemoryUse::FromOwner => serializer.serialize_str("on"),
            MemoryUse::FromAny => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("from", "any")?;
                map.end()
            }
        }
    }
}

impl Setting for MemorySetting {
    fn expects() -> String {
        "off | on | {from: owner | any}".to_owned()
    }

    fn read(place: &ValueCursor<'_>) -> Option<Self> {
        let memory_use = match place.text() {
            Some("off" | "false") => MemoryUse::Off,
            Some("on" | "true") => MemoryUse::FromOwner,
            _ if matches!(place.node.value, NodeValue::Map(_)) => {
                place.report_unknown_keys(&["from"]);
                let from = place.read_key("from", "owner".to_owned());
                match &*from {
                    "owner" => MemoryUse::FromOwner,
                    "any" => MemoryUse::FromAny,
                    _ => return place.mismatch(&Self::expects()),
                }
            }
            _ => return place.mismatch(&Self::expects()),
        };
        Some(Self(memory_use))
    }
}

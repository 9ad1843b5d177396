//! Background reviews of sessions.

use serde::{Serialize, Serializer};

use super::BoundedCount;
use crate::config::{
    node::NodeValue,
    schema::inline_schema,
    setting::{Setting, ValueCursor, settings},
};

settings! {
    /// The conditions of a review, and the reviewer.
    ReviewFields {
        /// A session is reviewed after this many turns …
        turns: BoundedCount<1, 1000> = BoundedCount(10),
        /// … or after this many tool calls, whichever comes first.
        tool_calls: BoundedCount<1, 100_000> = BoundedCount(10),
        /// The number of requests that a review may send.
        iterations: BoundedCount<1, 1000> = BoundedCount(16),
        /// `PROVIDER/MODEL` that reviews. `null`: the session's own, whose provider has the conversation
        /// in its cache; another one gets a digest.
        model: Option<String> = None,
        /// The profile with `executor: native` that reviews, and whose memory is filled. `null`: the
        /// session's own. Required by every other executor.
        profile: Option<String> = None,
    }
}

/// Whether sessions are reviewed in the background.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ReviewSetting(pub(crate) Option<ReviewFields>);

inline_schema!(ReviewSetting, {
    "anyOf": [
        {"enum": ["off", "on", false, true]},
        {
            "type": "object",
            "properties": {
                "turns": {"type": "integer", "minimum": 1, "maximum": 1000},
                "tool_calls": {"type": "integer", "minimum": 1, "maximum": 100_000},
                "iterations": {"type": "integer", "minimum": 1, "maximum": 1000},
                "model": {"type": ["string", "null"]},
                "profile": {"type": ["string", "null"]},
            },
            "additionalProperties": false,
        },
    ],
});

impl Serialize for ReviewSetting {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            None => serializer.serialize_str("off"),
            Some(fields) => fields.serialize(serializer),
        }
    }
}

impl Setting for ReviewSetting {
    fn expects() -> String {
        "off | on | {turns, tool_calls, iterations, model, profile}".to_owned()
    }

    fn read(place: &ValueCursor<'_>) -> Option<Self> {
        match place.text() {
            Some("off" | "false") => Some(Self(None)),
            Some("on" | "true") => Some(Self(Some(ReviewFields::default()))),
            _ if matches!(place.node.value, NodeValue::Map(_)) => {
                ReviewFields::read(place).map(|fields| Self(Some(fields)))
            }
            _ => place.mismatch(&Self::expects()),
        }
    }
}

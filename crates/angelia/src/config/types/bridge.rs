//! The block for people who come from Hermes: the keys of a profile and a few additional ones, with
//! Hermes's defaults.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::Value as Json;

use super::{BoundedCount, ExecutorName, Limit, Period, Profile};
use crate::config::setting::{Setting, SettingsBlock as _, ValueCursor, settings};

settings! {
    /// The keys of Hermes's block besides those of a profile.
    Hermes {
        /// Use this profile where none is named.
        enabled: bool = false,
        /// Let a session's next turn continue the agent's own conversation.
        resume_claude_sessions: bool = false,
    }
}

/// The whole block. Its additional keys come first when it is shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct BridgeProfile {
    #[serde(flatten)]
    pub(crate) hermes: Hermes,
    #[serde(flatten)]
    pub(crate) profile: Profile,
}

impl Default for BridgeProfile {
    fn default() -> Self {
        Self {
            profile: Profile {
                executor: ExecutorName::Claude,
                timeout: Limit(Period::seconds(600)),
                budget_seconds: Some(Limit(Period::seconds(480))),
                budget_tool_count: Some(BoundedCount(20)),
                ..Profile::default()
            },
            hermes: Hermes::default(),
        }
    }
}

impl Setting for BridgeProfile {
    fn expects() -> String {
        "a mapping".to_owned()
    }

    fn read(place: &ValueCursor<'_>) -> Option<Self> {
        place.require_map("a mapping")?;
        let known: Vec<&str> = Hermes::KEYS.iter().chain(Profile::KEYS).copied().collect();
        place.as_profile(place.node).report_unknown_keys(&known);
        let own = place.node.with_keys(|key| Hermes::KEYS.contains(&key));
        let rest = place.node.with_keys(|key| Profile::KEYS.contains(&key));
        let hermes = Hermes::read(&place.as_profile(&own))?;
        let profile = Profile::read_over(Self::default().profile, &place.as_profile(&rest))?;
        Some(Self { hermes, profile })
    }
}

impl JsonSchema for BridgeProfile {
    fn schema_name() -> Cow<'static, str> {
        "Bridge".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = Hermes::json_schema(generator);
        let mut profile = Profile::json_schema(generator);
        let inherited = profile.get_mut("properties").map(Json::take);
        if let (Some(Json::Object(keys)), Some(Json::Object(more))) =
            (schema.get_mut("properties"), inherited)
        {
            keys.extend(more);
            let defaults = serde_json::to_value(Self::default()).unwrap_or_default();
            for (key, schema) in keys.iter_mut() {
                if let Json::Object(schema) = schema {
                    schema.insert("default".to_owned(), defaults[key].clone());
                }
            }
        }
        let about = "Hermes's block: the keys of a profile and a few of its own.";
        schema.insert("description".to_owned(), about.into());
        schema
    }
}

//! The block of people who come from Hermes: the keys of a profile and a few of its own, with
//! Hermes's defaults.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer, ser::Error as _};
use serde_json::Value as Json;

use super::{BoundedCount, ExecutorName, Limit, Period, Profile};
use crate::config::{
    problem::Problem,
    setting::{Section, Setting, SettingsBlock, ValueCursor, settings, unknown_key},
};

settings! {
    /// The keys of Hermes's block besides those of a profile.
    Hermes {
        /// Use this profile where none is named.
        enabled: bool = false,
        /// Let a session's next turn continue the agent's own conversation.
        resume_claude_sessions: bool = false,
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BridgeProfile {
    pub(crate) profile: Profile,
    pub(crate) hermes: Hermes,
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

    fn read(place: &ValueCursor<'_>, problems: &mut Vec<Problem>) -> Option<Self> {
        Section::open(place, problems)?;
        let known: Vec<&str> = Hermes::KEYS.iter().chain(Profile::KEYS).copied().collect();
        let mut rest = place.node.clone();
        let mut own = place.node.clone();
        for entry in place.node.entries() {
            let key = entry.key.as_str();
            if Hermes::KEYS.contains(&key) {
                rest.remove(key);
                continue;
            }
            own.remove(key);
            if !Profile::KEYS.contains(&key) {
                rest.remove(key);
                let block = ValueCursor::new(place.node, &place.path, "profiles.*");
                problems.push(unknown_key(entry, &block, &known));
            }
        }
        let hermes = Hermes::read(&ValueCursor::new(&own, &place.path, &place.shape), problems)?;
        let rest = ValueCursor::new(&rest, &place.path, "profiles.*");
        let profile = Profile::read_over(Self::default().profile, &rest, problems)?;
        Some(Self { profile, hermes })
    }
}

/// Serializes one block, as it is written in the file: first its own keys, then the profile's.
impl Serialize for BridgeProfile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let hermes = serde_json::to_value(&self.hermes).map_err(S::Error::custom)?;
        let profile = serde_json::to_value(&self.profile).map_err(S::Error::custom)?;
        let own = Hermes::KEYS.iter().map(|key| (key, &hermes[key]));
        let rest = Profile::KEYS.iter().map(|key| (key, &profile[key]));
        serializer.collect_map(own.chain(rest))
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

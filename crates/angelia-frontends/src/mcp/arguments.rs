//! The arguments of the tools. The schemas that clients see are generated from these types,
//! including the field comments, which models read as tool descriptions.

use schemars::JsonSchema;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::ToolCallError;

/// Arguments of `delegate`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DelegateArgs {
    /// The profile that does the work.
    pub profile: String,
    /// What to do, with everything the other agent must know: it has not heard this conversation.
    pub task: String,
    /// Go on with this session, which an earlier call named; else a new one is begun.
    #[serde(default)]
    pub session: Option<String>,
}

/// Arguments of `sessions_list` and `approvals_pending`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PageArgs {
    /// How many, newest first; 20 when not given, 100 at most.
    #[serde(default)]
    pub limit: Option<u32>,
    /// Only what is older: `next` of the page before.
    #[serde(default)]
    pub before: Option<String>,
}

/// Arguments of `sessions_show`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowSessionArgs {
    /// The session's id.
    pub session: String,
    /// How many turns, newest first; 10 when not given, 20 at most. Long texts are shortened.
    #[serde(default)]
    pub limit: Option<u32>,
    /// Only older turns: `next` of the page before.
    #[serde(default)]
    pub before: Option<String>,
    /// Instead of the list: this one turn, with its whole answer, piece by piece.
    #[serde(default)]
    pub turn: Option<String>,
    /// Where in the answer of `turn` to go on: `next_offset` of the piece before.
    #[serde(default)]
    pub offset: Option<u64>,
}

/// Arguments of `bus_send`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BusSendArgs {
    /// The endpoint that gets it.
    pub target: String,
    /// What kind of message it is; rules match on it.
    #[serde(rename = "type")]
    pub kind: String,
    /// The text, sent as it is.
    pub text: String,
    /// Where a reply goes: `platform` or `platform:chat_id`.
    #[serde(default)]
    pub channel: Option<String>,
}

/// Arguments of `bus_status` and `bus_info`.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoArgs {}

/// Parses the arguments of a call. The error names the wrong field, so that the model can correct
/// it.
pub(super) fn parse_arguments<T: DeserializeOwned>(
    said: Option<Map<String, Value>>,
) -> Result<T, ToolCallError> {
    let said = Value::Object(said.unwrap_or_default());
    serde_path_to_error::deserialize(said).map_err(|error| {
        let place = error.path().to_string();
        let place = match place.as_str() {
            "." => String::new(),
            place => format!("{place}: "),
        };
        ToolCallError::new(format!("the arguments are invalid: {place}{}", error.inner()))
    })
}

/// Returns the schema of a tool's arguments.
pub(super) fn arguments_schema<T: JsonSchema>() -> Map<String, Value> {
    let mut schema = Value::from(schemars::schema_for!(T));
    let Some(fields) = schema.as_object_mut() else {
        return Map::new();
    };
    // The model reads the whole schema, but has no use for its dialect and the name of our type.
    for name in ["$schema", "title", "description"] {
        fields.remove(name);
    }
    fields.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    std::mem::take(fields)
}

//! The JSON schema of requests and events, generated from the types that read and write them.

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::{BridgeEvent, BridgeRequest};

/// Returns the schema of one line, in either direction.
pub fn schema() -> Value {
    // The serialized form: fields that are skipped when empty are not required.
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut generator = settings.into_generator();
    let request = generator.subschema_for::<BridgeRequest>();
    let event = generator.subschema_for::<BridgeEvent<'_>>();
    let definitions = generator.take_definitions(true);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "angelia bridge",
        "description": "One line of `angelia bridge`: a request on its stdin, an event on its stdout.",
        "oneOf": [request, event],
        "$defs": definitions,
    })
}

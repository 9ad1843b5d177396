//! The JSON schema of the lines, generated from the types that encode and decode them.

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::protocol::{
    Abilities, Failure, FileContent, Findings, ProgramMessage, ProgramRequest, Sent,
};

/// Returns the schema of one line, in either direction.
pub fn schema() -> Value {
    let mut ours = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let request = ours.subschema_for::<ProgramRequest<'_>>();
    let mut definitions = ours.take_definitions(true);
    let mut theirs = SchemaSettings::draft2020_12().for_deserialize().into_generator();
    let message = theirs.subschema_for::<ProgramMessage>();
    let failure = theirs.subschema_for::<Failure>();
    let results = [
        theirs.subschema_for::<Abilities>(),
        theirs.subschema_for::<Sent>(),
        theirs.subschema_for::<Findings>(),
        theirs.subschema_for::<FileContent>(),
        schemars::json_schema!({"type": "object"}),
    ];
    definitions.extend(theirs.take_definitions(true));
    let answer = |id: Value, result: Value| {
        json!({
            "type": "object",
            "properties": {"id": id, "result": result, "error": failure},
            "required": ["id"],
        })
    };
    let with_id = |schema: Value, id: Value| {
        json!({"allOf": [
            schema,
            {"type": "object", "properties": {"id": id}, "required": ["id"]},
        ]})
    };
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "angelia channel program",
        "description": "One line between Angelia and a program that is the adapter of a chat platform.",
        "$defs": definitions,
        "anyOf": [
            {
                "title": "On the program's standard input",
                "anyOf": [
                    with_id(json!(request), json!({"type": "integer"})),
                    answer(json!({"description": "The id of the event."}), json!({"type": "object"})),
                ],
            },
            {
                "title": "On the program's standard output",
                "anyOf": [
                    message,
                    answer(json!({"type": "integer"}), json!({"anyOf": results})),
                ],
            },
        ],
    })
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    #[expect(
        clippy::disallowed_methods,
        reason = "asks whether the file is to be written; no part of the program"
    )]
    fn update() -> bool {
        std::env::var_os("UPDATE_DOCS").is_some()
    }

    #[test]
    fn the_schema_in_the_docs_is_current() {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/channel-program.schema.json");
        let text = format!("{:#}\n", super::schema());
        if update() {
            fs::write(&path, &text).unwrap();
        }
        assert!(
            fs::read_to_string(&path).unwrap_or_default() == text,
            "docs/channel-program.schema.json is not current: run `UPDATE_DOCS=1 cargo test -p \
             angelia-frontends the_schema_in_the_docs`"
        );
    }
}

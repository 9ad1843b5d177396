//! Decodes the output format of both dialects.

use serde_json::value::RawValue;

use super::super::dialect::{InvalidRequest, OutputFormat, json};

/// Decodes an output format. `kind` is the `type` of the format at `field`; its schema is at
/// `field.inner`.
pub(super) fn output(
    kind: &str,
    schema: Option<&RawValue>,
    field: &str,
    inner: &str,
) -> Result<OutputFormat, InvalidRequest> {
    match (kind, schema) {
        ("text", _) => Ok(OutputFormat::Text),
        ("json_object", _) => Ok(OutputFormat::Json),
        ("json_schema", Some(schema)) if json::is_object(schema) => {
            Ok(OutputFormat::Schema(schema.to_owned().into()))
        }
        ("json_schema", _) => {
            let field = format!("{field}.{inner}");
            Err(InvalidRequest::in_field(field, "there must be a JSON schema"))
        }
        (other, _) => {
            let why = format!("`{other}` is not one of text, json_object, json_schema");
            Err(InvalidRequest::in_field(format!("{field}.type"), why))
        }
    }
}

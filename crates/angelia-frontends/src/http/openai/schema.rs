//! Decodes the output format of both dialects.

use serde_json::value::RawValue;

use super::super::dialect::{Output, Refused, json};

/// Decodes an output format. `kind` is the `type` of the format at `field`; its schema is at
/// `field.inner`.
pub(super) fn output(
    kind: &str,
    schema: Option<&RawValue>,
    field: &str,
    inner: &str,
) -> Result<Output, Refused> {
    match (kind, schema) {
        ("text", _) => Ok(Output::Text),
        ("json_object", _) => Ok(Output::Json),
        ("json_schema", Some(schema)) if json::is_object(schema) => {
            Ok(Output::Schema(schema.to_owned().into()))
        }
        ("json_schema", _) => {
            let place = format!("{field}.{inner}");
            Err(Refused::new(format!("{place}: there must be a JSON schema")).at(place))
        }
        (other, _) => {
            let place = format!("{field}.type");
            let known = "text, json_object, json_schema";
            let message = format!("{place}: `{other}` is not one of {known}");
            Err(Refused::new(message).at(place))
        }
    }
}

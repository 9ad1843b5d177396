//! The JSON schema of `config.yaml`, for editors and for `config schema`.

use super::types::ConfigFile;

pub(crate) fn schema() -> String {
    let schema = schemars::schema_for!(ConfigFile);
    let mut text = serde_json::to_string_pretty(&schema).unwrap_or_default();
    text.push('\n');
    text
}

/// Implements `JsonSchema` inline for a type with a literal schema.
macro_rules! inline_schema {
    ($name:ident $(<$(const $bound:ident: $kind:ty),+>)?, $schema:tt) => {
        impl$(<$(const $bound: $kind),+>)? schemars::JsonSchema for $name$(<$($bound),+>)? {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!($schema)
            }
        }
    };
}
pub(super) use inline_schema;

//! The JSON schema of `config.yaml`, for editors and for `config schema`.

use super::types::ConfigFile;

pub(crate) fn schema() -> String {
    let schema = schemars::schema_for!(ConfigFile);
    let mut text = serde_json::to_string_pretty(&schema).unwrap_or_default();
    text.push('\n');
    text
}

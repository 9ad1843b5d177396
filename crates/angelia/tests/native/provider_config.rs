//! Configurations with one provider on loopback.

use angelia_executors::native::provider::Api;
use serde_json::{Value, json};

/// Returns a configuration whose default profile asks the model `m` at this address; `more` are
/// further settings of the profile.
pub(crate) fn configuration(api: Api, base_url: &str, more: &Value) -> String {
    let mut profile = json!({"executor": "native", "model": "local/m", "trust": "off",
        "permissions": "unattended", "sandbox": "off"});
    for (name, value) in more.as_object().unwrap() {
        profile[name] = value.clone();
    }
    let provider = json!({"api": api.as_str(), "base_url": base_url});
    // JSON is valid YAML.
    json!({"providers": {"local": provider}, "profiles": {"default": profile}}).to_string()
}

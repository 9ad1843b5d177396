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

/// A key of a guest who may use the default profile, as the header of a request.
pub(crate) const GUEST_KEY: &str =
    "x-api-key: angelia-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\r\n";

/// Lets the guest use the agents of the default profile over the model APIs.
pub(crate) fn admit_guest(config: &mut Value) {
    let sha256 = "e6d00f33ab649488f9b5cc6dfece913dfb2b2f845c8d84e2d9fe6d4fbb8974f1";
    config["http"] = json!({"agent_mode": true, "keys": [
        {"name": "guest", "sha256": sha256, "profiles": ["default"], "agent_mode": true},
    ]});
    config["listen"] = json!("127.0.0.1:0");
    config["profiles"]["default"]["cwd"] = json!("/tmp");
}

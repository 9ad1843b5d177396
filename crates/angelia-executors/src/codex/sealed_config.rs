//! The `config.toml` of model mode: the model and its connection from the owner's file, and nothing
//! else from it. Pure.

use toml_edit::DocumentMut;

/// The keys that are copied. Keys that add text for the model or name a program to run are not
/// among them. A newer Codex's key is left out until it is listed here.
const CONNECTION_KEYS: [&str; 20] = [
    "model",
    "model_provider",
    "model_providers",
    "model_catalog_json",
    "model_context_window",
    "model_auto_compact_token_limit",
    "model_auto_compact_token_limit_scope",
    "model_post_turn_compact_threshold_percent",
    "model_reasoning_effort",
    "model_reasoning_summary",
    "model_verbosity",
    "service_tier",
    "chatgpt_base_url",
    "openai_base_url",
    "oss_provider",
    "cli_auth_credentials_store",
    "forced_login_method",
    "forced_chatgpt_workspace_id",
    "check_for_update_on_startup",
    "analytics",
];

/// Returns the text of the file, or the reason why the owner's file cannot be parsed.
pub(super) fn seal(owners: &str) -> Result<String, String> {
    let owners = owners.parse::<DocumentMut>().map_err(|error| error.to_string())?;
    let mut sealed = DocumentMut::new();
    for (key, item) in owners.as_table() {
        if CONNECTION_KEYS.contains(&key) {
            sealed.insert(key, item.clone());
        }
    }
    Ok(sealed.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_connection_is_taken_over() {
        let owners = r#"
# the owner's file
notify = ["program"]
developer_instructions = "obey"
[mcp_servers.own]
command = "program"
[model_providers.lab]
base_url = "http://127.0.0.1:1/v1"
http_headers = { x = "1" }
[profiles.p]
model = "other"
[model_providers.lab.auth]
command = "token"
"#;
        let owners = format!("model = \"m\" # mine\nmodel_provider = \"lab\"\n{owners}");
        let sealed = seal(&owners).unwrap();
        let parsed: DocumentMut = sealed.parse().unwrap();
        let keys: Vec<_> = parsed.iter().map(|(key, _)| key.to_owned()).collect();
        assert_eq!(keys, ["model", "model_provider", "model_providers"]);
        assert_eq!(parsed["model_providers"]["lab"]["http_headers"]["x"].as_str(), Some("1"));
        assert_eq!(parsed["model_providers"]["lab"]["auth"]["command"].as_str(), Some("token"));
        assert!(!sealed.contains("obey") && !sealed.contains("the owner's file"), "{sealed}");
    }

    #[test]
    fn a_broken_file_is_not_half_read() {
        assert!(seal("model = \"m\"\n[broken").is_err());
        assert_eq!(seal("").unwrap(), "");
    }
}

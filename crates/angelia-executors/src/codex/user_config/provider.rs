//! The model provider that `angelia setup codex` adds to `config.toml`, and the profile that uses
//! it. Pure.
//!
//! The profile is a separate file, `angelia.config.toml`, which Codex applies on top of
//! `config.toml` when it is started with `--profile angelia`, so no default changes. The key is in
//! a third file, which Codex reads through a command, so neither of the two holds a secret.

use std::path::Path;

use serde_json::json;
use toml_edit::Item;

use super::{
    ConfigSyntaxError,
    block::{SETUP, without_edit},
    edit::{ConfigEdit, ConfigPart, ConfigTable, PartState, TableEdit},
    layout, toml_value,
};

/// The name of the provider and of the profile.
pub const PROVIDER_NAME: &str = "angelia";

/// The file of the profile, next to `config.toml`.
pub const PROFILE_FILE: &str = "angelia.config.toml";

/// The address of the provider, and the file that holds its key.
#[derive(Clone, Copy, Debug)]
pub struct ProviderSettings<'a> {
    /// The address, including `/v1`.
    pub base_url: &'a str,
    pub key_file: &'a Path,
}

/// Returns `text` with the provider, which replaces the one that Angelia wrote before. `text` is
/// `None` if there is no file. A provider of the user's own with this name stays.
pub fn with_provider(
    text: Option<&str>,
    provider: &ProviderSettings<'_>,
) -> Result<ConfigEdit, ConfigSyntaxError> {
    let base = match text {
        Some(text) => without_provider(text)?,
        None => None,
    };
    let document = layout::parse(base.as_deref().unwrap_or_default())?;
    let has = |table: &str| {
        let table = document.get(table).and_then(Item::as_table_like);
        table.is_some_and(|table| table.contains_key(PROVIDER_NAME))
    };
    // Codex rejects `--profile NAME` if `config.toml` has a table for it, as older versions used.
    let own = ["model_providers", "profiles"].into_iter().find(|table| has(table));
    let name = format!("model_providers.{PROVIDER_NAME}");
    let (state, pieces) = match (own, provider.key_file.to_str()) {
        (Some(table), _) => {
            let kept = format!("your own `[{table}.{PROVIDER_NAME}]` stays");
            (PartState::Kept(kept), Vec::new())
        }
        (None, None) => {
            (PartState::Failed("the path of the key is not UTF-8".to_owned()), Vec::new())
        }
        (None, Some(key_file)) => {
            let lines = provider_lines(provider.base_url, key_file);
            (PartState::Written, vec![ConfigTable { name: name.clone(), lines }])
        }
    };
    let parts = vec![ConfigPart { name, state, ignored_keys: Vec::new() }];
    let edit =
        TableEdit { base: base.as_deref(), document: &document, marks: &SETUP, permissions: false };
    Ok(edit.apply(pieces, parts))
}

/// Returns the text without the provider, or `None` if Angelia created the file.
pub fn without_provider(text: &str) -> Result<Option<String>, ConfigSyntaxError> {
    without_edit(text, &SETUP)
}

fn provider_lines(base_url: &str, key_file: &str) -> Vec<String> {
    let settings = [
        ("name", json!("Angelia")),
        ("base_url", json!(base_url)),
        ("wire_api", json!("responses")),
        ("auth", json!({"command": "cat", "args": [key_file]})),
    ];
    let line = |(name, value)| Some(format!("{name} = {}", toml_value::to_inline(&value)?));
    settings.into_iter().filter_map(line).collect()
}

/// Returns the settings of the profile.
pub fn profile_lines(model: &str) -> [String; 2] {
    [
        format!("model_provider = {}", toml_value::quote(PROVIDER_NAME)),
        format!("model = {}", toml_value::quote(model)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codex::user_config::{DesiredConfig, with_angelia_config, without_angelia_config};

    fn settings() -> ProviderSettings<'static> {
        ProviderSettings {
            base_url: "http://127.0.0.1:4376/v1",
            key_file: Path::new("/h/clients/codex.key"),
        }
    }

    fn with(text: &str) -> ConfigEdit {
        with_provider(Some(text), &settings()).unwrap()
    }

    fn without(text: &str) -> String {
        without_provider(text).unwrap().unwrap()
    }

    #[test]
    fn the_provider_is_marked_and_goes_away_to_the_byte() {
        let written = with("model = \"m\" # mine");
        insta::assert_snapshot!(written.text, @r#"
        model = "m" # mine
        # >>> angelia setup codex: ours down to `<<<`, changes in it are lost; `angelia setup codex --undo` takes it away [open line]
        [model_providers.angelia] # angelia setup codex
        name = "Angelia"
        base_url = "http://127.0.0.1:4376/v1"
        wire_api = "responses"
        auth = { command = "cat", args = ["/h/clients/codex.key"] }
        # <<< angelia setup codex: model_providers.angelia
        "#);
        for text in
            ["", "\n", "a = 1", "a = 1\r\n[t]\r\n", "[model_providers.other]\nname = \"x\"\n"]
        {
            let written = with(text);
            assert_eq!(written.parts[0].state, PartState::Written, "{written:?}");
            assert_eq!(with(&written.text), written, "once more changes nothing");
            assert_eq!(without(&written.text), text);
        }
        let new = with_provider(None, &settings()).unwrap().text;
        assert_eq!(without_provider(&new).unwrap(), None);
    }

    #[test]
    fn the_users_own_provider_and_profile_stay() {
        for text in [
            "[model_providers.angelia]\nname = \"mine\"\n",
            "[profiles.angelia]\nmodel = \"m\"\n",
            "model_providers = { angelia = { name = \"mine\" } }\n",
        ] {
            let kept = with(text);
            assert!(matches!(kept.parts[0].state, PartState::Kept(_)), "{kept:?}");
            assert_eq!(kept.text, text);
        }
        let refused = with("model_providers = {}\n");
        assert!(matches!(refused.parts[0].state, PartState::Failed(_)), "{refused:?}");
        assert_eq!(refused.text, "model_providers = {}\n");
    }

    #[test]
    fn the_two_commands_leave_each_other_alone() {
        let wish = DesiredConfig {
            workspace_writes: true,
            plugins: vec!["p@q".to_owned()],
            ..DesiredConfig::default()
        };
        let text = "model = \"m\"\n[features]\nx = true\n";
        let enabled = with_angelia_config(Some(text), &wish).unwrap().text;
        let both = with(&enabled).text;
        assert_eq!(without(&both), enabled);
        assert_eq!(with_angelia_config(Some(&both), &wish).unwrap().text.len(), both.len());
        let disabled = without_angelia_config(&both).unwrap().unwrap();
        assert_eq!(disabled, with(text).text);
        assert_eq!(without(&disabled), text);
    }
}

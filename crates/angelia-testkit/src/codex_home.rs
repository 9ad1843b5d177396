//! A private `CODEX_HOME` that uses the scripted model server.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::json;

use crate::real;

/// The environment variable that holds the scripted model's API key, where one is needed.
pub const KEY_VARIABLE: &str = "SCRIPTED_MODEL_KEY";

/// A model of Codex's own catalogue that has ordinary tools.
pub const MODEL: &str = "gpt-5.5";

/// The login that Codex must have for the scripted provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodexLogin {
    /// The API key in [`KEY_VARIABLE`].
    Key,
    /// An account from `codex login`; no test is logged in this way.
    Account,
}

/// Creates the folder and its config.toml, with `more` appended to it.
pub fn create(
    folder: PathBuf,
    base_url: &str,
    login: CodexLogin,
    more: &str,
) -> io::Result<PathBuf> {
    fs::create_dir_all(&folder)?;
    let login = match login {
        CodexLogin::Key => format!("env_key = \"{KEY_VARIABLE}\""),
        CodexLogin::Account => "requires_openai_auth = true".to_owned(),
    };
    let config = format!(
        "model = \"{MODEL}\"\n\
         model_provider = \"scripted\"\n\
         check_for_update_on_startup = false\n\
         [model_providers.scripted]\n\
         name = \"Scripted\"\n\
         base_url = \"{base_url}/v1\"\n\
         wire_api = \"responses\"\n\
         request_max_retries = 1\n\
         stream_max_retries = 1\n\
         {login}\n\
         {more}"
    );
    fs::write(folder.join("config.toml"), config)?;
    Ok(folder)
}

/// Gives [`MODEL`] a context window larger than any test needs, by replacing the catalogue with one
/// that contains only this model.
pub fn widen_context_window(folder: &Path) -> io::Result<()> {
    let model = json!({
        "slug": MODEL, "display_name": "Scripted", "description": "", "priority": 1,
        "visibility": "list", "supported_in_api": true, "supported_reasoning_levels": [],
        "supports_reasoning_summaries": false, "support_verbosity": false,
        "supports_parallel_tool_calls": false, "experimental_supported_tools": [],
        "base_instructions": "You are scripted.", "shell_type": "unified_exec",
        "apply_patch_tool_type": "freeform", "input_modalities": ["text", "image"],
        "truncation_policy": {"mode": "tokens", "limit": 10_000},
        "context_window": 100_000_000, "max_context_window": 100_000_000,
    });
    let catalogue = folder.join("models.json");
    fs::write(&catalogue, json!({"models": [model]}).to_string())?;
    let config = folder.join("config.toml");
    let rest = fs::read_to_string(&config)?;
    let first = format!("model_catalog_json = {:?}\n", catalogue.display().to_string());
    fs::write(config, first + &rest)
}

/// Reports whether Codex has a record of this thread on disk.
pub fn has_record(folder: &Path, thread: &str) -> bool {
    real::contains_file_named(&folder.join("sessions"), thread)
}

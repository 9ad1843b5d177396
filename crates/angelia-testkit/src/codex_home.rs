//! A private `CODEX_HOME` that uses the scripted model server.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use angelia_executors::codex::selftest;
pub use angelia_executors::codex::selftest::{KEY_VARIABLE, MODEL};
use serde_json::json;

use crate::real;

/// The login that the scripted provider requires of Codex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodexLogin {
    /// The API key in [`KEY_VARIABLE`].
    Key,
    /// An account from `codex login`. No test is logged in this way.
    Account,
}

/// Creates the folder and its config.toml, to which `more` is appended.
pub fn create(
    folder: PathBuf,
    base_url: &str,
    login: CodexLogin,
    more: &str,
) -> io::Result<PathBuf> {
    fs::create_dir_all(&folder)?;
    let login = match login {
        CodexLogin::Key => selftest::key_login(),
        CodexLogin::Account => "requires_openai_auth = true".to_owned(),
    };
    let config = selftest::model_config(base_url, &login) + more;
    fs::write(folder.join("config.toml"), config)?;
    Ok(folder)
}

/// Gives [`MODEL`] a larger context window than any test needs, by replacing the catalogue with one
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

/// Returns whether Codex has a record of this thread on disk.
pub fn has_record(folder: &Path, thread: &str) -> bool {
    real::contains_file_named(&folder.join("sessions"), thread)
}

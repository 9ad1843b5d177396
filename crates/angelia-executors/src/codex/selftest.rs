//! Drives Codex with a scripted model.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use angelia_core::model::SessionSpec;
use serde_json::json;

use crate::{
    scripted_model::directive::tool_call_directive,
    selftest::{PrivateFolders, ScriptedAgent, TestedVersions},
};

/// The version that our tests run.
const TESTED_VERSION: &str = "0.166.0";

/// The environment variable that holds the scripted model's API key, if one is needed.
pub const KEY_VARIABLE: &str = "SCRIPTED_MODEL_KEY";

/// A model from Codex's own catalogue that has ordinary tools.
pub const MODEL: &str = "gpt-5.5";

/// Returns a `config.toml` that uses the model at `base_url`. `login` is the line that specifies
/// the login that the model needs.
pub fn model_config(base_url: &str, login: &str) -> String {
    format!(
        "model = \"{MODEL}\"\n\
         model_provider = \"scripted\"\n\
         check_for_update_on_startup = false\n\
         [model_providers.scripted]\n\
         name = \"Scripted\"\n\
         base_url = \"{base_url}/v1\"\n\
         wire_api = \"responses\"\n\
         request_max_retries = 1\n\
         stream_max_retries = 1\n\
         {login}\n"
    )
}

/// Returns the line for a login with the key in [`KEY_VARIABLE`].
pub fn key_login() -> String {
    format!("env_key = \"{KEY_VARIABLE}\"")
}

#[derive(Debug)]
pub(super) struct CodexSelftest;

fn home(folders: &PrivateFolders) -> PathBuf {
    folders.root().join("codex")
}

impl ScriptedAgent for CodexSelftest {
    fn tested_versions(&self, _version: &str) -> Option<TestedVersions> {
        Some(TestedVersions::only(TESTED_VERSION))
    }

    fn connect(
        &self,
        spec: &mut SessionSpec,
        folders: &PrivateFolders,
        base_url: &str,
    ) -> io::Result<()> {
        let home = home(folders);
        fs::create_dir_all(&home)?;
        fs::write(home.join("config.toml"), model_config(base_url, &key_login()))?;
        spec.env.insert("CODEX_HOME".into(), home.to_string_lossy().into());
        spec.env.insert(KEY_VARIABLE.into(), "dummy".into());
        Ok(())
    }

    fn command_call(&self, command: &str) -> String {
        tool_call_directive("exec_command", &json!({"cmd": command}))
    }

    fn write_call(&self, path: &Path, line: &str) -> String {
        let path = path.display();
        let text = format!("*** Begin Patch\n*** Add File: {path}\n+{line}\n*** End Patch");
        tool_call_directive("apply_patch", &json!(text))
    }

    fn caller_tool_call(&self, tool: &str) -> Option<String> {
        Some(tool_call_directive(tool, &json!({})))
    }

    fn instructions_file(&self, folders: &PrivateFolders) -> Option<PathBuf> {
        Some(home(folders).join("AGENTS.md"))
    }
}

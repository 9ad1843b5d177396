//! Drives Claude Code with a scripted model.

use std::{
    io,
    path::{Path, PathBuf},
};

use angelia_core::model::SessionSpec;
use serde_json::json;

use super::version::{ALL_OPTIONS_SINCE, NEWEST_VERIFIED};
use crate::{
    scripted_model::directive::tool_call_directive,
    selftest::{PrivateFolders, ScriptedAgent, TestedVersions},
};

/// A key that no server accepts, in the format of a real one.
pub const DUMMY_KEY: &str = "sk-ant-dummy-key-of-the-tests";

/// Returns the variables that make the program talk only to the model at `base_url`.
pub fn model_variables(base_url: &str) -> Vec<(&'static str, String)> {
    vec![
        ("ANTHROPIC_BASE_URL", base_url.to_owned()),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
        ("DISABLE_TELEMETRY", "1".to_owned()),
        ("DISABLE_AUTOUPDATER", "1".to_owned()),
        ("DISABLE_ERROR_REPORTING", "1".to_owned()),
    ]
}

/// Returns the variables of [`model_variables`], plus a private runtime folder and a single retry,
/// so that a failure is reported soon.
pub fn private_variables(folders: &PrivateFolders, base_url: &str) -> Vec<(&'static str, String)> {
    let runtime = folders.runtime_dir().to_string_lossy().into_owned();
    let mut variables = model_variables(base_url);
    variables.push(("XDG_RUNTIME_DIR", runtime));
    variables.push(("CLAUDE_CODE_MAX_RETRIES", "1".to_owned()));
    variables
}

#[derive(Debug)]
pub(super) struct ClaudeSelftest;

impl ScriptedAgent for ClaudeSelftest {
    fn tested_versions(&self, _version: &str) -> Option<TestedVersions> {
        Some(TestedVersions {
            oldest: ALL_OPTIONS_SINCE.to_string(),
            newest: NEWEST_VERIFIED.to_string(),
        })
    }

    fn connect(
        &self,
        spec: &mut SessionSpec,
        folders: &PrivateFolders,
        base_url: &str,
    ) -> io::Result<()> {
        spec.model = Some("sonnet".into());
        for (name, value) in private_variables(folders, base_url) {
            spec.env.insert(name.into(), value.into());
        }
        spec.env.insert("ANTHROPIC_API_KEY".into(), DUMMY_KEY.into());
        Ok(())
    }

    fn command_call(&self, command: &str) -> String {
        let input = json!({"command": command, "description": "a command of the self-test"});
        tool_call_directive("Bash", &input)
    }

    fn write_call(&self, path: &Path, line: &str) -> String {
        let input = json!({"file_path": path, "content": format!("{line}\n")});
        tool_call_directive("Write", &input)
    }

    fn caller_tool_call(&self, tool: &str) -> Option<String> {
        Some(tool_call_directive(&format!("mcp__client__{tool}"), &json!({})))
    }

    fn instructions_file(&self, folders: &PrivateFolders) -> Option<PathBuf> {
        Some(folders.home().join(".claude/CLAUDE.md"))
    }
}

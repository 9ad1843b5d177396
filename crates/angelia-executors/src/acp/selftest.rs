//! Drives ACP agents with a scripted model. The protocol cannot tell an agent which model to use,
//! so every agent gets the variables of all agents that we know.

use std::{
    io,
    path::{Path, PathBuf},
};

use angelia_core::model::SessionSpec;
use serde_json::json;

use crate::{
    claude::selftest as claude,
    scripted_model::directive::any_tool_call_directive,
    selftest::{PrivateFolders, ScriptedAgent, TestedVersions},
};

/// The agents that our tests run: part of the name, in lower case, and the version.
const TESTED_AGENTS: [(&str, &str); 3] =
    [("claude", "0.49.0"), ("gemini", "0.61.0"), ("opencode", "1.18.33")];

/// Returns variables that keep Gemini CLI from opening a browser, from restarting itself, and from
/// asking one model which other model to use.
pub fn gemini_variables() -> [(&'static str, &'static str); 3] {
    [("GEMINI_CLI_NO_RELAUNCH", "true"), ("NO_BROWSER", "1"), ("GEMINI_MODEL", "gemini-2.5-flash")]
}

/// Returns variables that make Gemini CLI use the model at `base_url` with a dummy key.
pub fn gemini_login(base_url: &str) -> [(&'static str, String); 2] {
    [("GEMINI_API_KEY", "dummy".to_owned()), ("GOOGLE_GEMINI_BASE_URL", base_url.to_owned())]
}

/// Variables that keep `OpenCode` from using the network except for its model; each is set to 1.
pub const OPENCODE_SWITCHES: [&str; 5] = [
    "OPENCODE_DISABLE_AUTOUPDATE",
    "OPENCODE_DISABLE_MODELS_FETCH",
    "OPENCODE_DISABLE_LSP_DOWNLOAD",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS",
    "DO_NOT_TRACK",
];

/// Returns variables that make `OpenCode` use a provider of the Messages dialect at `base_url`.
pub fn opencode_variables(base_url: &str) -> Vec<(&'static str, String)> {
    let limit = json!({"context": 100_000, "output": 4096});
    let model = |name: &str| json!({"name": name, "limit": limit});
    let config = json!({
        "model": "fake/m1", "small_model": "fake/m1", "autoupdate": false, "share": "disabled",
        "permission": {"bash": "ask", "edit": "ask"},
        "provider": {"fake": {
            "npm": "@ai-sdk/anthropic", "name": "Fake",
            "options": {"baseURL": format!("{base_url}/v1"), "apiKey": "dummy"},
            "models": {"m1": model("M1"), "m2": model("M2")},
        }},
    });
    let mut variables = vec![("OPENCODE_CONFIG_CONTENT", config.to_string())];
    variables.extend(OPENCODE_SWITCHES.map(|name| (name, "1".to_owned())));
    variables
}

#[derive(Debug)]
pub(super) struct AcpSelftest;

impl ScriptedAgent for AcpSelftest {
    fn tested_versions(&self, version: &str) -> Option<TestedVersions> {
        let name = version.to_lowercase();
        let known = TESTED_AGENTS.iter().find(|(part, _)| name.contains(part));
        known.map(|(_, version)| TestedVersions::only(version))
    }

    fn connect(
        &self,
        spec: &mut SessionSpec,
        folders: &PrivateFolders,
        base_url: &str,
    ) -> io::Result<()> {
        let mut set = |name: &str, value: &str| {
            spec.env.insert(name.into(), value.into());
        };
        set("ANTHROPIC_API_KEY", claude::DUMMY_KEY);
        let variables = claude::private_variables(folders, base_url).into_iter();
        let variables = variables.chain(gemini_login(base_url)).chain(opencode_variables(base_url));
        for (name, value) in variables {
            set(name, &value);
        }
        for (name, value) in gemini_variables() {
            set(name, value);
        }
        Ok(())
    }

    fn command_call(&self, command: &str) -> String {
        let input = json!({"command": command, "description": "a command of the self-test"});
        any_tool_call_directive(
            &["Bash", "run_shell_command", "bash"].map(|name| (name, input.clone())),
        )
    }

    fn write_call(&self, path: &Path, line: &str) -> String {
        let content = format!("{line}\n");
        let input = json!({"file_path": path, "content": content});
        any_tool_call_directive(&[
            ("Write", input.clone()),
            ("write_file", input),
            ("write", json!({"filePath": path, "content": content})),
        ])
    }

    fn caller_tool_call(&self, _tool: &str) -> Option<String> {
        None
    }

    /// Returns `false`, because the protocol leaves it to the agent whether it keeps conversations.
    fn must_resume(&self) -> bool {
        false
    }

    fn instructions_file(&self, _folders: &PrivateFolders) -> Option<PathBuf> {
        None
    }
}

//! The real ACP agents, as `cargo xtask setup` installs them, and the settings each one needs to
//! talk only to a model on loopback. A test that needs one fails when it is missing; it is never
//! skipped.

use serde_json::json;

use crate::{
    isolated_home::IsolatedHome,
    real::{self, CLAUDE_KEY, ProgramNotInstalled, RealClaude},
};

/// The command and environment that start an agent in a test.
#[derive(Clone, Debug)]
pub struct AcpAgent {
    pub command: Vec<String>,
    /// Variables in addition to those of the [`IsolatedHome`].
    pub env: Vec<(String, String)>,
}

fn find(path: &str) -> Result<String, ProgramNotInstalled> {
    let path = real::require_installed(&format!("acp-agents/node_modules/{path}"))?;
    Ok(path.to_string_lossy().into_owned())
}

impl AcpAgent {
    fn new(command: Vec<String>, env: &[(&str, &str)]) -> Self {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Self { command, env: env.collect() }
    }

    /// Returns `claude-agent-acp` with its bundled Claude Code, against the Messages API at
    /// `base_url`.
    pub fn claude(place: &IsolatedHome, base_url: &str) -> Result<Self, ProgramNotInstalled> {
        let script = find("@agentclientprotocol/claude-agent-acp/dist/index.js")?;
        let variables = RealClaude::variables(place, base_url).into_iter();
        Ok(Self {
            command: vec!["node".to_owned(), script],
            env: variables.map(|(name, value)| (name.to_owned(), value)).collect(),
        })
    }

    /// Like [`Self::claude`], with a dummy API key.
    pub fn claude_with_key(
        place: &IsolatedHome,
        base_url: &str,
    ) -> Result<Self, ProgramNotInstalled> {
        let mut agent = Self::claude(place, base_url)?;
        agent.env.push(("ANTHROPIC_API_KEY".to_owned(), CLAUDE_KEY.to_owned()));
        Ok(agent)
    }
}

impl AcpAgent {
    /// Returns Gemini CLI with a dummy key, against the Gemini API at `base_url`. The model is
    /// named explicitly, because otherwise Gemini CLI asks another model which one to use.
    pub fn gemini(base_url: &str) -> Result<Self, ProgramNotInstalled> {
        let mut agent = Self::gemini_without_key()?;
        for (name, value) in [("GEMINI_API_KEY", "dummy"), ("GOOGLE_GEMINI_BASE_URL", base_url)] {
            agent.env.push((name.to_owned(), value.to_owned()));
        }
        Ok(agent)
    }

    /// Like [`Self::gemini`], but not logged in. The address is left out too: Gemini CLI accepts an
    /// address alone as a login.
    pub fn gemini_without_key() -> Result<Self, ProgramNotInstalled> {
        let script = find("@google/gemini-cli/bundle/gemini.js")?;
        let arguments = ["--acp", "-m", "gemini-2.5-flash"];
        let mut command = vec!["node".to_owned(), script];
        command.extend(arguments.map(str::to_owned));
        let env = [("GEMINI_CLI_NO_RELAUNCH", "true"), ("NO_BROWSER", "1")];
        Ok(Self::new(command, &env))
    }

    /// Returns `OpenCode` with a provider at `base_url` that speaks the Messages dialect.
    pub fn opencode(base_url: &str) -> Result<Self, ProgramNotInstalled> {
        let program = find("opencode-1.18.33-linux-x64/bin/opencode")?;
        let config = json!({
            "model": "fake/m1", "small_model": "fake/m1", "autoupdate": false, "share": "disabled",
            "permission": {"bash": "ask", "edit": "ask"},
            "provider": {"fake": {
                "npm": "@ai-sdk/anthropic", "name": "Fake",
                "options": {"baseURL": format!("{base_url}/v1"), "apiKey": "dummy"},
                "models": {
                    "m1": {"name": "M1", "limit": {"context": 100_000, "output": 4096}},
                    "m2": {"name": "M2", "limit": {"context": 100_000, "output": 4096}},
                },
            }},
        });
        Ok(Self::new(
            vec![program, "acp".to_owned()],
            &[
                ("OPENCODE_CONFIG_CONTENT", &config.to_string()),
                ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
                ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
                ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
                ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1"),
                ("DO_NOT_TRACK", "1"),
            ],
        ))
    }
}

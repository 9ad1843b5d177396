//! The real ACP agents installed by `cargo xtask setup`, and the settings with which each of them
//! talks only to a model on loopback. A test that needs a missing agent fails; it is never skipped.

use angelia_executors::acp::selftest;

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
    /// Returns `claude-agent-acp` with its bundled Claude Code, against the Messages API at
    /// `base_url`.
    pub fn claude(place: &IsolatedHome, base_url: &str) -> Result<Self, ProgramNotInstalled> {
        let variables = RealClaude::variables(place, base_url).into_iter();
        Ok(Self {
            command: Self::claude_command()?,
            env: variables.map(|(name, value)| (name.to_owned(), value)).collect(),
        })
    }

    /// Returns the command line of `claude-agent-acp`.
    pub fn claude_command() -> Result<Vec<String>, ProgramNotInstalled> {
        let script = find("@agentclientprotocol/claude-agent-acp/dist/index.js")?;
        Ok(vec!["node".to_owned(), script])
    }

    /// Returns the same agent as [`Self::claude`], with a dummy API key.
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
        agent
            .env
            .extend(selftest::gemini_login(base_url).map(|(name, value)| (name.to_owned(), value)));
        Ok(agent)
    }

    /// Returns the same agent as [`Self::gemini`], but not logged in. Omits the address too,
    /// because Gemini CLI accepts an address alone as a login.
    pub fn gemini_without_key() -> Result<Self, ProgramNotInstalled> {
        let script = find("@google/gemini-cli/bundle/gemini.js")?;
        let arguments = ["--acp", "-m", "gemini-2.5-flash"];
        let mut command = vec!["node".to_owned(), script];
        command.extend(arguments.map(str::to_owned));
        let env = selftest::gemini_variables();
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Ok(Self { command, env: env.into() })
    }

    /// Returns `OpenCode` with a provider at `base_url` that speaks the Messages dialect.
    pub fn opencode(base_url: &str) -> Result<Self, ProgramNotInstalled> {
        let program = find("opencode-1.18.33-linux-x64/bin/opencode")?;
        let variables = selftest::opencode_variables(base_url).into_iter();
        Ok(Self {
            command: vec![program, "acp".to_owned()],
            env: variables.map(|(name, value)| (name.to_owned(), value)).collect(),
        })
    }
}

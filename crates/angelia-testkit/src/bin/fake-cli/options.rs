//! Options from the command line and the environment.

use std::{
    env,
    fs::File,
    io::{self, Write as _},
    path::PathBuf,
    time::Duration,
};

use angelia_executors::scripted_claude::{ClaudeSetup, TokenCounting, TokenCounts};
use serde_json::{Value, json};

const DEFAULT_MODEL: &str = "claude-opus-5-5";

/// The capabilities of newer versions, under the names that clients check.
const CAPABILITIES: [&str; 4] = [
    "interrupt_receipt_v1",
    "interrupt_cancel_queued_v1",
    "msg_lifecycle_v1",
    "sdk_mcp_tools_list_changed",
];

/// The token counts of every message.
const MESSAGE_TOKENS: TokenCounts = TokenCounts {
    input: 11,
    output: 25,
    cache_read: 3000,
    cache_creation_5m: 20,
    cache_creation_1h: 100,
    cost_micros: 2044,
};

#[derive(Debug)]
pub(crate) struct CliOptions {
    pub(crate) show_version: bool,
    pub(crate) auth_status: bool,
    pub(crate) version: String,
    pub(crate) session: String,
    pub(crate) model: String,
    pub(crate) permission_mode: String,
    pub(crate) partials: bool,
    pub(crate) replay: bool,
    pub(crate) asks: bool,
    pub(crate) allowed: String,
    pub(crate) words: Option<usize>,
    pub(crate) start: Duration,
    pub(crate) log: Option<PathBuf>,
    pub(crate) arguments: Vec<String>,
    /// The login method as named by `auth status`; `None` when logged out.
    pub(crate) login: Option<&'static str>,
}

impl CliOptions {
    pub(crate) fn read() -> Self {
        let arguments: Vec<String> = env::args().skip(1).collect();
        let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
        let value = |flag: &str| {
            let at = arguments.iter().position(|argument| argument == flag)?;
            arguments.get(at + 1).cloned()
        };
        let number = |name: &str| variable(name).and_then(|value| value.parse().ok());
        let session = value("--resume").filter(|_| !has("--fork-session"));
        let session = value("--session-id").or(session);
        Self {
            show_version: has("--version") || has("-v"),
            auth_status: arguments.starts_with(&["auth".to_owned(), "status".to_owned()]),
            version: variable("FAKE_CLI_VERSION").unwrap_or_else(|| "2.1.325".into()),
            session: session.unwrap_or_else(|| uuid::Uuid::new_v4().to_string()),
            model: value("--model").unwrap_or_else(|| DEFAULT_MODEL.into()),
            permission_mode: value("--permission-mode").unwrap_or_else(|| "default".into()),
            partials: has("--include-partial-messages"),
            replay: has("--replay-user-messages"),
            asks: value("--permission-prompt-tool").is_some(),
            allowed: value("--allowedTools").unwrap_or_default(),
            words: number("FAKE_CLI_WORDS").and_then(|words| usize::try_from(words).ok()),
            start: Duration::from_millis(number("FAKE_CLI_START_MS").unwrap_or_default()),
            log: variable("FAKE_CLI_LOG").map(PathBuf::from),
            login: login(),
            arguments,
        }
    }

    pub(crate) fn setup(&self) -> io::Result<ClaudeSetup> {
        let mut input_log = None;
        if let Some(path) = &self.log {
            let log = input_log.insert(File::options().create(true).append(true).open(path)?);
            writeln!(log, "{}", json!({"arguments": self.arguments}))?;
        }
        Ok(ClaudeSetup {
            session: self.session.clone(),
            model: self.model.clone(),
            default_model: DEFAULT_MODEL,
            version: self.version.clone(),
            permission_mode: self.permission_mode.clone(),
            partial_messages: self.partials,
            message_ids: self.is_new(),
            counting: TokenCounting::PerMessage(MESSAGE_TOKENS),
            context_window: Some(1_000_000),
            initialize_fields: self.initialize_fields(),
            init_fields: self.init_fields(),
            input_log,
        })
    }

    /// Returns whether the simulated version identifies user messages by their ids and has the
    /// newer lines.
    fn is_new(&self) -> bool {
        self.version != "2.1.197"
    }

    fn initialize_fields(&self) -> Value {
        let mut account = json!({"tokenSource": "none", "apiProvider": "firstParty"});
        match self.login {
            Some("oauth_token") => account["tokenSource"] = json!("CLAUDE_CODE_OAUTH_TOKEN"),
            Some(_) => account["apiKeySource"] = json!("ANTHROPIC_API_KEY"),
            None => {}
        }
        let mut fields = json!({"available_output_styles": ["default"], "models": [{
            "value": "default", "resolvedModel": DEFAULT_MODEL, "displayName": "Default"}],
            "account": account});
        if self.is_new() {
            fields["claude_code_version"] = json!(self.version);
            fields["session_state"] = json!("idle");
            fields["capabilities"] = json!(["ui_surface_v1"]);
        }
        fields
    }

    fn init_fields(&self) -> Value {
        let source = match self.login {
            Some("api_key") => "ANTHROPIC_API_KEY",
            _ => "none",
        };
        let mut fields = json!({"tools": ["Bash", "Edit", "Read", "Write"],
            "slash_commands": ["clear", "compact", "context"], "apiKeySource": source,
            "claude_code_version": self.version, "output_style": "default", "agents": [],
            "skills": [], "plugins": [], "fast_mode_state": "off"});
        if self.is_new() {
            fields["capabilities"] = json!(CAPABILITIES);
            fields["original_cwd"] = json!(env::current_dir().unwrap_or_default());
        }
        fields
    }
}

fn login() -> Option<&'static str> {
    if variable("FAKE_CLI_LOGGED_OUT").is_some() {
        None
    } else if variable("CLAUDE_CODE_OAUTH_TOKEN").is_some() {
        Some("oauth_token")
    } else {
        Some("api_key")
    }
}

#[expect(clippy::disallowed_methods, reason = "a test steers this process by its environment")]
fn variable(name: &str) -> Option<String> {
    env::var(name).ok()
}

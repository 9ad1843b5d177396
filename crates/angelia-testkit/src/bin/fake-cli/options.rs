//! Options from the command line and the environment.

use std::{env, path::PathBuf, time::Duration};

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
    /// The login method, as `auth status` names it; `None` when logged out.
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
            model: value("--model").unwrap_or_else(|| "claude-opus-5-5".into()),
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

    /// Reports whether the played version names user messages by their ids and has the newer lines.
    pub(crate) fn is_new(&self) -> bool {
        self.version != "2.1.197"
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

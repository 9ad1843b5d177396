//! For people who come from Plano's Claude bridge: its six `CLAUDE_CLI_*` variables. Like Plano, we
//! ignore a value that cannot be read.

use super::{
    environment::Environment,
    node::{Node, ValueOrigin},
    setting::TextSetting,
    types::{ListenAddress, ProgramPath},
};

/// The variable, the key it sets, and the function that converts its value.
const VARIABLES: [(&str, &[&str], ValueConverter); 6] = [
    ("CLAUDE_CLI_LISTEN_ADDR", &["listen"], checked::<ListenAddress>),
    ("CLAUDE_CLI_BIN", &["executors", "claude", "binary"], checked::<ProgramPath>),
    ("CLAUDE_CLI_PERMISSION_MODE", &["executors", "claude", "permissions"], convert_permissions),
    ("CLAUDE_CLI_SESSION_TTL_SECS", &["sessions", "idle_ttl"], convert_session_ttl),
    (
        "CLAUDE_CLI_WATCHDOG_SECS",
        &["executors", "claude", "inter_event_silence_timeout"],
        convert_positive,
    ),
    ("CLAUDE_CLI_MAX_SESSIONS", &["sessions", "max_live"], convert_max_sessions),
];

type ValueConverter = fn(&str) -> Option<String>;

pub(crate) fn apply_variables(tree: &mut Node, environment: &Environment) {
    for (name, path, convert) in VARIABLES {
        let value = environment.non_empty(name).and_then(|value| value.to_str());
        if let Some(value) = value.and_then(|value| convert(value.trim())) {
            let origin = ValueOrigin::Variable(name.into());
            tree.set(path, Node::untyped(&value, origin));
        }
    }
}

/// Returns the text unchanged if it can be parsed as a value of the type.
fn checked<T: TextSetting>(text: &str) -> Option<String> {
    T::parse(text).map(|_| text.to_owned())
}

/// Converts Claude Code's own permission modes. We never use its bypass flag: `bypassPermissions`
/// becomes `unattended`, in which Angelia approves every request.
fn convert_permissions(text: &str) -> Option<String> {
    let word = match text {
        "default" | "plan" | "dontAsk" => "ask",
        "acceptEdits" => "edit",
        "bypassPermissions" => "unattended",
        _ => return None,
    };
    Some(word.to_owned())
}

/// Converts the lifetime of a session. In Plano, 0 means forever.
fn convert_session_ttl(text: &str) -> Option<String> {
    match text.parse::<u32>().ok()? {
        0 => Some("3650d".to_owned()),
        seconds => Some(seconds.to_string()),
    }
}

fn convert_positive(text: &str) -> Option<String> {
    let number: u32 = text.parse().ok()?;
    (number > 0).then(|| number.to_string())
}

fn convert_max_sessions(text: &str) -> Option<String> {
    let number: u32 = text.parse().ok()?;
    (1..=4096).contains(&number).then(|| number.to_string())
}

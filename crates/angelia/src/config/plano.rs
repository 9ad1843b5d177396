//! For people who come from Plano's Claude bridge: its six `CLAUDE_CLI_*` variables. Like Plano, we
//! ignore a value that cannot be read.

use std::net::SocketAddr;

use super::{
    environment::Environment,
    node::{Node, Origin},
};

/// The variable, the key it sets, and the function that converts its value.
const VARIABLES: [(&str, &[&str], Reader); 6] = [
    ("CLAUDE_CLI_LISTEN_ADDR", &["listen"], address),
    ("CLAUDE_CLI_BIN", &["executors", "claude", "binary"], program),
    ("CLAUDE_CLI_PERMISSION_MODE", &["executors", "claude", "permissions"], permissions),
    ("CLAUDE_CLI_SESSION_TTL_SECS", &["sessions", "idle_ttl"], life),
    ("CLAUDE_CLI_WATCHDOG_SECS", &["executors", "claude", "inter_event_silence_timeout"], count),
    ("CLAUDE_CLI_MAX_SESSIONS", &["sessions", "max_live"], places),
];

type Reader = fn(&str) -> Option<String>;

pub(crate) fn apply_variables(tree: &mut Node, environment: &Environment) {
    for (name, path, read) in VARIABLES {
        let value = environment.non_empty(name).and_then(|value| value.to_str());
        if let Some(value) = value.and_then(|value| read(value.trim())) {
            let origin = Origin::Variable(name.into());
            tree.set(path, Node::loose(&value, origin));
        }
    }
}

fn address(text: &str) -> Option<String> {
    let address: SocketAddr = text.parse().ok()?;
    Some(address.to_string())
}

fn program(text: &str) -> Option<String> {
    let named = !text.contains('/');
    (named || text.starts_with('/') || text.starts_with("~/")).then(|| text.to_owned())
}

/// Converts Claude Code's own permission modes. We never use its bypass flag: `bypassPermissions`
/// becomes `unattended`, where Angelia approves every request.
fn permissions(text: &str) -> Option<String> {
    let word = match text {
        "default" | "plan" | "dontAsk" => "ask",
        "acceptEdits" => "edit",
        "bypassPermissions" => "unattended",
        _ => return None,
    };
    Some(word.to_owned())
}

/// In Plano, 0 means forever.
fn life(text: &str) -> Option<String> {
    match text.parse::<u32>().ok()? {
        0 => Some("3650d".to_owned()),
        seconds => Some(seconds.to_string()),
    }
}

fn count(text: &str) -> Option<String> {
    let number: u32 = text.parse().ok()?;
    (number > 0).then(|| number.to_string())
}

fn places(text: &str) -> Option<String> {
    let number: u32 = text.parse().ok()?;
    (1..=4096).contains(&number).then(|| number.to_string())
}

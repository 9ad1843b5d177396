//! Converts a profile's MCP server to a table in Codex's `config.toml`. Pure.
//!
//! An unknown key or a wrong type would make Codex reject the whole file. Only keys and types that
//! Codex is known to accept are therefore written; the others are reported.

use angelia_core::model::RawJson;
use serde_json::{Map, Value};

use super::toml_value;
use crate::codex::mcp;

/// The type that a value must have.
#[derive(Clone, Copy, Debug)]
enum ValueKind {
    Text,
    Texts,
    /// A table of strings.
    Table,
    Flag,
    Seconds,
    Milliseconds,
    Approval,
    /// A table of tools, each with an `approval_mode`.
    Approvals,
}

/// The transport for which a key is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerTransport {
    Command,
    Url,
    Both,
}

const KEYS: [(&str, ServerTransport, ValueKind); 22] = [
    ("command", ServerTransport::Command, ValueKind::Text),
    ("args", ServerTransport::Command, ValueKind::Texts),
    ("env", ServerTransport::Command, ValueKind::Table),
    ("env_vars", ServerTransport::Command, ValueKind::Texts),
    ("cwd", ServerTransport::Command, ValueKind::Text),
    ("url", ServerTransport::Url, ValueKind::Text),
    ("http_headers", ServerTransport::Url, ValueKind::Table),
    ("env_http_headers", ServerTransport::Url, ValueKind::Table),
    ("bearer_token_env_var", ServerTransport::Url, ValueKind::Text),
    ("http_headers_helper", ServerTransport::Url, ValueKind::Text),
    ("scopes", ServerTransport::Url, ValueKind::Texts),
    ("oauth", ServerTransport::Url, ValueKind::Table),
    ("oauth_resource", ServerTransport::Url, ValueKind::Text),
    ("startup_timeout_sec", ServerTransport::Both, ValueKind::Seconds),
    ("startup_timeout_ms", ServerTransport::Both, ValueKind::Milliseconds),
    ("tool_timeout_sec", ServerTransport::Both, ValueKind::Seconds),
    ("enabled", ServerTransport::Both, ValueKind::Flag),
    ("required", ServerTransport::Both, ValueKind::Flag),
    ("enabled_tools", ServerTransport::Both, ValueKind::Texts),
    ("disabled_tools", ServerTransport::Both, ValueKind::Texts),
    ("default_tools_approval_mode", ServerTransport::Both, ValueKind::Approval),
    ("tools", ServerTransport::Both, ValueKind::Approvals),
];

/// A longer timeout is treated as a mistake; Codex rejects far longer ones.
const MAX_TIMEOUT_SECONDS: f64 = 1e9;

/// The lines of a table, and the keys of the definition that are missing from them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ServerTable {
    pub(super) lines: Vec<String>,
    pub(super) ignored_keys: Vec<String>,
}

/// Converts a server. The error says why the server cannot be written at all.
pub(super) fn to_server_table(name: &str, server: &RawJson) -> Result<ServerTable, String> {
    let theirs =
        mcp::to_codex_server(name, server).map_err(|failure| failure.message.to_string())?;
    let is_command = theirs.contains_key("command");
    let fits = |of: ServerTransport| {
        of == ServerTransport::Both || (of == ServerTransport::Command) == is_command
    };
    let mut lines = Vec::new();
    for (key, of, kind) in KEYS {
        let Some(value) = theirs.get(key).filter(|_| fits(of)) else {
            continue;
        };
        if let Some(text) = kind.to_toml(value) {
            lines.push(format!("{key} = {text}"));
        } else if matches!(key, "command" | "url" | "args" | "env" | "http_headers") {
            // Without this key, it would be a different server.
            return Err(format!("Codex does not accept its `{key}`"));
        }
    }
    if theirs.contains_key("startup_timeout_sec") {
        lines.retain(|line| !line.starts_with("startup_timeout_ms"));
    }
    let mut left_out = find_ignored_keys(&theirs, &lines);
    if is_command && has_headers(server) {
        left_out.push("headers".to_owned());
    }
    Ok(ServerTable { lines, ignored_keys: left_out })
}

fn find_ignored_keys(theirs: &Map<String, Value>, lines: &[String]) -> Vec<String> {
    let written = |key: &str| lines.iter().any(|line| line.split(' ').next() == Some(key));
    let keys = theirs.keys().filter(|key| !written(key));
    keys.cloned().collect()
}

fn has_headers(server: &RawJson) -> bool {
    let server = serde_json::from_str::<Map<String, Value>>(server.get());
    server.is_ok_and(|server| server.contains_key("headers"))
}

impl ValueKind {
    fn to_toml(self, given: &Value) -> Option<String> {
        let is_text = |value: &Value| value.as_str().is_some_and(|text| !text.contains('\0'));
        let fits = match self {
            Self::Text => is_text(given),
            Self::Texts => given.as_array()?.iter().all(is_text),
            Self::Table => given.as_object()?.values().all(is_text),
            Self::Flag => given.is_boolean(),
            Self::Seconds => (0.0..=MAX_TIMEOUT_SECONDS).contains(&given.as_f64()?),
            Self::Milliseconds => given.as_u64().is_some_and(|ms| ms <= 1_000_000_000_000),
            Self::Approval => is_approval_mode(given),
            Self::Approvals => given.as_object()?.values().all(|tool| {
                let tool = tool.as_object();
                tool.is_some_and(|tool| {
                    tool.len() == 1 && tool.get("approval_mode").is_some_and(is_approval_mode)
                })
            }),
        };
        fits.then(|| toml_value::to_inline(given)).flatten()
    }
}

fn is_approval_mode(given: &Value) -> bool {
    matches!(given.as_str(), Some("auto" | "prompt" | "writes" | "approve"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(json: &str) -> Result<ServerTable, String> {
        let raw = serde_json::value::RawValue::from_string(json.to_owned()).unwrap();
        to_server_table("docs", &raw.into())
    }

    #[test]
    fn what_is_known_is_written_and_the_rest_is_named() {
        let table = of(r#"{"type":"stdio","command":"run","args":["x"],"env":{"A B":"1"},
            "timeout":5,"headers":{},"url2":1,"scopes":["s"],"required":"yes","tool_timeout_sec":1.5,
            "startup_timeout_sec":3,"startup_timeout_ms":3000}"#)
        .unwrap();
        let lines = [
            r#"command = "run""#,
            r#"args = ["x"]"#,
            r#"env = { "A B" = "1" }"#,
            "startup_timeout_sec = 3",
            "tool_timeout_sec = 1.5",
        ];
        assert_eq!(table.lines, lines);
        let mut left_out = table.ignored_keys;
        left_out.sort();
        assert_eq!(
            left_out,
            ["headers", "required", "scopes", "startup_timeout_ms", "timeout", "url2"]
        );

        let table = of(r#"{"url":"http://x","headers":{"A":"1"},"cwd":"/"}"#).unwrap();
        let lines = [r#"url = "http://x""#, r#"http_headers = { A = "1" }"#];
        assert_eq!(table.lines, lines);
        assert_eq!(table.ignored_keys, ["cwd"]);
    }

    #[test]
    fn what_would_be_another_server_is_none() {
        for json in [
            "[]",
            "{}",
            r#"{"type":"sse","url":"http://x"}"#,
            r#"{"command":1}"#,
            r#"{"command":"x","args":"y"}"#,
            r#"{"command":"x","args":["a\u0000b"]}"#,
            r#"{"command":"x","env":{"A":1}}"#,
            r#"{"url":"http://x","headers":["y"]}"#,
        ] {
            assert!(of(json).is_err(), "{json}");
        }
    }
}

//! Converts a profile's `mcp_servers` to Codex's format. Pure.
//!
//! A profile uses Claude Code's format: `command`, `args`, `env`, or `url` and `headers`. Keys that
//! have the same name in Codex, and keys that only Codex knows, are passed on.

use angelia_core::model::{Failure, FailureKind, RawJson};
use serde_json::{Map, Value, json};

use crate::process::ProcessMark;

/// The name under which Angelia's own tools (`angelia mcp`) are offered.
pub(super) const OWN_SERVER: &str = "angelia";

/// A timeout in seconds. It is long because a delegated turn may take any time and has its own
/// timeouts.
pub(super) const OWN_TIMEOUT_SECONDS: u32 = 86_400;

/// Keys that Codex rejects or names differently.
const UNSUPPORTED_KEYS: [&str; 3] = ["type", "transport", "headers"];

/// Converts one server for a thread's `mcp_servers`. Adds the process mark to the server's `env`,
/// because Codex gives its servers only a minimal environment.
pub(super) fn to_thread_server(
    name: &str,
    server: &RawJson,
    mark: &ProcessMark,
) -> Result<Value, Failure> {
    let mut theirs = to_codex_server(name, server)?;
    if name == OWN_SERVER {
        theirs.entry("tool_timeout_sec").or_insert_with(|| json!(OWN_TIMEOUT_SECONDS));
    }
    if theirs.contains_key("command") {
        let (variable, value) = mark.env_variable();
        theirs
            .entry("env")
            .or_insert_with(|| json!({}))
            .as_object_mut()
            .ok_or_else(|| invalid_server(name, "has an `env` that is not a table"))?
            .insert(variable.to_owned(), value.into());
    }
    Ok(theirs.into())
}

/// Converts one server, without anything specific to a thread.
pub(super) fn to_codex_server(name: &str, server: &RawJson) -> Result<Map<String, Value>, Failure> {
    let Ok(ours) = serde_json::from_str::<Map<String, Value>>(server.get()) else {
        return Err(invalid_server(name, "is not a table of settings"));
    };
    let kind = ours.get("type").or(ours.get("transport")).and_then(Value::as_str);
    if kind == Some("sse") {
        return Err(invalid_server(name, "speaks SSE, which Codex does not"));
    }
    let headers = ours.get("headers").cloned();
    let has_own_login = ours.get("oauth").is_some_and(is_own_login);
    let mut theirs: Map<String, Value> =
        (ours.into_iter()).filter(|(key, _)| !UNSUPPORTED_KEYS.contains(&key.as_str())).collect();
    if has_own_login {
        theirs.remove("oauth");
    }
    if theirs.contains_key("command") {
        return Ok(theirs);
    }
    if !theirs.contains_key("url") {
        return Err(invalid_server(name, "has neither a `command` nor a `url`"));
    }
    if let Some(headers) = headers {
        theirs.insert("http_headers".to_owned(), headers);
    }
    Ok(theirs)
}

/// Reports whether `oauth` is meant for our own loop's logins. Codex uses other keys there and
/// rejects unknown ones.
fn is_own_login(oauth: &Value) -> bool {
    ["issuer", "device_url", "token_url", "scope"].iter().any(|key| oauth.get(key).is_some())
}

fn invalid_server(name: &str, what: &str) -> Failure {
    let message = format!("`mcp_servers: {name}` {what}");
    Failure::new(FailureKind::Invalid, message)
        .with_hint("give it `command`, `args`, `env`, or `url` and `headers`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(json: &str) -> Result<Value, Failure> {
        let raw = serde_json::value::RawValue::from_string(json.to_owned()).unwrap();
        to_thread_server("docs", &raw.into(), &"home:owner:agent".parse().unwrap())
    }

    #[test]
    fn a_command_carries_the_mark() {
        let theirs = translated(r#"{"type":"stdio","command":"run","args":["x"],"env":{"A":"1"}}"#);
        assert_eq!(
            theirs.unwrap(),
            json!({"command": "run", "args": ["x"],
                "env": {"A": "1", "ANGELIA_AGENT": "home:owner:agent"}})
        );
    }

    #[test]
    fn a_remote_one_keeps_its_headers_under_another_name() {
        let theirs =
            translated(r#"{"type":"http","url":"http://x","headers":{"A":"1"},"required":true}"#);
        assert_eq!(
            theirs.unwrap(),
            json!({"url": "http://x", "http_headers": {"A": "1"}, "required": true})
        );
    }

    #[test]
    fn a_login_of_our_own_is_left_out_and_one_of_codex_stays() {
        let ours = translated(
            r#"{"url":"https://x","oauth":{"issuer":"https://id","client_id":"a","scope":"b"}}"#,
        );
        assert_eq!(ours.unwrap(), json!({"url": "https://x"}));
        let theirs = translated(r#"{"url":"https://x","oauth":{"client_id":"a"}}"#);
        assert_eq!(theirs.unwrap(), json!({"url": "https://x", "oauth": {"client_id": "a"}}));
    }

    #[test]
    fn what_cannot_start_is_refused() {
        for json in ["[]", "{}", r#"{"type":"sse","url":"http://x"}"#, r#"{"command":"x","env":1}"#]
        {
            let failure = translated(json).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Invalid, "{json}");
            assert!(failure.message.contains("docs") && failure.hint.is_some());
        }
    }
}

//! Turns agents' JSON-RPC errors into failures with a hint. Agents do not agree on error codes, so
//! where the code is not specific, the text decides.

use angelia_core::model::{Failure, FailureKind};
use angelia_wire::jsonrpc::{self, ErrorObject};
use serde_json::Value;

use super::protocol::handshake::AgentDescription;
use crate::truncation::truncate_chars;

/// ACP's own error code for "log in first".
const AUTH_REQUIRED: i64 = -32000;

/// Limits how much of an error's text is quoted.
const MAX_QUOTED_CHARS: usize = 600;

/// Words that indicate a missing or failed login, in lower case.
const AUTH_WORDS: [&str; 13] = [
    "api key",
    "api-key",
    "api_key",
    "apikey",
    "unauthorized",
    "unauthenticated",
    "authentication",
    "authenticate",
    "not logged in",
    "log in",
    "login",
    "credential",
    "oauth",
];

const QUOTA_WORDS: [&str; 5] =
    ["rate limit", "rate_limit", "quota", "usage limit", "resource_exhausted"];

const NETWORK_WORDS: [&str; 10] = [
    "fetch failed",
    "econnrefused",
    "econnreset",
    "enotfound",
    "etimedout",
    "unable to connect",
    "connection error",
    "connection refused",
    "network",
    "overloaded",
];

const LOST_SESSION_WORDS: [&str; 5] = [
    "session not found",
    "no conversation found",
    "unknown session",
    "no previous sessions",
    "not found",
];

/// Which agent failed, and at what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AcpFailureContext<'a> {
    pub(crate) agent: &'a AgentDescription,
    /// Completes the phrase "could not …".
    pub(crate) action: &'a str,
}

impl AcpFailureContext<'_> {
    pub(crate) fn describe(&self, error: &ErrorObject) -> Failure {
        let text = error_text(error);
        let agent = self.agent.name();
        let (kind, hint) = self.classify(error.code, &text);
        let message = format!(
            "{agent} could not {}: {}",
            self.action,
            truncate_chars(&text, MAX_QUOTED_CHARS)
        );
        let failure = Failure::new(kind, message);
        match hint {
            Some(hint) => failure.with_hint(hint),
            None => failure,
        }
    }

    fn classify(&self, code: i64, text: &str) -> (FailureKind, Option<String>) {
        let lower = text.to_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| lower.contains(word));
        let again = || Some("try again later".to_owned());
        match code {
            AUTH_REQUIRED | 401 | 403 => (FailureKind::Auth, Some(self.login_hint())),
            429 => (FailureKind::RateLimited, again()),
            408 | 500..=599 => (FailureKind::Unavailable, again()),
            _ if says(&LOST_SESSION_WORDS) && lower.contains("session") => (
                FailureKind::Invalid,
                Some("the agent no longer has this conversation; start a new session".to_owned()),
            ),
            _ if says(&QUOTA_WORDS) || has_number(&lower, "429") => {
                (FailureKind::RateLimited, again())
            }
            _ if says(&AUTH_WORDS) || has_number(&lower, "401") => {
                (FailureKind::Auth, Some(self.login_hint()))
            }
            _ if says(&NETWORK_WORDS) => (
                FailureKind::Unavailable,
                Some("check the network and the agent's own settings, then try again".to_owned()),
            ),
            404 => (FailureKind::Invalid, Some("check `model` in the profile".to_owned())),
            400..=499 | jsonrpc::INVALID_PARAMS => (FailureKind::Invalid, None),
            _ => (
                FailureKind::Agent,
                Some("run the profile's `command` by hand to see more".to_owned()),
            ),
        }
    }

    /// Returns a hint on how to log in, using the agent's own description if it has one.
    pub(crate) fn login_hint(&self) -> String {
        let agent = self.agent.name();
        let ways = self.agent.login_methods.join("; ");
        if ways.is_empty() {
            return format!(
                "log in with {agent}'s own program, or set its key in `env` of the profile"
            );
        }
        let ways = truncate_chars(&ways, MAX_QUOTED_CHARS);
        format!(
            "log in with {agent}'s own program ({ways}), or set its key in `env` of the profile"
        )
    }
}

/// Reports whether an error means that the agent is not logged in.
pub(crate) fn is_auth_error(error: &ErrorObject) -> bool {
    let greeting = AgentDescription::default();
    let around = AcpFailureContext { agent: &greeting, action: "" };
    around.classify(error.code, &error_text(error)).0 == FailureKind::Auth
}

/// Returns the whole text of an error. Some agents embed the JSON of an upstream error, whose
/// message is extracted.
pub(crate) fn error_text(error: &ErrorObject) -> String {
    let mut text = nested_message(&error.message).unwrap_or_else(|| error.message.to_string());
    let data: Option<Value> =
        error.data.as_deref().and_then(|data| serde_json::from_str(data.get()).ok());
    let details = data.as_ref().and_then(|data| {
        let fields = ["details", "message", "error"];
        let field = fields.iter().find_map(|field| data.get(field)?.as_str());
        field.or(data.as_str())
    });
    if let Some(details) = details.filter(|details| !text.contains(details)) {
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&nested_message(details).unwrap_or_else(|| details.to_owned()));
    }
    if text.trim().is_empty() {
        text = format!("error {}", error.code);
    }
    text
}

fn nested_message(text: &str) -> Option<String> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    let value: Value = serde_json::from_str(text).ok()?;
    let message = value.pointer("/error/message").or(value.get("message"))?;
    message.as_str().map(str::to_owned)
}

/// Reports whether a number appears as a separate word. Digits inside an id do not count: most
/// errors quote a session id, which can contain any digits.
fn has_number(text: &str, number: &str) -> bool {
    text.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == number)
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    fn failure(code: i64, message: &str, data: Option<&str>) -> Failure {
        let data = data.map(|data| RawValue::from_string(data.to_owned()).unwrap());
        let error = ErrorObject { data, ..ErrorObject::new(code, message) };
        let greeting = AgentDescription {
            title: Some("Some Agent".into()),
            login_methods: vec!["Run `agent login`".into()],
            ..AgentDescription::default()
        };
        let around = AcpFailureContext { agent: &greeting, action: "take the message" };
        around.describe(&error)
    }

    #[test]
    fn a_missing_login_is_known_by_code_or_by_words() {
        let quoted = r#"{"error":{"code":401,"message":"API key not valid.","status":"X"}}"#;
        for (code, message, data) in [
            (-32000, "Authentication required", None),
            (-32000, "x", None),
            (401, quoted, None),
            (-32603, "Internal error: Incorrect API key", None),
            (-32603, "Internal error", Some(r#"{"details":"Please run /login"}"#)),
        ] {
            let failure = failure(code, message, data);
            assert_eq!(failure.kind, FailureKind::Auth, "{message}");
            assert!(failure.hint.unwrap().contains("agent login"));
        }
        let failure = failure(401, quoted, None);
        assert!(failure.message.ends_with("API key not valid."), "{failure}");
    }

    #[test]
    fn other_errors_have_their_kinds() {
        let table = [
            (429, "slow down", FailureKind::RateLimited),
            (-32603, "You have hit your usage limit", FailureKind::RateLimited),
            (503, "x", FailureKind::Unavailable),
            (-32603, "TypeError: fetch failed", FailureKind::Unavailable),
            (-32602, "Session not found: nope", FailureKind::Invalid),
            (-32602, "bad block", FailureKind::Invalid),
            (-32603, "API error: 401 for this key", FailureKind::Auth),
            (-32603, "upstream said (429)", FailureKind::RateLimited),
            // Digits inside an id do not count.
            (
                -32002,
                "Resource not found: e4775162-4403-4401-a33e-345659de8b7b",
                FailureKind::Agent,
            ),
            (-32603, "e4290162-429f-4a01-a33e-345659de401b", FailureKind::Agent),
            (-32603, "Internal error", FailureKind::Agent),
            (0, "", FailureKind::Agent),
        ];
        for (code, message, kind) in table {
            let failure = failure(code, message, None);
            assert_eq!(failure.kind, kind, "{message}");
            assert!(!failure.message.ends_with(": "), "{failure}");
        }
    }
}

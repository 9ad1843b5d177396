//! The secrets of a session: the values that its profile gives to the agent.

use serde_json::Value;

use super::Redactor;
use crate::model::{Failure, SessionSpec};

impl Redactor {
    /// Masks the values of a specification's `env`, and those in `env` and `headers` of its MCP
    /// servers. Does not mask paths, numbers and addresses without credentials: they are not
    /// secrets, and messages need them.
    pub fn of_spec(spec: &SessionSpec) -> Self {
        Self::new(spec_secrets(spec))
    }

    /// Returns the failure with every secret masked.
    #[must_use]
    pub fn redact_failure(&self, failure: Failure) -> Failure {
        Failure {
            message: self.redact(&failure.message).into(),
            hint: failure.hint.map(|hint| self.redact(&hint).into()),
            ..failure
        }
    }
}

/// Returns the values that [`Redactor::of_spec`] masks.
pub fn spec_secrets(spec: &SessionSpec) -> Vec<String> {
    let mut secrets: Vec<String> = spec.env.values().map(ToString::to_string).collect();
    for server in spec.mcp_servers.values() {
        let Ok(server) = serde_json::from_str::<Value>(server.get()) else { continue };
        for part in ["env", "headers", "http_headers"] {
            let values = server[part].as_object().into_iter().flat_map(|part| part.values());
            secrets.extend(values.filter_map(Value::as_str).map(str::to_owned));
        }
    }
    secrets.retain(|value| may_be_secret(value));
    secrets
}

/// Returns whether the value of a variable may be a secret. Paths, numbers and addresses without
/// credentials are not.
pub fn may_be_secret(value: &str) -> bool {
    let is_path = value.starts_with('/') || value.starts_with("~/");
    let is_number = value.parse::<f64>().is_ok();
    let is_plain_address = value.contains("://") && !value.contains(['@', '?', '#']);
    !is_path && !is_number && !is_plain_address
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::FailureKind;

    #[test]
    fn what_a_profile_gives_to_its_agent_is_masked() {
        let mut spec = SessionSpec::new("x", "/work");
        for (name, value) in [
            ("PLAIN", "correct-horse-battery"),
            ("FOLDER", "/home/owner/folder"),
            ("BASE_URL", "http://127.0.0.1:8080/v1"),
            ("PROXY", "http://user:pass-word@host/?key=abcdefgh"),
            ("LIMIT", "123456789"),
        ] {
            spec.env.insert(name.into(), value.into());
        }
        let server = r#"{"command":"server-program","env":{"A":"env-of-the-server"},
            "headers":{"X":"header-of-the-server"}}"#;
        let server: Box<serde_json::value::RawValue> = serde_json::from_str(server).unwrap();
        spec.mcp_servers.insert("own".into(), server.into());
        let redactor = Redactor::of_spec(&spec);
        let text = "correct-horse-battery env-of-the-server header-of-the-server \
                    http://user:pass-word@host/?key=abcdefgh";
        assert_eq!(redactor.redact(text), "[redacted] [redacted] [redacted] [redacted]");
        let text = "/home/owner/folder http://127.0.0.1:8080/v1 123456789 server-program";
        assert_eq!(redactor.redact(text), text);
        let failure = Failure::new(FailureKind::Agent, "a correct-horse-battery")
            .with_hint("b correct-horse-battery");
        assert_eq!(redactor.redact_failure(failure).to_string(), "a [redacted]; b [redacted]");
    }
}

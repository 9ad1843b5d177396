//! Reads the definition of an MCP server: a program to start, or an address. Its variables,
//! `${NAME}` and `${NAME:-default}`, are those of the environment that the session's programs get.
//! Pure.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fmt,
    sync::Arc,
};

use serde_json::{Map, Value, value::RawValue};

use super::login_settings::read_login;
use crate::native::providers::{OAuthSettings, check_address};

/// The program or the address of a server.
#[derive(Clone, PartialEq, Eq)]
pub enum ServerAddress {
    Program {
        /// A name on `PATH`, or a path relative to the session's directory.
        command: String,
        args: Vec<String>,
        /// Added to the environment of the session's programs.
        env: BTreeMap<String, String>,
    },
    Http {
        url: String,
        headers: Vec<(String, String)>,
        /// The login whose tokens the server wants.
        login: Option<OAuthSettings>,
    },
}

/// Omits everything that may be secret.
impl fmt::Debug for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program { command, .. } => {
                f.debug_struct("Program").field("command", command).finish_non_exhaustive()
            }
            Self::Http { .. } => f.debug_struct("Http").finish_non_exhaustive(),
        }
    }
}

impl ServerAddress {
    /// Removes the secrets of the address from a text of the transport.
    pub(super) fn hide_secrets(&self, text: &str) -> String {
        let Self::Http { url, headers, .. } = self else { return text.to_owned() };
        let query = url.split_once('?').map(|(_, query)| query);
        let secrets = headers.iter().map(|(_, value)| &**value).chain(query);
        let secrets = secrets.filter(|secret| !secret.is_empty());
        secrets.fold(text.to_owned(), |text, secret| text.replace(secret, "…"))
    }

    /// Returns the address without its login, because a project must not use the owner's login.
    pub(super) fn without_login(self) -> Self {
        match self {
            Self::Http { url, headers, .. } => Self::Http { url, headers, login: None },
            program @ Self::Program { .. } => program,
        }
    }
}

/// Why a definition cannot be used, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DefinitionError(String);

/// Reads the definition of a server. `variables`: the environment of the session's programs.
pub fn read_definition(
    name: &Arc<str>,
    definition: &RawValue,
    variables: &BTreeMap<OsString, OsString>,
) -> Result<ServerAddress, DefinitionError> {
    let invalid = |what: &str| DefinitionError(what.to_owned());
    let fields: Map<String, Value> = serde_json::from_str(definition.get())
        .map_err(|_| invalid("its definition is not a table of settings"))?;
    let text = |value: &Value| match value {
        Value::String(text) => fill_in(text, variables),
        other => Ok(other.to_string()),
    };
    let table = |key: &str| -> Result<Vec<(String, String)>, DefinitionError> {
        let pairs = fields.get(key).and_then(Value::as_object).into_iter().flatten();
        pairs.map(|(name, value)| Ok((name.clone(), text(value)?))).collect()
    };
    if let Some(command) = fields.get("command") {
        let args = fields.get("args").and_then(Value::as_array).into_iter().flatten();
        return Ok(ServerAddress::Program {
            command: text(command)?,
            args: args.map(text).collect::<Result<_, _>>()?,
            env: table("env")?.into_iter().collect(),
        });
    }
    let Some(url) = fields.get("url") else {
        return Err(invalid("it has neither a `command` nor a `url`; name one of them"));
    };
    let kind = fields.get("type").or(fields.get("transport")).and_then(Value::as_str);
    if kind == Some("sse") {
        return Err(invalid(
            "it speaks SSE, which newer servers have replaced; use its address for `type: http`",
        ));
    }
    let url = text(url)?;
    // The address may have a query; otherwise the same rules apply as for a provider.
    let address = url.split('?').next().unwrap_or_default();
    check_address(address).map_err(|error| DefinitionError(format!("its `url` {error}")))?;
    let headers = table("headers")?;
    let login = match fields.get("oauth").and_then(Value::as_object) {
        Some(oauth) => read_login(name, &url, oauth, |value| text(value).map_err(|error| error.0)),
        None => Ok(None),
    };
    let login = login.map_err(DefinitionError)?;
    let has_token = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
    if login.is_some() && has_token {
        return Err(invalid(
            "it has both `oauth` and an `Authorization` header; remove one of them",
        ));
    }
    Ok(ServerAddress::Http { url, headers, login })
}

/// Replaces the variables in a text.
fn fill_in(
    text: &str,
    variables: &BTreeMap<OsString, OsString>,
) -> Result<String, DefinitionError> {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        filled.push_str(before);
        let Some((inside, after)) = after.split_once('}') else {
            filled.push_str("${");
            rest = after;
            continue;
        };
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        let value = variables.get(OsStr::new(name)).and_then(|value| value.to_str());
        match value.filter(|value| !value.is_empty()).or(default) {
            Some(value) => filled.push_str(value),
            None => {
                return Err(DefinitionError(format!(
                    "its definition needs the variable `{name}`, which is not set; add it to \
                     `env_pass` or `env` of the profile"
                )));
            }
        }
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<ServerAddress, String> {
        let raw = RawValue::from_string(json.to_owned()).unwrap();
        let variables =
            BTreeMap::from([("TOKEN".into(), "s3cret".into()), ("EMPTY".into(), "".into())]);
        read_definition(&"web".into(), &raw, &variables).map_err(|error| error.to_string())
    }

    #[test]
    fn a_program_and_an_address_are_read_with_their_variables() {
        let table = [
            (
                r#"{"type":"stdio","command":"run","args":["x",1,"${TOKEN}"],"env":{"A":true}}"#,
                ServerAddress::Program {
                    command: "run".into(),
                    args: vec!["x".into(), "1".into(), "s3cret".into()],
                    env: BTreeMap::from([("A".into(), "true".into())]),
                },
            ),
            (
                r#"{"type":"http","url":"http://127.0.0.1:1/${NONE:-mcp}?a=b","headers":{"A":"Bearer ${TOKEN}"}}"#,
                ServerAddress::Http {
                    url: "http://127.0.0.1:1/mcp?a=b".into(),
                    headers: vec![("A".into(), "Bearer s3cret".into())],
                    login: None,
                },
            ),
            (
                r#"{"command":"${EMPTY:-sh}","args":["${","$TOKEN","a}"]}"#,
                ServerAddress::Program {
                    command: "sh".into(),
                    args: vec!["${".into(), "$TOKEN".into(), "a}".into()],
                    env: BTreeMap::new(),
                },
            ),
        ];
        for (json, expected) in table {
            assert!(read(json).as_ref() == Ok(&expected), "{json}: {:?}", read(json));
        }
    }

    #[test]
    fn what_cannot_work_is_refused_with_the_reason() {
        let table = [
            ("[]", "not a table"),
            ("{}", "neither a `command` nor a `url`"),
            (r#"{"type":"sse","url":"http://127.0.0.1:1"}"#, "SSE"),
            (r#"{"url":"http://example.com/mcp"}"#, "unencrypted"),
            (r#"{"url":"https://user@example.com/mcp"}"#, "user"),
            (r#"{"command":"${MISSING}"}"#, "`MISSING`, which is not set"),
            (
                r#"{"url":"https://x.example","headers":{"authorization":"x"},"oauth":{"clientId":"me"}}"#,
                "both `oauth` and an `Authorization` header",
            ),
        ];
        for (json, words) in table {
            let error = read(json).unwrap_err();
            assert!(error.contains(words), "{json}: {error}");
        }
    }

    #[test]
    fn secrets_are_not_printed() {
        let program = read(r#"{"command":"run","args":["${TOKEN}"],"env":{"A":"${TOKEN}"}}"#);
        let http = read(r#"{"url":"https://x.example/?k=${TOKEN}","headers":{"A":"${TOKEN}"}}"#);
        for address in [program, http] {
            let address = address.unwrap();
            let printed = format!("{address:?}");
            assert!(!printed.contains("s3cret"), "{printed}");
        }
        let http = read(r#"{"url":"https://x.example/?k=${TOKEN}"}"#).unwrap();
        let said = http.hide_secrets("cannot reach https://x.example/?k=s3cret now");
        assert_eq!(said, "cannot reach https://x.example/?… now");
    }
}

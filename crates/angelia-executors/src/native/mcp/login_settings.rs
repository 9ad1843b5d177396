//! The `oauth` block of an MCP server. It has the same keys as a provider's `oauth`. Claude Code's
//! names for two of them, `clientId` and `scopes`, are accepted too, because both programs share
//! the definition. Pure.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::native::providers::{LoginTarget, OAuthServer, OAuthSettings, check_address};

/// Reads the block; `None` if it names no client, so that only another agent can use it. `text`
/// substitutes the variables in a value.
pub(super) fn read_login(
    name: &Arc<str>,
    url: &str,
    fields: &Map<String, Value>,
    text: impl Fn(&Value) -> Result<String, String>,
) -> Result<Option<OAuthSettings>, String> {
    let value = |keys: &[&str]| -> Result<Option<Arc<str>>, String> {
        let found = keys.iter().find_map(|key| fields.get(*key));
        let found = found.filter(|value| !value.is_null()).map(&text).transpose()?;
        Ok(found.map(|text| text.trim().into()).filter(|text: &Arc<str>| !text.is_empty()))
    };
    let address = |key: &str| -> Result<Option<Arc<str>>, String> {
        let address = value(&[key])?;
        if let Some(address) = &address {
            check_address(address).map_err(|error| format!("its `oauth.{key}` {error}"))?;
        }
        Ok(address)
    };
    let Some(client_id) = value(&["client_id", "clientId"])? else { return Ok(None) };
    let server = match (address("issuer")?, address("device_url")?, address("token_url")?) {
        (Some(issuer), None, None) => OAuthServer::Issuer(issuer),
        (None, Some(device_url), Some(token_url)) => {
            OAuthServer::Addresses { device_url, token_url }
        }
        (None, None, None) => OAuthServer::NamedByTarget,
        _ => {
            return Err(
                "its `oauth` needs `issuer`, or `device_url` and `token_url` instead of it"
                    .to_owned(),
            );
        }
    };
    let target = LoginTarget::McpServer { name: Arc::clone(name), url: url.into() };
    let scope = value(&["scope", "scopes"])?;
    Ok(Some(OAuthSettings { target, server, client_id, scope }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(fields: &Value) -> Result<Option<OAuthSettings>, String> {
        let text = |value: &Value| Ok(value.as_str().unwrap_or_default().to_owned());
        read_login(&"web".into(), "https://x.example/mcp", fields.as_object().unwrap(), text)
    }

    #[test]
    fn a_login_is_read_in_both_forms() {
        let issuer = "https://id.example";
        let ours = read(&json!({"issuer": issuer, "client_id": "me", "scope": "a b"})).unwrap();
        assert_eq!(
            ours,
            Some(OAuthSettings {
                target: LoginTarget::McpServer {
                    name: "web".into(),
                    url: "https://x.example/mcp".into(),
                },
                server: OAuthServer::Issuer(issuer.into()),
                client_id: "me".into(),
                scope: Some("a b".into()),
            })
        );
        let theirs = read(&json!({"clientId": "me", "callbackPort": 1, "scopes": "a b"})).unwrap();
        let theirs = theirs.unwrap();
        assert_eq!((theirs.server, theirs.scope), (OAuthServer::NamedByTarget, Some("a b".into())));
        assert_eq!(read(&json!({"callbackPort": 8080})), Ok(None));
    }

    #[test]
    fn a_login_that_cannot_work_is_refused_with_the_reason() {
        let table = [
            (json!({"client_id": "me", "issuer": "http://id.example"}), "unencrypted"),
            (json!({"client_id": "me", "token_url": "https://id.example/token"}), "`device_url`"),
        ];
        for (fields, words) in table {
            let error = read(&fields).unwrap_err();
            assert!(error.contains(words), "{fields}: {error}");
        }
    }
}

//! Converts the editor's MCP servers into the shape of `mcp_servers` in the configuration.

use std::{collections::BTreeMap, sync::Arc};

use agent_client_protocol_schema::v1::{HttpHeader, McpServer};
use angelia_core::model::RawJson;
use serde::Serialize;
use serde_json::value::to_raw_value;

use super::errors::Refusal;

#[derive(Serialize)]
struct Program<'a> {
    command: &'a str,
    args: &'a [String],
    env: BTreeMap<&'a str, &'a str>,
}

#[derive(Serialize)]
struct Remote<'a> {
    r#type: &'static str,
    url: &'a str,
    headers: BTreeMap<&'a str, &'a str>,
}

/// The settings of MCP servers, by name.
pub(super) type Servers = Vec<(Arc<str>, RawJson)>;

pub(super) fn servers(given: &[McpServer]) -> Result<Servers, Refusal> {
    given.iter().map(server).collect()
}

fn server(given: &McpServer) -> Result<(Arc<str>, RawJson), Refusal> {
    let (name, settings) = match given {
        McpServer::Stdio(server) => {
            let command = server.command.to_str().ok_or_else(|| {
                Refusal::invalid(format!("the command of `{}` is not text", server.name))
            })?;
            let env = server.env.iter();
            let program = Program {
                command,
                args: &server.args,
                env: env.map(|one| (&*one.name, &*one.value)).collect(),
            };
            (&server.name, to_raw_value(&program))
        }
        McpServer::Http(server) => {
            (&server.name, to_raw_value(&remote("http", &server.url, &server.headers)))
        }
        McpServer::Sse(server) => {
            (&server.name, to_raw_value(&remote("sse", &server.url, &server.headers)))
        }
        _ => {
            let message = "an MCP server of this kind is not supported; use stdio or http";
            return Err(Refusal::invalid(message));
        }
    };
    let settings = settings.map_err(|error| Refusal::invalid(error.to_string()))?;
    Ok((name.as_str().into(), settings.into()))
}

fn remote<'a>(kind: &'static str, url: &'a str, headers: &'a [HttpHeader]) -> Remote<'a> {
    let headers = headers.iter();
    Remote { r#type: kind, url, headers: headers.map(|one| (&*one.name, &*one.value)).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_told_as_the_configuration_tells_them() {
        let given: Vec<McpServer> = serde_json::from_str(
            r#"[{"name":"docs","command":"/bin/docs","args":["-v"],
                 "env":[{"name":"A","value":"1"}]},
                {"type":"http","name":"web","url":"http://x","headers":[{"name":"H","value":"2"}]}]"#,
        )
        .unwrap();
        let told: Vec<_> = servers(&given).unwrap();
        let told: Vec<_> = told.iter().map(|(name, raw)| (&**name, raw.get())).collect();
        let expected = [
            ("docs", r#"{"command":"/bin/docs","args":["-v"],"env":{"A":"1"}}"#),
            ("web", r#"{"type":"http","url":"http://x","headers":{"H":"2"}}"#),
        ];
        assert_eq!(told, expected);
    }
}

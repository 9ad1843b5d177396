//! Converts the editor's MCP servers into the shape of `mcp_servers` in the configuration.

use std::{collections::BTreeMap, sync::Arc};

use agent_client_protocol_schema::v1::{HttpHeader, McpServer};
use angelia_core::model::RawJson;
use serde::Serialize;
use serde_json::value::to_raw_value;

use super::errors::AcpError;

#[derive(Serialize)]
struct StdioServerJson<'a> {
    command: &'a str,
    args: &'a [String],
    env: BTreeMap<&'a str, &'a str>,
}

#[derive(Serialize)]
struct RemoteServerJson<'a> {
    r#type: &'static str,
    url: &'a str,
    headers: BTreeMap<&'a str, &'a str>,
}

/// The settings of MCP servers, by name.
pub(super) type McpServers = Vec<(Arc<str>, RawJson)>;

pub(super) fn convert_servers(given: &[McpServer]) -> Result<McpServers, AcpError> {
    given.iter().map(convert_server).collect()
}

fn convert_server(given: &McpServer) -> Result<(Arc<str>, RawJson), AcpError> {
    let (name, settings) = match given {
        McpServer::Stdio(server) => {
            let command = server.command.to_str().ok_or_else(|| {
                AcpError::invalid_params(format!("the command of `{}` is not text", server.name))
            })?;
            let env = server.env.iter();
            let program = StdioServerJson {
                command,
                args: &server.args,
                env: env.map(|one| (&*one.name, &*one.value)).collect(),
            };
            (&server.name, to_raw_value(&program))
        }
        McpServer::Http(server) => {
            (&server.name, to_raw_value(&remote_server("http", &server.url, &server.headers)))
        }
        McpServer::Sse(server) => {
            (&server.name, to_raw_value(&remote_server("sse", &server.url, &server.headers)))
        }
        _ => {
            let message = "an MCP server of this kind is not supported; use stdio or http";
            return Err(AcpError::invalid_params(message));
        }
    };
    let settings = settings.map_err(|error| AcpError::invalid_params(error.to_string()))?;
    Ok((name.as_str().into(), settings.into()))
}

fn remote_server<'a>(
    kind: &'static str,
    url: &'a str,
    headers: &'a [HttpHeader],
) -> RemoteServerJson<'a> {
    let headers = headers.iter();
    RemoteServerJson {
        r#type: kind,
        url,
        headers: headers.map(|one| (&*one.name, &*one.value)).collect(),
    }
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
        let told: Vec<_> = convert_servers(&given).unwrap();
        let told: Vec<_> = told.iter().map(|(name, raw)| (&**name, raw.get())).collect();
        let expected = [
            ("docs", r#"{"command":"/bin/docs","args":["-v"],"env":{"A":"1"}}"#),
            ("web", r#"{"type":"http","url":"http://x","headers":{"H":"2"}}"#),
        ];
        assert_eq!(told, expected);
    }
}

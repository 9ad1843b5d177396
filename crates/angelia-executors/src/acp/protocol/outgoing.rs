//! Our messages. They use the types of the protocol's own crate where that crate has them.

use std::path::Path;

use agent_client_protocol_schema::{
    ProtocolVersion,
    v1::{
        CancelNotification, ClientCapabilities, ContentBlock, DeleteSessionRequest, EnvVariable,
        FileSystemCapabilities, HttpHeader, ImageContent, Implementation, InitializeRequest,
        LoadSessionRequest, McpServer, McpServerHttp, McpServerSse, McpServerStdio,
        NewSessionRequest, PromptRequest, ResumeSessionRequest, SetSessionModeRequest, TextContent,
    },
};
use angelia_core::model::{Content, Failure, FailureKind, RawJson};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::Serialize;
use serde_json::{Map, Value, json, value::RawValue};

use super::handshake::{AgentDescription, SessionSetting, SettingRequest};
use crate::process::ProcessMark;

pub const INITIALIZE: &str = "initialize";
pub const SESSION_NEW: &str = "session/new";
pub const SESSION_LOAD: &str = "session/load";
pub const SESSION_RESUME: &str = "session/resume";
pub const SESSION_DELETE: &str = "session/delete";
pub const SESSION_PROMPT: &str = "session/prompt";
pub const SESSION_CANCEL: &str = "session/cancel";
/// A barrier: no agent knows this method, and output that arrives before its refusal is older.
pub const BARRIER: &str = "_angelia/settled";

/// One of our requests or notifications.
#[derive(Clone, Debug)]
pub struct AcpCall {
    pub method: &'static str,
    pub params: Value,
}

impl AcpCall {
    fn new(method: &'static str, params: &impl Serialize) -> Self {
        Self {
            method,
            // Cannot fail: all map keys are strings.
            params: serde_json::to_value(params).unwrap_or_default(),
        }
    }

    pub fn initialize() -> Self {
        // We serve file reads but do not offer them. Gemini CLI 0.61 does not recognise any of our
        // errors as "there is no such file", so it could not create files. Every agent can read
        // files itself.
        let files = FileSystemCapabilities::new().write_text_file(true);
        let can = ClientCapabilities::new().fs(files).terminal(true);
        let info =
            Implementation::new("angelia", env!("CARGO_PKG_VERSION")).title("Angelia".to_owned());
        let request =
            InitializeRequest::new(ProtocolVersion::V1).client_capabilities(can).client_info(info);
        Self::new(INITIALIZE, &request)
    }

    pub fn new_session(cwd: &Path, servers: Vec<McpServer>) -> Self {
        Self::new(SESSION_NEW, &NewSessionRequest::new(cwd).mcp_servers(servers))
    }

    pub fn load(session: &str, cwd: &Path, servers: Vec<McpServer>) -> Self {
        let request = LoadSessionRequest::new(session.to_owned(), cwd).mcp_servers(servers);
        Self::new(SESSION_LOAD, &request)
    }

    pub fn resume(session: &str, cwd: &Path, servers: Vec<McpServer>) -> Self {
        let request = ResumeSessionRequest::new(session.to_owned(), cwd).mcp_servers(servers);
        Self::new(SESSION_RESUME, &request)
    }

    pub fn delete(session: &str) -> Self {
        Self::new(SESSION_DELETE, &DeleteSessionRequest::new(session.to_owned()))
    }

    pub fn prompt(session: &str, blocks: Vec<ContentBlock>) -> Self {
        Self::new(SESSION_PROMPT, &PromptRequest::new(session.to_owned(), blocks))
    }

    /// Returns the notification that cancels the running turn.
    pub fn cancel(session: &str) -> Self {
        Self::new(SESSION_CANCEL, &CancelNotification::new(session.to_owned()))
    }

    pub fn barrier(session: &str) -> Self {
        Self::new(BARRIER, &json!({"sessionId": session}))
    }

    pub fn set_mode(session: &str, choice: &SessionSetting, mode: &str) -> Self {
        match &choice.changed_by {
            SettingRequest::Option(id) => Self::set_option(session, id, mode),
            SettingRequest::Method => {
                let request = SetSessionModeRequest::new(session.to_owned(), mode.to_owned());
                Self::new("session/set_mode", &request)
            }
        }
    }

    pub fn set_model(session: &str, choice: &SessionSetting, model: &str) -> Self {
        match &choice.changed_by {
            SettingRequest::Option(id) => Self::set_option(session, id, model),
            SettingRequest::Method => {
                let params = json!({"sessionId": session, "modelId": model});
                Self::new("session/set_model", &params)
            }
        }
    }

    fn set_option(session: &str, option: &str, value: &str) -> Self {
        let params = json!({"sessionId": session, "configId": option, "value": value});
        Self::new("session/set_config_option", &params)
    }
}

/// Returns the answer to a permission request: one of the agent's options, or `cancelled`.
pub fn permission_outcome(option: Option<&str>) -> Box<RawValue> {
    to_raw(&match option {
        Some(id) => json!({"outcome": {"outcome": "selected", "optionId": id}}),
        None => json!({"outcome": {"outcome": "cancelled"}}),
    })
}

pub(crate) fn to_raw(value: &Value) -> Box<RawValue> {
    // Cannot fail for a `Value`.
    serde_json::value::to_raw_value(value).unwrap_or_default()
}

/// Converts the content of a turn. Returns `false` if images were left out because the agent
/// accepts none.
pub fn content_blocks(content: &[Content], images: bool) -> (Vec<ContentBlock>, bool) {
    let mut all = true;
    let blocks = content.iter().filter_map(|content| match content {
        Content::Text(text) => Some(ContentBlock::Text(TextContent::new(&**text))),
        Content::Image { media_type, data } if images => {
            let data = BASE64_STANDARD.encode(data);
            Some(ContentBlock::Image(ImageContent::new(data, &**media_type)))
        }
        Content::Image { .. } => {
            all = false;
            None
        }
    });
    let blocks = blocks.collect();
    (blocks, all)
}

/// Converts an entry of `mcp_servers`, which has the shape of Claude Code's configuration, to the
/// protocol's type.
pub fn to_mcp_server(
    name: &str,
    server: &RawJson,
    greeting: &AgentDescription,
    mark: &ProcessMark,
) -> Result<McpServer, Failure> {
    let invalid = |what: String| {
        Failure::new(FailureKind::Invalid, format!("`mcp_servers: {name}` {what}"))
            .with_hint("give it `command`, `args`, `env`, or `type`, `url` and `headers`")
    };
    let Ok(fields) = serde_json::from_str::<Map<String, Value>>(server.get()) else {
        return Err(invalid("is not a table of settings".to_owned()));
    };
    let word = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let table = |key: &str| -> Vec<(String, String)> {
        let pairs = fields.get(key).and_then(Value::as_object);
        let pairs = pairs.into_iter().flatten();
        pairs.map(|(name, value)| (name.clone(), word(value))).collect()
    };
    if let Some(command) = fields.get("command").and_then(Value::as_str) {
        let args = fields.get("args").and_then(Value::as_array);
        // The server carries its agent's mark, so that a sweep ends it with the agent.
        let (variable, value) = mark.env_variable();
        let mut env: Vec<EnvVariable> =
            (table("env").into_iter()).map(|(name, value)| EnvVariable::new(name, value)).collect();
        env.push(EnvVariable::new(variable, value));
        let server = McpServerStdio::new(name, command)
            .args(args.into_iter().flatten().map(word).collect())
            .env(env);
        return Ok(McpServer::Stdio(server));
    }
    let Some(url) = fields.get("url").and_then(Value::as_str) else {
        return Err(invalid("has neither a `command` nor a `url`".to_owned()));
    };
    let headers: Vec<HttpHeader> =
        (table("headers").into_iter()).map(|(name, value)| HttpHeader::new(name, value)).collect();
    let kind = fields.get("type").or(fields.get("transport"));
    let is_sse = kind.and_then(Value::as_str) == Some("sse");
    let (can, how) = if is_sse { (greeting.mcp_sse, "SSE") } else { (greeting.mcp_http, "HTTP") };
    if !can {
        let agent = greeting.name();
        return Err(invalid(format!("speaks {how}, which {agent} does not")));
    }
    Ok(if is_sse {
        McpServer::Sse(McpServerSse::new(name, url).headers(headers))
    } else {
        McpServer::Http(McpServerHttp::new(name, url).headers(headers))
    })
}

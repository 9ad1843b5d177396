//! The caller's tools. We act as an MCP server for the program, and the caller of the turn runs the
//! tool. A call waits until the caller sends the result; the program sets no time limit.

use std::{borrow::Cow, collections::VecDeque, sync::Arc};

use angelia_core::{
    model::{CallerTool, Content, EventKind, RawJson, ToolId},
    ports::AgentEvent,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};

use super::{
    caller_tool_names::{ensure_object_schema, model_tool_name, valid_tool_name},
    protocol::outgoing,
};

/// The name of our MCP server.
pub(crate) const MCP_SERVER_NAME: &str = "client";

/// The fields of a JSON-RPC message that we read.
#[derive(Deserialize)]
struct McpMessage<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Cow<'a, str>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct ToolCallParams<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(rename = "_meta", borrow, default)]
    meta: Option<ToolCallMeta<'a>>,
}

#[derive(Default, Deserialize)]
struct ToolCallMeta<'a> {
    #[serde(rename = "claudecode/toolUseId", borrow, default)]
    tool_use_id: Option<Cow<'a, str>>,
}

#[derive(Default, Deserialize)]
struct InitializeParams<'a> {
    #[serde(rename = "protocolVersion", borrow, default)]
    protocol_version: Cow<'a, str>,
}

/// A call that awaits its result.
#[derive(Debug)]
struct WaitingCall {
    tool: ToolId,
    request_id: Arc<str>,
    rpc_id: RawJson,
}

/// The state of our MCP server.
#[derive(Debug, Default)]
pub(crate) struct CallerTools {
    tools: Vec<CallerTool>,
    waiting_calls: VecDeque<WaitingCall>,
    /// Set if a call has started to wait and the turn has not been told yet.
    unreported: bool,
    /// Results that arrived before the program made the call; it makes calls one by one.
    early_results: Vec<(ToolId, bool, Vec<Content>)>,
}

impl CallerTools {
    pub(crate) fn new(tools: &[CallerTool]) -> Self {
        Self { tools: tools.to_vec(), ..Self::default() }
    }

    /// Reports whether a call has started to wait since the last check, and resets that flag.
    pub(crate) fn take_unreported(&mut self) -> bool {
        std::mem::take(&mut self.unreported) && !self.waiting_calls.is_empty()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Returns the names by which the model sees the tools.
    pub(crate) fn model_names(&self) -> impl Iterator<Item = String> {
        self.tools.iter().map(|tool| model_tool_name(&tool.name))
    }

    /// Replaces the names in tool calls with the caller's own names.
    pub(crate) fn restore_caller_names(&self, batch: &mut [AgentEvent]) {
        for emitted in batch {
            if let AgentEvent::Event(EventKind::ToolCall(call)) = emitted
                && let Some(tool) =
                    (self.tools.iter()).find(|tool| model_tool_name(&tool.name) == *call.name)
            {
                call.name = Arc::clone(&tool.name);
            }
        }
    }

    /// Handles one message from the program and returns the response. Returns `None` for a tool
    /// call, whose response comes from [`Self::complete_call`].
    pub(crate) fn handle_message(
        &mut self,
        request_id: &str,
        message: &RawJson,
    ) -> Option<Vec<u8>> {
        let Ok(rpc) = serde_json::from_str::<McpMessage<'_>>(message.get()) else {
            return Some(outgoing::respond_error(request_id, "not a JSON-RPC message"));
        };
        let id = rpc.id.unwrap_or(RawValue::NULL);
        Some(match &*rpc.method {
            "initialize" => respond_result(request_id, id, initialize_result(rpc.params)),
            "tools/list" => self.list_tools(request_id, id),
            "tools/call" => match self.start_call(request_id, id, rpc.params) {
                Ok(answer) => return answer,
                Err(error) => respond_rpc_error(request_id, id, &error),
            },
            "ping" => respond_result(request_id, id, json!({})),
            method if method.starts_with("notifications/") => {
                self.handle_notification(method, rpc.params);
                respond_result(request_id, id, json!({}))
            }
            other => {
                respond_rpc_error(request_id, id, &format!("there is no method `{other}` here"))
            }
        })
    }

    /// Returns the response to a call. If the program has not made the call yet, keeps the result
    /// and returns `None`.
    pub(crate) fn complete_call(
        &mut self,
        tool: ToolId,
        ok: bool,
        content: Vec<Content>,
    ) -> Option<Vec<u8>> {
        let Some(at) = (self.waiting_calls.iter()).position(|waiting| waiting.tool == tool) else {
            self.early_results.push((tool, ok, content));
            return None;
        };
        let waiting = self.waiting_calls.remove(at)?;
        Some(respond_result(&waiting.request_id, &waiting.rpc_id, call_result(ok, &content)))
    }

    /// Drops the calls and results of a turn that is over.
    pub(crate) fn clear_calls(&mut self) {
        self.waiting_calls.clear();
        self.early_results.clear();
        self.unreported = false;
    }

    fn list_tools(&self, request_id: &str, id: &RawValue) -> Vec<u8> {
        #[derive(Serialize)]
        struct ToolList<'a> {
            tools: Vec<ListedTool<'a>>,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct ListedTool<'a> {
            name: Cow<'a, str>,
            description: &'a str,
            input_schema: Cow<'a, RawValue>,
        }
        let tools = (self.tools.iter())
            .map(|tool| ListedTool {
                name: valid_tool_name(&tool.name),
                description: &tool.description,
                input_schema: ensure_object_schema(&tool.input_schema),
            })
            .collect();
        respond_result(request_id, id, ToolList { tools })
    }

    fn start_call(
        &mut self,
        request_id: &str,
        id: &RawValue,
        params: Option<&RawValue>,
    ) -> Result<Option<Vec<u8>>, String> {
        let params: ToolCallParams<'_> =
            params.and_then(|params| serde_json::from_str(params.get()).ok()).unwrap_or_default();
        if !(self.tools.iter()).any(|tool| valid_tool_name(&tool.name) == params.name) {
            return Err(format!("there is no tool `{}`", params.name));
        }
        let Some(tool) = params.meta.and_then(|meta| meta.tool_use_id) else {
            return Err("the call does not say which tool use it belongs to".to_owned());
        };
        let tool = ToolId::new(&*tool);
        if let Some(at) = self.early_results.iter().position(|(early, ..)| *early == tool) {
            let (_, ok, content) = self.early_results.swap_remove(at);
            return Ok(Some(respond_result(request_id, id, call_result(ok, &content))));
        }
        self.unreported = true;
        self.waiting_calls.push_back(WaitingCall {
            tool,
            request_id: request_id.into(),
            rpc_id: id.to_owned().into(),
        });
        Ok(None)
    }

    /// Drops a cancelled call, which needs no response.
    fn handle_notification(&mut self, method: &str, params: Option<&RawValue>) {
        #[derive(Deserialize)]
        struct CancelledParams<'a> {
            #[serde(rename = "requestId", borrow)]
            id: &'a RawValue,
        }
        if method != "notifications/cancelled" {
            return;
        }
        if let Some(cancelled) =
            params.and_then(|params| serde_json::from_str::<CancelledParams<'_>>(params.get()).ok())
        {
            (self.waiting_calls).retain(|waiting| waiting.rpc_id.get() != cancelled.id.get());
        }
    }
}

fn initialize_result(params: Option<&RawValue>) -> Value {
    let params: InitializeParams<'_> =
        params.and_then(|params| serde_json::from_str(params.get()).ok()).unwrap_or_default();
    json!({
        "protocolVersion": params.protocol_version,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": MCP_SERVER_NAME, "version": env!("CARGO_PKG_VERSION")},
    })
}

fn call_result(ok: bool, content: &[Content]) -> Value {
    use base64::Engine as _;
    let blocks: Vec<Value> = content
        .iter()
        .map(|content| match content {
            Content::Text(text) => json!({"type": "text", "text": &**text}),
            Content::Image { media_type, data } => json!({
                "type": "image",
                "mimeType": &**media_type,
                "data": base64::engine::general_purpose::STANDARD.encode(data),
            }),
        })
        .collect();
    json!({"content": blocks, "isError": !ok})
}

#[derive(Serialize)]
struct McpEnvelope<T> {
    mcp_response: T,
}

fn respond_result(request_id: &str, id: &RawValue, result: impl Serialize) -> Vec<u8> {
    #[derive(Serialize)]
    struct McpResult<'a, T> {
        jsonrpc: &'a str,
        id: &'a RawValue,
        result: T,
    }
    let mcp_response = McpResult { jsonrpc: "2.0", id, result };
    outgoing::respond(request_id, &McpEnvelope { mcp_response })
}

fn respond_rpc_error(request_id: &str, id: &RawValue, message: &str) -> Vec<u8> {
    #[derive(Serialize)]
    struct McpError<'a> {
        jsonrpc: &'a str,
        id: &'a RawValue,
        error: Value,
    }
    let mcp_response =
        McpError { jsonrpc: "2.0", id, error: json!({"code": -32602, "message": message}) };
    outgoing::respond(request_id, &McpEnvelope { mcp_response })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> RawJson {
        RawValue::from_string(json.to_owned()).unwrap().into()
    }

    fn tools() -> CallerTools {
        CallerTools::new(&[CallerTool {
            name: "lookup".into(),
            description: "finds".into(),
            input_schema: raw(r#"{"type":"object"}"#),
        }])
    }

    fn parsed(line: Option<Vec<u8>>) -> Value {
        let value: Value = serde_json::from_slice(&line.unwrap()).unwrap();
        value["response"]["response"]["mcp_response"].clone()
    }

    const CALL: &str = r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":
        {"name":"lookup","arguments":{},"_meta":{"claudecode/toolUseId":"t1"}}}"#;

    #[test]
    fn the_program_finds_a_server_with_the_tools() {
        let mut tools = tools();
        let hello = parsed(tools.handle_message(
            "a",
            &raw(r#"{"id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#),
        ));
        assert_eq!(hello["id"], 0);
        assert_eq!(hello["result"]["protocolVersion"], "2025-11-25");
        let list = parsed(tools.handle_message("b", &raw(r#"{"id":1,"method":"tools/list"}"#)));
        assert_eq!(list["result"]["tools"][0]["name"], "lookup");
        // Notifications must be answered too; otherwise the program waits.
        let note =
            parsed(tools.handle_message("c", &raw(r#"{"method":"notifications/initialized"}"#)));
        assert_eq!(note["result"], json!({}));
        let odd = parsed(tools.handle_message("d", &raw(r#"{"id":9,"method":"resources/list"}"#)));
        assert!(odd["error"]["message"].as_str().unwrap().contains("resources/list"));
    }

    #[test]
    fn a_call_waits_for_its_answer_and_an_early_answer_for_its_call() {
        let mut tools = tools();
        assert_eq!(tools.handle_message("r1", &raw(CALL)), None);
        let answer = tools.complete_call(ToolId::new("t1"), true, vec![Content::text("found")]);
        let answer: Value = serde_json::from_slice(&answer.unwrap()).unwrap();
        assert_eq!(answer["response"]["request_id"], "r1");
        let body = &answer["response"]["response"]["mcp_response"];
        assert_eq!((&body["id"], &body["result"]["isError"]), (&json!(3), &json!(false)));
        assert_eq!(body["result"]["content"][0]["text"], "found");

        assert_eq!(tools.complete_call(ToolId::new("t1"), false, vec![]), None);
        assert_eq!(parsed(tools.handle_message("r2", &raw(CALL)))["result"]["isError"], true);
    }

    #[test]
    fn what_cannot_be_called_is_refused_and_what_is_cancelled_forgotten() {
        let mut tools = tools();
        let unknown = CALL.replace("lookup", "other");
        assert!(parsed(tools.handle_message("r", &raw(&unknown)))["error"].is_object());
        assert_eq!(tools.handle_message("r1", &raw(CALL)), None);
        let cancel = r#"{"method":"notifications/cancelled","params":{"requestId":3}}"#;
        tools.handle_message("r2", &raw(cancel));
        assert!(tools.waiting_calls.is_empty());
    }
}

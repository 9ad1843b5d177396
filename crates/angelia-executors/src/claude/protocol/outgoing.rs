//! Every line that we write to the CLI's stdin.
//!
//! A malformed line kills the process, so lines are never assembled by hand. The serializer writes
//! each value as one line that ends with a newline.

use angelia_core::model::Content;
use base64::Engine as _;
use serde::Serialize;
use serde_json::{Value, value::RawValue};

/// A control request that we send to the CLI.
#[derive(Clone, Debug)]
pub enum ControlCommand<'a> {
    Initialize(InitializeOptions<'a>),
    /// Ends the running turn. Newer versions also drop the messages queued behind it; older
    /// versions ignore that field.
    Interrupt,
    /// Changes no settings; the CLI answers as soon as it is ready.
    McpStatus,
    /// Requests the process's totals so far. Answered even during a turn.
    Usage,
    /// Ends one background task.
    StopTask(&'a str),
}

/// The settings that the first `initialize` fixes for the process.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeOptions<'a> {
    /// Replaces the CLI's own prompt; an empty list drops it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<Vec<&'a str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub append_system_prompt: Option<&'a str>,
    /// The names of the MCP servers that we serve ourselves.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sdk_mcp_servers: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json_schema: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hooks: Option<HookRegistration>,
}

/// Makes the CLI report every tool call to us before it applies its own permission rules.
#[derive(Clone, Copy, Debug)]
pub struct HookRegistration;

impl HookRegistration {
    /// The id that the CLI sends back with every report.
    pub const CALLBACK_ID: &str = "angelia-tool-report";

    /// How long the CLI waits for the answer to a report, in seconds. It is long because a person
    /// may have to decide, but the CLI's timers overflow after 24 days.
    const TIMEOUT_SECS: u32 = 14 * 24 * 3600;
}

impl Serialize for HookRegistration {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Without a matcher, the hook covers the calls of all tools.
        serde_json::json!({"PreToolUse": [
            {"hookCallbackIds": [Self::CALLBACK_ID], "timeout": Self::TIMEOUT_SECS},
        ]})
        .serialize(serializer)
    }
}

/// Returns a user message. `uuid` must be fresh: results refer to it, and the CLI drops a message
/// whose uuid was used before.
pub fn user_message(uuid: &str, content: &[Content]) -> Vec<u8> {
    #[derive(Serialize)]
    struct Line<'a> {
        r#type: &'a str,
        message: Message,
        parent_tool_use_id: Option<&'a str>,
        uuid: &'a str,
    }
    #[derive(Serialize)]
    struct Message {
        role: &'static str,
        content: Value,
    }
    let content = match content {
        // Send a single text as a plain string: only then is a slash command recognised reliably.
        [Content::Text(text)] => Value::from(&**text),
        several => several.iter().map(content_block).collect(),
    };
    encode_line(&Line {
        r#type: "user",
        message: Message { role: "user", content },
        parent_tool_use_id: None,
        uuid,
    })
}

/// Returns a content block in the API's format.
pub fn content_block(content: &Content) -> Value {
    match content {
        Content::Text(text) => serde_json::json!({"type": "text", "text": &**text}),
        Content::Image { media_type, data } => serde_json::json!({
            "type": "image",
            "source": {
                "type": "base64",
                "media_type": &**media_type,
                "data": base64::engine::general_purpose::STANDARD.encode(data),
            },
        }),
    }
}

/// Returns a control request. Its response carries the same `request_id`.
pub fn control_request(request_id: &str, request: &ControlCommand<'_>) -> Vec<u8> {
    #[derive(Serialize)]
    struct Line<'a, T> {
        r#type: &'a str,
        request_id: &'a str,
        request: T,
    }
    #[derive(Serialize)]
    struct WithInitialize<'a> {
        subtype: &'a str,
        #[serde(flatten)]
        initialize: &'a InitializeOptions<'a>,
    }
    let r#type = "control_request";
    let request = match request {
        // Serialized separately: a schema must keep its bytes, and a `Value` would reorder its
        // keys.
        ControlCommand::Initialize(initialize) => {
            return encode_line(&Line {
                r#type,
                request_id,
                request: WithInitialize { subtype: "initialize", initialize },
            });
        }
        ControlCommand::Interrupt => {
            serde_json::json!({"subtype": "interrupt", "cancel_queued": true})
        }
        ControlCommand::McpStatus => serde_json::json!({"subtype": "mcp_status"}),
        ControlCommand::Usage => serde_json::json!({"subtype": "get_usage"}),
        ControlCommand::StopTask(task) => {
            serde_json::json!({"subtype": "stop_task", "task_id": task})
        }
    };
    encode_line(&Line { r#type, request_id, request })
}

/// Answers a control request from the CLI with the expected payload, such as a hook's output.
pub fn respond(request_id: &str, response: &impl Serialize) -> Vec<u8> {
    #[derive(Serialize)]
    struct Line<'a, T> {
        r#type: &'a str,
        response: Response<'a, T>,
    }
    #[derive(Serialize)]
    struct Response<'a, T> {
        subtype: &'a str,
        request_id: &'a str,
        #[serde(rename = "response")]
        payload: &'a T,
    }
    encode_line(&Line {
        r#type: "control_response",
        response: Response { subtype: "success", request_id, payload: response },
    })
}

/// Refuses a control request from the CLI, which would block forever on an unanswered request.
pub fn respond_error(request_id: &str, error: &str) -> Vec<u8> {
    encode_line(&serde_json::json!({
        "type": "control_response",
        "response": {"subtype": "error", "request_id": request_id, "error": error},
    }))
}

/// Allows a tool call. `updated_input` is required: older versions fail the call without it.
pub fn allow(request_id: &str, updated_input: &RawValue) -> Vec<u8> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Allow<'a> {
        behavior: &'a str,
        updated_input: &'a RawValue,
    }
    respond(request_id, &Allow { behavior: "allow", updated_input })
}

/// Denies a tool call. The model receives `message`, unless `interrupt` ends the turn.
pub fn deny(request_id: &str, message: &str, interrupt: bool) -> Vec<u8> {
    #[derive(Serialize)]
    struct Deny<'a> {
        behavior: &'a str,
        message: &'a str,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        interrupt: bool,
    }
    respond(request_id, &Deny { behavior: "deny", message, interrupt })
}

/// The answer to a reported tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookAnswer<'a> {
    /// The CLI's own rules decide.
    Proceed,
    /// The call runs without a permission request.
    Allow,
    /// The call does not run; the model receives the reason.
    Deny(&'a str),
}

/// Answers a reported tool call.
pub fn answer_hook(request_id: &str, answer: HookAnswer<'_>) -> Vec<u8> {
    let decision = match answer {
        HookAnswer::Proceed => return respond(request_id, &serde_json::json!({})),
        HookAnswer::Allow => serde_json::json!({"permissionDecision": "allow"}),
        HookAnswer::Deny(reason) => serde_json::json!({
            "permissionDecision": "deny", "permissionDecisionReason": reason,
        }),
    };
    let mut output = serde_json::json!({"hookEventName": "PreToolUse"});
    if let (Some(output), Value::Object(decision)) = (output.as_object_mut(), decision) {
        output.extend(decision);
    }
    respond(request_id, &serde_json::json!({"hookSpecificOutput": output}))
}

fn encode_line(value: &impl Serialize) -> Vec<u8> {
    // Serializing these types cannot fail. If it did, a line that the CLI ignores would be better
    // than half a line.
    let mut bytes =
        serde_json::to_vec(value).unwrap_or_else(|_| br#"{"type":"keep_alive"}"#.to_vec());
    // JSON embedded from other programs may contain line breaks. In valid JSON these are only white
    // space between tokens, because strings contain no unescaped line breaks.
    for byte in &mut bytes {
        if matches!(*byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    bytes.push(b'\n');
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &[u8]) -> Value {
        let (last, rest) = line.split_last().unwrap();
        assert_eq!(*last, b'\n');
        assert!(!rest.contains(&b'\n'), "one line");
        serde_json::from_slice(rest).unwrap()
    }

    #[test]
    fn a_message_is_one_valid_line_whatever_it_says() {
        let text = "a\nb\r\n\"c\"\u{2028}\u{0}\\ ✓";
        let line = user_message("u-1", &[Content::text(text)]);
        let value = parsed(&line);
        assert_eq!(value["message"]["content"], text);
        assert_eq!(value["uuid"], "u-1");

        let image = Content::Image { media_type: "image/png".into(), data: (*b"\x89PNG").into() };
        let value = parsed(&user_message("u-2", &[Content::text("see"), image]));
        assert_eq!(value["message"]["content"][0]["text"], "see");
        assert_eq!(value["message"]["content"][1]["source"]["data"], "iVBORw==");
    }

    #[test]
    fn json_made_elsewhere_does_not_break_the_line() {
        let schema = RawValue::from_string("{\n  \"type\": \"object\"\r\n}".to_owned()).unwrap();
        let initialize = InitializeOptions {
            json_schema: Some(&schema),
            system_prompt: Some(vec![]),
            ..InitializeOptions::default()
        };
        let value = parsed(&control_request("i", &ControlCommand::Initialize(initialize)));
        assert_eq!(value["request"]["subtype"], "initialize");
        assert_eq!(value["request"]["jsonSchema"]["type"], "object");
        assert_eq!(value["request"]["systemPrompt"], serde_json::json!([]));
        assert_eq!(value["request"].get("appendSystemPrompt"), None);

        let answer = RawValue::from_string("{\n}".to_owned()).unwrap();
        let value = parsed(&respond("m", &answer));
        assert_eq!(value["response"]["response"], serde_json::json!({}));
    }

    #[test]
    fn requests_have_the_shapes_the_cli_reads() {
        let request = |request| parsed(&control_request("r", &request))["request"].clone();
        assert_eq!(
            request(ControlCommand::Interrupt),
            serde_json::json!({"subtype": "interrupt", "cancel_queued": true})
        );
        assert_eq!(
            request(ControlCommand::StopTask("b1")),
            serde_json::json!({"subtype": "stop_task", "task_id": "b1"})
        );
        assert_eq!(request(ControlCommand::McpStatus)["subtype"], "mcp_status");
        assert_eq!(request(ControlCommand::Usage)["subtype"], "get_usage");
        let error = parsed(&respond_error("q", "no"));
        assert_eq!(error["response"]["subtype"], "error");
        let denied = parsed(&deny("q", "why", false));
        assert_eq!(
            denied["response"]["response"],
            serde_json::json!({"behavior": "deny", "message": "why"})
        );
        assert_eq!(parsed(&deny("q", "why", true))["response"]["response"]["interrupt"], true);
    }
}

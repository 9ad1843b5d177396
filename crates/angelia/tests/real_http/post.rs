//! Plain HTTP requests, and the model requests that result from them.

use std::net::TcpStream;

pub(crate) use angelia_testkit::plain_http::PlainResponse;
use angelia_testkit::plain_http::{exchange, request_text};
use serde_json::{Value, json};

use crate::daemon_fixture::DaemonFixture;

/// Posts to the Messages API.
pub(crate) fn post(bench: &DaemonFixture, body: &Value) -> PlainResponse {
    post_to(bench, "/v1/messages", body)
}

pub(crate) fn post_to(bench: &DaemonFixture, path: &str, body: &Value) -> PlainResponse {
    request(bench, "POST", path, "", body)
}

/// Sends a request with extra headers.
pub(crate) fn request(
    bench: &DaemonFixture,
    method: &str,
    path: &str,
    headers: &str,
    body: &Value,
) -> PlainResponse {
    let url = bench.url();
    let address = url.strip_prefix("http://").unwrap();
    let key = bench.key();
    let headers = format!("host: {address}\r\nx-api-key: {key}\r\n{headers}");
    exchange(TcpStream::connect(address).unwrap(), &request_text(method, path, &headers, body))
}

/// Returns a Messages request with a conversation.
pub(crate) fn messages(messages: &[Value]) -> Value {
    json!({"model": "claude/sonnet", "max_tokens": 4096, "messages": messages})
}

pub(crate) fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

pub(crate) fn assistant(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

/// Returns the conversation of a model request, one line per message, without the program's own
/// additions: reminders, and messages with the role `system`.
pub(crate) fn conversation_lines(request: &str) -> Vec<String> {
    let request: Value = serde_json::from_str(request).unwrap();
    let text = |block: &Value| -> Option<String> {
        match block["type"].as_str()? {
            "text" => {
                let text = block["text"].as_str()?;
                (!text.contains("<system-reminder>")).then(|| text.to_owned())
            }
            "tool_use" => Some(format!("<{}>", block["name"].as_str()?)),
            "tool_result" => Some(format!("<result {}>", block["content"])),
            other => Some(format!("<{other}>")),
        }
    };
    let in_conversation = |message: &&Value| message["role"] != "system";
    let line = |message: &Value| {
        let parts = match &message["content"] {
            Value::String(text) => text.clone(),
            Value::Array(blocks) => blocks.iter().filter_map(text).collect::<Vec<_>>().join(" "),
            other => other.to_string(),
        };
        format!("{}: {parts}", message["role"].as_str().unwrap())
    };
    let messages = request["messages"].as_array().unwrap();
    messages.iter().filter(in_conversation).map(line).collect()
}

//! A misbehaving client: it disconnects before the answer or in the middle of it, or never comes
//! back.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use angelia_testkit::plain_http::{PlainResponse, exchange, request_text};
use serde_json::{Value, json};

/// Longer than any turn here; a request that takes longer was lost.
const RESPONSE_TIMEOUT: Duration = Duration::from_mins(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApiDialect {
    Messages,
    Chat,
    Responses,
}

impl ApiDialect {
    pub(crate) const ALL: [Self; 3] = [Self::Messages, Self::Chat, Self::Responses];

    const fn path(self) -> &'static str {
        match self {
            Self::Messages => "/v1/messages",
            Self::Chat => "/v1/chat/completions",
            Self::Responses => "/v1/responses",
        }
    }

    /// Returns the strings with which a complete stream ends.
    const fn stream_end_markers(self) -> &'static [&'static str] {
        match self {
            Self::Messages => &["event: message_stop"],
            Self::Chat => &["data: [DONE]"],
            Self::Responses => &["event: response.completed", "event: response.failed"],
        }
    }

    /// Returns a request body with this conversation.
    pub(crate) fn body(self, conversation: &[Value], stream: bool) -> Value {
        let field = if self == Self::Responses { "input" } else { "messages" };
        json!({"model": "claude/sonnet", "max_tokens": 4096, field: conversation, "stream": stream})
    }

    pub(crate) fn tool(self) -> Value {
        let schema = json!({"type": "object"});
        match self {
            Self::Messages => json!({"name": "find", "input_schema": schema}),
            Self::Chat => {
                json!({"type": "function", "function": {"name": "find", "parameters": schema}})
            }
            Self::Responses => json!({"type": "function", "name": "find", "parameters": schema}),
        }
    }

    /// Returns the assistant's messages as a client sends them back, and the ids of the tool calls.
    pub(crate) fn assistant_messages(self, body: &Value) -> (Vec<Value>, Vec<String>) {
        let id = |call: &Value, field: &str| call[field].as_str().unwrap().to_owned();
        match self {
            Self::Messages => {
                let content = body["content"].as_array().unwrap();
                let calls = content.iter().filter(|block| block["type"] == "tool_use");
                let ids = calls.map(|call| id(call, "id")).collect();
                (vec![json!({"role": "assistant", "content": content})], ids)
            }
            Self::Chat => {
                let message = &body["choices"][0]["message"];
                let calls = message["tool_calls"].as_array().into_iter().flatten();
                let ids = calls.map(|call| id(call, "id")).collect();
                (vec![message.clone()], ids)
            }
            Self::Responses => {
                let items = body["output"].as_array().unwrap();
                let calls = items.iter().filter(|item| item["type"] == "function_call");
                let ids = calls.map(|call| id(call, "call_id")).collect();
                (items.clone(), ids)
            }
        }
    }

    pub(crate) fn tool_result(self, id: &str) -> Value {
        match self {
            Self::Messages => json!({"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": id, "content": "found"}]}),
            Self::Chat => json!({"role": "tool", "tool_call_id": id, "content": "found"}),
            Self::Responses => {
                json!({"type": "function_call_output", "call_id": id, "output": "found"})
            }
        }
    }
}

/// The daemon's address and API key.
#[derive(Clone, Debug)]
pub(crate) struct DaemonAddress {
    pub(crate) address: String,
    pub(crate) key: String,
}

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct RawRequest {
    pub(crate) dialect: ApiDialect,
    pub(crate) body: Value,
    pub(crate) headers: String,
}

impl RawRequest {
    fn text(&self, door: &DaemonAddress) -> String {
        let DaemonAddress { address, key } = door;
        let headers = format!("host: {address}\r\nx-api-key: {key}\r\n{}", self.headers);
        request_text("POST", self.dialect.path(), &headers, &self.body)
    }

    fn begin(&self, door: &DaemonAddress) -> TcpStream {
        let mut stream = TcpStream::connect(&door.address).unwrap();
        stream.set_read_timeout(Some(RESPONSE_TIMEOUT)).unwrap();
        stream.write_all(self.text(door).as_bytes()).unwrap();
        stream
    }

    /// Reads the answer to its end, and asserts that a stream ends properly.
    pub(crate) fn send_and_read(&self, door: &DaemonAddress) -> PlainResponse {
        let answer = PlainResponse::read(self.begin(door));
        if answer.head.contains("text/event-stream") {
            let words = self.dialect.stream_end_markers();
            assert!(words.iter().any(|word| answer.text.contains(word)), "{answer:?}");
        }
        answer
    }

    /// Disconnects before any answer; with `half`, before the whole request is sent.
    pub(crate) fn disconnect_early(&self, door: &DaemonAddress, half: bool) {
        if !half {
            drop(self.begin(door));
            return;
        }
        let text = self.text(door);
        let mut stream = TcpStream::connect(&door.address).unwrap();
        stream.write_all(&text.as_bytes()[..text.len() / 2]).unwrap();
    }

    /// Disconnects when the answer has started.
    pub(crate) fn disconnect_midway(&self, door: &DaemonAddress) {
        let mut stream = self.begin(door);
        let mut piece = [0; 512];
        // The answer may be complete by then.
        let _count = stream.read(&mut piece).unwrap();
    }
}

/// Sends a GET request as the owner, over the Unix socket.
pub(crate) fn get(socket: &Path, path: &str) -> String {
    let request = request_text("GET", path, "host: localhost\r\n", &Value::Null);
    let answer = exchange(UnixStream::connect(socket).unwrap(), &request);
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.text
}

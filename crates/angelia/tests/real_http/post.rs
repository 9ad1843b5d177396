//! Plain HTTP requests, and the model requests that result from them.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use serde_json::{Value, json};

use crate::daemon_fixture::DaemonFixture;

#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: Value,
}

impl HttpResponse {
    pub(crate) fn header(&self, name: &str) -> &str {
        let line = self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        });
        line.unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }

    pub(crate) fn session(&self) -> &str {
        self.header("x-angelia-session")
    }

    /// Returns the text blocks of a message, joined.
    pub(crate) fn text(&self) -> String {
        assert_eq!(self.status, 200, "{self:?}");
        let blocks = self.body["content"].as_array().unwrap().iter();
        blocks.filter_map(|block| block["text"].as_str()).collect()
    }
}

/// Posts to the Messages API.
pub(crate) fn post(bench: &DaemonFixture, body: &Value) -> HttpResponse {
    post_to(bench, "/v1/messages", body)
}

pub(crate) fn post_to(bench: &DaemonFixture, path: &str, body: &Value) -> HttpResponse {
    request(bench, "POST", path, "", body)
}

/// Sends a request with extra headers.
pub(crate) fn request(
    bench: &DaemonFixture,
    method: &str,
    path: &str,
    headers: &str,
    body: &Value,
) -> HttpResponse {
    let url = bench.url();
    let address = url.strip_prefix("http://").unwrap();
    let (body, key) = (body.to_string(), bench.key());
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\nx-api-key: {key}\r\n\
         {headers}content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    HttpResponse {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        head: head.to_owned(),
        body: serde_json::from_str(body).unwrap_or_else(|_| json!(body)),
    }
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
    let said = |message: &&Value| message["role"] != "system";
    let line = |message: &Value| {
        let parts = match &message["content"] {
            Value::String(text) => text.clone(),
            Value::Array(blocks) => blocks.iter().filter_map(text).collect::<Vec<_>>().join(" "),
            other => other.to_string(),
        };
        format!("{}: {parts}", message["role"].as_str().unwrap())
    };
    let messages = request["messages"].as_array().unwrap();
    messages.iter().filter(said).map(line).collect()
}

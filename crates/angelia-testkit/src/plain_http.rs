//! Plain HTTP requests for tests of a daemon, one per connection.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{Read, Write};

use serde_json::Value;

#[derive(Debug)]
pub struct PlainResponse {
    pub status: u16,
    /// The status line and the headers.
    pub head: String,
    pub text: String,
    /// The text parsed as JSON, the text itself if it is not JSON, or null if there is none.
    pub body: Value,
}

impl PlainResponse {
    /// Reads a response up to the end of the connection.
    pub fn read(mut stream: impl Read) -> Self {
        let mut whole = String::new();
        stream.read_to_string(&mut whole).unwrap();
        let (head, text) =
            whole.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no response: {whole:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let body = match text {
            "" => Value::Null,
            _ => serde_json::from_str(text).unwrap_or_else(|_| text.into()),
        };
        Self { status, head: head.to_owned(), text: text.to_owned(), body }
    }

    #[track_caller]
    pub fn header(&self, name: &str) -> &str {
        let value = self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        });
        value.unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }

    pub fn session(&self) -> &str {
        self.header("x-angelia-session")
    }

    /// Returns the joined text blocks of a message in the Messages API.
    #[track_caller]
    pub fn message_text(&self) -> String {
        assert_eq!(self.status, 200, "{self:?}");
        let blocks = self.body["content"].as_array().unwrap().iter();
        blocks.filter_map(|block| block["text"].as_str()).collect()
    }
}

/// Returns the text of a request. Each of the `headers` ends with a line break.
pub fn request_text(method: &str, path: &str, headers: &str, body: &Value) -> String {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nconnection: close\r\n{headers}\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// Sends a request and reads the response.
pub fn exchange(mut stream: impl Read + Write, request: &str) -> PlainResponse {
    stream.write_all(request.as_bytes()).unwrap();
    PlainResponse::read(stream)
}

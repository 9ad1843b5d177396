//! Requests as sent by the platforms' libraries: JSON, forms, and forms with files.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read as _},
    net::TcpStream,
};

use serde_json::{Map, Value};

/// A request.
#[derive(Clone, Debug, Default)]
pub struct PlatformRequest {
    pub method: String,
    /// The path without the query.
    pub path: String,
    pub query: BTreeMap<String, String>,
    /// Names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The fields of a JSON body or a form. A form without a body has those of the query.
    pub fields: Value,
    /// The name and the content of a file in a form.
    pub file: Option<(String, Vec<u8>)>,
    pub body: Vec<u8>,
}

impl PlatformRequest {
    /// Returns a header, or an empty string.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    pub(super) fn closes(&self) -> bool {
        self.header("connection").eq_ignore_ascii_case("close")
    }

    /// Reads a request. Returns `None` if the client has disconnected.
    pub(super) fn read(stream: &mut TcpStream) -> Option<Self> {
        // Read one request at a time, because no client sends the next one before the answer.
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
        let mut words = line.split(' ');
        let method = words.next()?.to_owned();
        let (path, query) = split_target(words.next()?);
        let mut headers = BTreeMap::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        let length = headers.get("content-length").map_or(Some(0), |text| text.parse().ok())?;
        let kind = headers.get("content-type").cloned().unwrap_or_default();
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let mut file = None;
        let fields = if kind.starts_with("application/json") {
            serde_json::from_slice(&body).unwrap_or(Value::Null)
        } else if let Some((_, boundary)) = kind.split_once("boundary=") {
            let (fields, found) = read_form(&body, boundary.trim_matches('"'));
            file = found;
            fields
        } else {
            let mut fields = read_pairs(&String::from_utf8_lossy(&body));
            fields.extend(query.clone());
            fields.into_iter().map(|(name, value)| (name, read_value(&value))).collect()
        };
        Some(Self { method, path, query, headers, fields, file, body })
    }

    /// Parses the head of a request for a WebSocket.
    pub(super) fn from_upgrade(head: &str) -> Self {
        let mut lines = head.lines();
        let mut words = lines.next().unwrap_or_default().split(' ');
        let method = words.next().unwrap_or_default().to_owned();
        let (path, query) = split_target(words.next().unwrap_or_default());
        let headers = lines.filter_map(|line| line.split_once(':'));
        let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().into()));
        Self { method, path, query, headers: headers.collect(), ..Self::default() }
    }
}

fn split_target(target: &str) -> (String, BTreeMap<String, String>) {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    (decode_percent(path), read_pairs(query))
}

fn read_pairs(text: &str) -> BTreeMap<String, String> {
    let decode = |text: &str| decode_percent(&text.replace('+', " "));
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (decode(name), decode(value))).collect()
}

/// Parses a value. Forms contain structures as JSON in a string.
fn read_value(text: &str) -> Value {
    match text.chars().next() {
        Some('{' | '[') => serde_json::from_str(text).unwrap_or_else(|_| text.into()),
        _ => text.into(),
    }
}

fn read_form(body: &[u8], boundary: &str) -> (Value, Option<(String, Vec<u8>)>) {
    let (mut fields, mut file) = (Map::new(), None);
    let mark = format!("--{boundary}");
    for part in split_bytes(body, mark.as_bytes()) {
        let Some(end) = find_bytes(part, b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&part[..end]).into_owned();
        let content = part[end + 4..].strip_suffix(b"\r\n").unwrap_or(&part[end + 4..]);
        let attribute = |name: &str| {
            let begin = head.find(&format!("{name}=\""))? + name.len() + 2;
            let rest = &head[begin..];
            Some(rest[..rest.find('"')?].to_owned())
        };
        match (attribute(" name"), attribute("filename")) {
            (_, Some(name)) => file = Some((name, content.to_vec())),
            (Some(name), None) => {
                fields.insert(name, read_value(&String::from_utf8_lossy(content)));
            }
            (None, None) => {}
        }
    }
    (Value::Object(fields), file)
}

fn split_bytes<'a>(mut bytes: &'a [u8], mark: &[u8]) -> Vec<&'a [u8]> {
    let mut parts = Vec::new();
    while let Some(at) = find_bytes(bytes, mark) {
        parts.push(&bytes[..at]);
        bytes = &bytes[at + mark.len()..];
    }
    parts
}

fn find_bytes(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

fn decode_percent(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        if let Some(byte) = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            decoded.push(byte);
            at += 3;
        } else {
            decoded.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

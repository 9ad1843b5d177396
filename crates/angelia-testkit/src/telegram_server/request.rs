//! Requests as the libraries send them.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    net::TcpStream,
};

use serde_json::{Map, Value};

#[derive(Debug)]
pub(super) struct BotRequest {
    pub(super) path: String,
    pub(super) fields: Value,
    pub(super) file: Option<(String, Vec<u8>)>,
    pub(super) closes: bool,
}

impl BotRequest {
    /// Reads a request; `None` if the client has left.
    pub(super) fn read(stream: &mut TcpStream) -> Option<Self> {
        // One request at a time: no client sends the next one before the answer.
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
        let target = line.split(' ').nth(1)?.to_owned();
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let path = decode_percent(path);
        let (mut length, mut kind, mut closes) = (0, String::new(), false);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.trim().parse().ok()?,
                "content-type" => value.trim().clone_into(&mut kind),
                "connection" => closes = value.trim().eq_ignore_ascii_case("close"),
                _ => {}
            }
        }
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
            let text = String::from_utf8_lossy(&body);
            let pairs =
                text.split('&').chain(query.split('&')).filter_map(|pair| pair.split_once('='));
            let decode = |text: &str| decode_percent(&text.replace('+', " "));
            let fields = pairs.map(|(name, value)| (decode(name), read_value(&decode(value))));
            Value::Object(fields.collect())
        };
        Some(Self { path, fields, file, closes })
    }
}

/// Forms have structures as JSON in a string.
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

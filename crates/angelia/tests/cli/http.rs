//! Plain HTTP requests to the daemon's `/api`, one per connection.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    os::unix::net::UnixStream,
    path::Path,
};

use serde_json::{Value, json};

use crate::machine::Machine;

#[derive(Debug)]
pub(crate) struct DaemonResponse {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

const LOCAL: &str = "host: localhost\r\n";

fn request(method: &str, path: &str, body: &Value, headers: &str) -> String {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nconnection: close\r\n{headers}\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

fn read(mut stream: impl std::io::Read) -> DaemonResponse {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    DaemonResponse { status, body: serde_json::from_str(body).unwrap_or_default() }
}

pub(crate) fn request_api(socket: &Path, method: &str, path: &str, body: &Value) -> DaemonResponse {
    request_api_with(socket, method, path, body, "")
}

/// Sends a request with an extra header.
pub(crate) fn request_api_with(
    socket: &Path,
    method: &str,
    path: &str,
    body: &Value,
    header: &str,
) -> DaemonResponse {
    let mut stream = UnixStream::connect(socket).unwrap();
    let headers = format!("{LOCAL}{header}");
    stream.write_all(request(method, path, body, &headers).as_bytes()).unwrap();
    read(stream)
}

/// Sends a request over TCP with an extra header.
pub(crate) fn get_over_tcp(machine: &Machine, path: &str, header: &str) -> DaemonResponse {
    let address = std::fs::read_to_string(machine.home().join("run/http.addr")).unwrap();
    let address = address.trim();
    let headers = format!("host: {address}\r\n{header}");
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request("GET", path, &Value::Null, &headers).as_bytes()).unwrap();
    read(stream)
}

/// Creates a session and returns its id.
pub(crate) fn session(machine: &Machine, socket: &Path, profile: &str) -> String {
    let body = json!({"profile": profile, "cwd": machine.work()});
    let made = request_api(socket, "POST", "/api/sessions", &body);
    assert_eq!(made.status, 201, "{made:?}");
    made.body["id"].as_str().unwrap().to_owned()
}

/// Submits a turn without waiting for it, and returns its id.
pub(crate) fn submit(socket: &Path, session: &str, input: &str) -> String {
    let path = format!("/api/sessions/{session}/turns");
    let taken = request_api(socket, "POST", &path, &json!({"input": input}));
    assert_eq!(taken.status, 202, "{taken:?}");
    taken.body["id"].as_str().unwrap().to_owned()
}

pub(crate) fn turn(socket: &Path, id: &str) -> Value {
    request_api(socket, "GET", &format!("/api/turns/{id}"), &Value::Null).body
}

/// Waits for a turn's end by following its events.
pub(crate) fn follow(socket: &Path, id: &str) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    let path = format!("/api/turns/{id}/events");
    stream.write_all(request("GET", &path, &Value::Null, LOCAL).as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

//! Plain HTTP requests to the daemon's `/api`, one per connection.

use std::{net::TcpStream, os::unix::net::UnixStream, path::Path};

pub(crate) use angelia_testkit::plain_http::PlainResponse;
use angelia_testkit::plain_http::{exchange, request_text};
use serde_json::{Value, json};

use crate::machine::Machine;

const LOCAL: &str = "host: localhost\r\n";

pub(crate) fn request_api(socket: &Path, method: &str, path: &str, body: &Value) -> PlainResponse {
    request_api_with(socket, method, path, body, "")
}

/// Sends a request with an extra header.
pub(crate) fn request_api_with(
    socket: &Path,
    method: &str,
    path: &str,
    body: &Value,
    header: &str,
) -> PlainResponse {
    let headers = format!("{LOCAL}{header}");
    let request = request_text(method, path, &headers, body);
    exchange(UnixStream::connect(socket).unwrap(), &request)
}

/// Reads over TCP with an extra header.
pub(crate) fn get_over_tcp(machine: &Machine, path: &str, header: &str) -> PlainResponse {
    request_over_tcp(machine, "GET", path, &Value::Null, header)
}

/// Sends a request over TCP with an extra header.
pub(crate) fn request_over_tcp(
    machine: &Machine,
    method: &str,
    path: &str,
    body: &Value,
    header: &str,
) -> PlainResponse {
    let address = std::fs::read_to_string(machine.home().join("run/http.addr")).unwrap();
    let address = address.trim();
    let headers = format!("host: {address}\r\n{header}");
    let request = request_text(method, path, &headers, body);
    exchange(TcpStream::connect(address).unwrap(), &request)
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

/// Waits for a turn's end by following its events, and returns the stream.
pub(crate) fn follow(socket: &Path, id: &str) -> String {
    request_api(socket, "GET", &format!("/api/turns/{id}/events"), &Value::Null).text
}

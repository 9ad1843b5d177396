//! A client of `/api` that sends a request again until a daemon answers it, over kills and restarts.

use std::{
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::machine::within;

/// How long a client tries to reach a daemon, and waits for the end of a turn.
const MAX_WAIT: Duration = Duration::from_mins(2);

#[derive(Clone, Debug)]
pub(crate) struct InsistentClient {
    pub(crate) socket: PathBuf,
}

impl InsistentClient {
    /// Returns the answer, or `None` if the daemon is dead or dies meanwhile.
    fn request(&self, method: &str, path: &str, key: &str, body: &Value) -> Option<(u16, Value)> {
        let mut stream = UnixStream::connect(&self.socket).ok()?;
        let body = body.to_string();
        let key =
            if key.is_empty() { String::new() } else { format!("idempotency-key: {key}\r\n") };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{key}\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).ok()?;
        stream.write_all(body.as_bytes()).ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        // The daemon may die in the middle of the body.
        Some((status, serde_json::from_str(body).ok()?))
    }

    /// Sends a request until it gets this status.
    pub(crate) fn insist(
        &self,
        method: &str,
        path: &str,
        key: &str,
        body: &Value,
        wanted: u16,
    ) -> Value {
        let deadline = Instant::now() + MAX_WAIT;
        loop {
            match self.request(method, path, key, body) {
                Some((status, answer)) if status == wanted => return answer,
                // Shutting down, or busy.
                None | Some((429 | 503, _)) => thread::sleep(Duration::from_millis(20)),
                other => panic!("{method} {path}: {other:?}"),
            }
            assert!(Instant::now() < deadline, "{method} {path}: no daemon answers");
        }
    }

    /// Creates a session of the default profile in this directory, and returns its id.
    pub(crate) fn create_session(&self, cwd: &std::path::Path) -> String {
        let new = json!({"profile": "default", "cwd": cwd});
        let session = self.insist("POST", "/api/sessions", "", &new, 201);
        session["id"].as_str().unwrap().to_owned()
    }

    /// Submits a turn under this idempotency key, and returns its id.
    pub(crate) fn submit(&self, session: &str, key: &str, input: &str) -> String {
        let path = format!("/api/sessions/{session}/turns");
        let sent = self.insist("POST", &path, key, &json!({"input": input}), 202);
        sent["id"].as_str().unwrap().to_owned()
    }

    /// Waits for the end of a turn, and returns the turn.
    pub(crate) fn wait_for_end(&self, turn: &str) -> Value {
        let path = format!("/api/turns/{turn}");
        let mut seen = Value::Null;
        let has_ended = within(MAX_WAIT, || {
            seen = self.insist("GET", &path, "", &Value::Null, 200);
            let status = seen["status"].as_str().unwrap();
            thread::sleep(Duration::from_millis(5));
            !["queued", "running", "awaiting_approval"].contains(&status)
        });
        assert!(has_ended, "the turn does not end: {seen}");
        seen
    }
}

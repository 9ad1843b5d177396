//! The transport for fake chat platform servers: HTTP and `WebSocket`s on one loopback port. It is
//! independent of any platform; each fake implements [`PlatformFake`].
//!
//! - `request`: a request, with the fields of its body.
//! - `socket`: a client's WebSocket.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod request;
mod socket;

use std::{
    io::Write as _,
    net::{TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::Duration,
};

use serde_json::Value;

pub use self::{
    request::PlatformRequest,
    socket::{ClientSocket, SocketFrame},
};

/// Handles the requests and frames of a fake. Called on the connection's thread.
pub trait PlatformFake: Send + Sync + 'static {
    /// Returns the answer to a request, or `None` to cut the connection.
    fn answer(&self, request: &PlatformRequest) -> Option<PlatformAnswer>;

    /// Decides whether a WebSocket may be opened. `Err` refuses it with this answer.
    fn open_socket(&self, _request: &PlatformRequest) -> Result<(), PlatformAnswer> {
        Err(PlatformAnswer::json(404, &Value::Null))
    }

    /// Called when a WebSocket is open. The fake keeps it to send frames at any time.
    fn socket_opened(&self, _request: &PlatformRequest, _socket: &ClientSocket) {}

    /// Called when a client has sent a frame.
    fn frame(&self, _socket: &ClientSocket, _frame: SocketFrame) {}

    /// Called when a WebSocket was closed by either side.
    fn socket_closed(&self, _socket: &ClientSocket) {}
}

/// An HTTP answer.
#[derive(Clone, Debug)]
pub struct PlatformAnswer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl PlatformAnswer {
    pub fn json(status: u16, body: &Value) -> Self {
        let kind = ("content-type".to_owned(), "application/json".to_owned());
        Self { status, headers: vec![kind], body: body.to_string().into_bytes() }
    }

    pub fn bytes(status: u16, kind: &str, body: impl Into<Vec<u8>>) -> Self {
        let kind = ("content-type".to_owned(), kind.to_owned());
        Self { status, headers: vec![kind], body: body.into() }
    }

    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// Serves a fake until the process ends, and returns `http://HOST:PORT`.
pub fn serve_platform(fake: Arc<impl PlatformFake>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let fake = Arc::clone(&fake);
            thread::spawn(move || serve_connection(&*fake, stream));
        }
    });
    address
}

fn serve_connection(fake: &impl PlatformFake, mut stream: TcpStream) {
    loop {
        let Some(head) = peek_head(&stream) else { return };
        if head.to_ascii_lowercase().contains("\r\nupgrade: websocket") {
            let request = PlatformRequest::from_upgrade(&head);
            match fake.open_socket(&request) {
                Ok(()) => socket::run(fake, &request, stream),
                Err(refusal) => drop(write_answer(&mut stream, &refusal)),
            }
            return;
        }
        let Some(request) = PlatformRequest::read(&mut stream) else { return };
        let Some(answer) = fake.answer(&request) else { return };
        // A client that disconnects is not an error.
        if write_answer(&mut stream, &answer).is_err() || request.closes() {
            return;
        }
    }
}

/// Returns the head of the next request without consuming it, or `None` if the client has disconnected.
fn peek_head(stream: &TcpStream) -> Option<String> {
    let mut buffer = vec![0; 16 << 10];
    loop {
        let count = stream.peek(&mut buffer).ok().filter(|count| *count > 0)?;
        let text = String::from_utf8_lossy(&buffer[..count]);
        if let Some(end) = text.find("\r\n\r\n") {
            return Some(text[..end + 2].to_owned());
        }
        if count == buffer.len() {
            return None;
        }
        // Peeking returns at once while only part of the head has arrived.
        thread::sleep(Duration::from_millis(1));
    }
}

fn write_answer(stream: &mut TcpStream, answer: &PlatformAnswer) -> std::io::Result<()> {
    let mut head =
        format!("HTTP/1.1 {} X\r\ncontent-length: {}\r\n", answer.status, answer.body.len());
    for (name, value) in &answer.headers {
        head.extend([name, ": ", value, "\r\n"]);
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes())?;
    stream.write_all(&answer.body)
}

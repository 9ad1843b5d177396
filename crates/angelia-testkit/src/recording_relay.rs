//! Relays between a client and an HTTP server, and records what both send.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use crate::plain_server::PlainRequest;

/// A request with a body, and its answer.
#[derive(Clone, Debug, Default)]
pub struct RelayedExchange {
    pub request: String,
    pub status: u16,
    pub answer: String,
}

/// Passes each request to another server. Answers are passed on as they arrive.
#[derive(Debug)]
pub struct RecordingRelay {
    address: SocketAddr,
    exchanges: Arc<Mutex<Vec<RelayedExchange>>>,
}

impl RecordingRelay {
    /// Starts a relay to `server`, given as `HOST:PORT`.
    pub fn start(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let exchanges = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&exchanges);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (server, log) = (server.clone(), Arc::clone(&log));
                // A client or server that disconnects ends only its own exchange.
                thread::spawn(move || relay(stream, &server, &log));
            }
        });
        Self { address, exchanges }
    }

    /// Returns `HOST:PORT`.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the finished exchanges whose request had a body.
    pub fn exchanges(&self) -> Vec<RelayedExchange> {
        self.exchanges.lock().unwrap().clone()
    }
}

/// Passes one request on, and its answer back. Then closes both connections, so the end of the
/// answer is the end of the connection.
fn relay(mut client: TcpStream, server: &str, log: &Mutex<Vec<RelayedExchange>>) -> Option<()> {
    let PlainRequest { line, headers, body } = PlainRequest::read(&mut client)?;
    let headers = headers.iter().filter(|(name, _)| name != "connection");
    let headers: String =
        headers.flat_map(|(name, value)| [name.as_str(), ": ", value, "\r\n"]).collect();
    let mut upstream = TcpStream::connect(server).ok()?;
    write!(upstream, "{line}\r\n{headers}connection: close\r\n\r\n{body}").ok()?;
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let count = upstream.read(&mut piece).ok()?;
        if count == 0 {
            break;
        }
        answer.extend_from_slice(&piece[..count]);
        client.write_all(&piece[..count]).ok()?;
    }
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1)?.parse().ok()?;
    if !body.is_empty() {
        log.lock().unwrap().push(RelayedExchange { request: body, status, answer });
    }
    Some(())
}

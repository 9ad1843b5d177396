//! An HTTP server on loopback with fixed answers, for tests of requests that do not involve a
//! model.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

/// How the server reacts to a request.
#[derive(Clone, Debug)]
pub enum PlainAnswer {
    Json(u16, String),
    /// Redirects the client to another address.
    Redirect(String),
    /// Reads the request, but never answers it.
    Silence,
}

/// A server that records its requests. Requests without an answer get 404.
#[derive(Debug)]
pub struct PlainServer {
    address: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl PlainServer {
    /// Starts a server. `answers` are keyed by method and path, such as `GET /v1/models`.
    pub fn start(answers: impl IntoIterator<Item = (&'static str, PlainAnswer)>) -> Self {
        let answers: BTreeMap<&'static str, PlainAnswer> = answers.into_iter().collect();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&requests);
        thread::spawn(move || {
            let mut silent = Vec::new();
            for mut stream in listener.incoming().flatten() {
                let Some(request) = PlainRequest::read(&mut stream) else { continue };
                let line = &request.line;
                let wanted = line.strip_suffix(" HTTP/1.1").unwrap_or(line).to_owned();
                log.lock().unwrap().push(request.text());
                let mut location = String::new();
                let (status, body) = match answers.get(wanted.as_str()) {
                    Some(PlainAnswer::Json(status, body)) => (*status, body.as_str()),
                    Some(PlainAnswer::Redirect(to)) => {
                        location = format!("location: {to}\r\n");
                        (307, "")
                    }
                    Some(PlainAnswer::Silence) => {
                        silent.push(stream);
                        continue;
                    }
                    None => (404, "{\"error\":{\"message\":\"there is nothing here\"}}"),
                };
                // A client that disconnects is not an error.
                let _left = write!(
                    stream,
                    "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
                     {location}connection: close\r\n\r\n{body}",
                    body.len()
                );
            }
        });
        Self { address, requests }
    }

    /// Returns `http://HOST:PORT`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns each request so far: its line, its headers in lower case, and its body.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// A request as a server reads it.
#[derive(Debug)]
pub(crate) struct PlainRequest {
    pub(crate) line: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl PlainRequest {
    pub(crate) fn read(stream: &mut TcpStream) -> Option<Self> {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        line.truncate(line.trim_end().len());
        let mut headers = Vec::new();
        let mut length = 0;
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).ok()?;
            let Some((name, value)) = header.trim_end().split_once(':') else { break };
            let (name, value) = (name.to_ascii_lowercase(), value.trim().to_owned());
            if name == "content-length" {
                length = value.parse().ok()?;
            }
            headers.push((name, value));
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        Some(Self { line, headers, body: String::from_utf8_lossy(&body).into_owned() })
    }

    /// Returns the line, the headers and the body.
    fn text(&self) -> String {
        let headers = self.headers.iter().map(|(name, value)| format!("{name}: {value}\n"));
        [self.line.as_str(), "\n", &headers.collect::<String>(), &self.body].concat()
    }
}

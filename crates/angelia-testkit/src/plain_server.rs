//! An HTTP server on loopback with fixed answers, for tests of requests that ask no model.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

/// What the server does with a request.
#[derive(Clone, Debug)]
pub enum PlainAnswer {
    Json(u16, String),
    /// The request is read and never answered.
    Silence,
}

/// A server, and the requests that it got. Requests for which there is no answer get 404.
#[derive(Debug)]
pub struct PlainServer {
    address: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl PlainServer {
    /// `answers`: by method and path, such as `GET /v1/models`.
    pub fn start(answers: impl IntoIterator<Item = (&'static str, PlainAnswer)>) -> Self {
        let answers: BTreeMap<&'static str, PlainAnswer> = answers.into_iter().collect();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&requests);
        thread::spawn(move || {
            let mut silent = Vec::new();
            for mut stream in listener.incoming().flatten() {
                let Some(request) = read_request(&mut stream) else { continue };
                let line = request.lines().next().unwrap_or_default();
                let wanted = line.strip_suffix(" HTTP/1.1").unwrap_or(line).to_owned();
                log.lock().unwrap().push(request);
                let (status, body) = match answers.get(wanted.as_str()) {
                    Some(PlainAnswer::Json(status, body)) => (*status, body.as_str()),
                    Some(PlainAnswer::Silence) => {
                        silent.push(stream);
                        continue;
                    }
                    None => (404, "{\"error\":{\"message\":\"there is nothing here\"}}"),
                };
                // A client that leaves is no error.
                let _left = write!(
                    stream,
                    "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
                     connection: close\r\n\r\n{body}",
                    body.len()
                );
            }
        });
        Self { address, requests }
    }

    /// `http://HOST:PORT`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns each request so far: its line, its headers in lower case, and its body.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut reader = BufReader::new(stream);
    let mut request = String::new();
    reader.read_line(&mut request).ok()?;
    request.truncate(request.trim_end().len());
    request.push('\n');
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        let name = name.to_ascii_lowercase();
        if name == "content-length" {
            length = value.trim().parse().ok()?;
        }
        request += &[&name, ": ", value.trim(), "\n"].concat();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    request += &String::from_utf8_lossy(&body);
    Some(request)
}

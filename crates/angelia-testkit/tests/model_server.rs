//! The scripted model server as a plain HTTP client sees it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

use angelia_testkit::model_server::{Fault, ModelServer, Reply, ReplyUsage};
use serde_json::{Value, json};

fn connect(server: &ModelServer) -> TcpStream {
    let stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

fn request(method: &str, path: &str, body: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// Sends a request and reads one response that has a `content-length`.
fn ask(stream: &mut TcpStream, text: &str) -> (u16, Value) {
    stream.write_all(text.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    loop {
        let mut part = [0; 4096];
        let read = stream.read(&mut part).unwrap();
        assert!(read > 0, "closed after {}", String::from_utf8_lossy(&bytes));
        bytes.extend_from_slice(&part[..read]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        if body.len() < length.parse().unwrap() {
            continue;
        }
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        return (status, serde_json::from_str(body).unwrap_or_default());
    }
}

fn messages(text: &str, stream: bool) -> String {
    let body =
        json!({"model": "m", "stream": stream, "messages": [{"role": "user", "content": text}]});
    request("POST", "/v1/messages", &body.to_string())
}

#[test]
fn one_connection_serves_many_requests() {
    let server = ModelServer::start().unwrap();
    let mut stream = connect(&server);
    for round in 0..50 {
        let (status, body) = ask(&mut stream, &messages(&format!("ECHO:{round}"), false));
        assert_eq!((status, body["content"][0]["text"].as_str()), (200, Some(&*round.to_string())));
    }
    let (_, counted) = ask(&mut stream, &request("POST", "/v1/messages/count_tokens", "{}"));
    assert!(counted["input_tokens"].is_number());
    let (_, models) = ask(&mut stream, &request("GET", "/v1/models?limit=1", ""));
    assert!(models["data"][0]["id"].is_string());
    let (status, _) = ask(&mut stream, &request("GET", "/nothing", ""));
    assert_eq!(status, 404);
    assert_eq!((server.requests().len(), server.model_requests().len()), (53, 50));
    assert_eq!(server.requests()[51].query.as_deref(), Some("limit=1"));
}

#[test]
fn the_script_comes_first_then_the_function_then_the_prompt() {
    let server = ModelServer::start().unwrap();
    server.script([Reply::text("one"), Reply::status(418).with_header("retry-after", "7")]);
    server.respond_with(|request| {
        (request.prompt() == "special").then(|| Reply::text("from the function"))
    });
    server.set_usage(ReplyUsage { input: 1, ..ReplyUsage::default() });
    let mut stream = connect(&server);
    let (_, one) = ask(&mut stream, &messages("special", false));
    assert_eq!(
        (&one["content"][0]["text"], &one["usage"]["input_tokens"]),
        (&json!("one"), &json!(1))
    );
    assert_eq!(ask(&mut stream, &messages("special", false)).0, 418);
    assert_eq!(server.unused_replies(), 0);
    let (_, three) = ask(&mut stream, &messages("special", false));
    assert_eq!(three["content"][0]["text"], "from the function");
    let (_, four) = ask(&mut stream, &messages("ECHO:four", false));
    assert_eq!(four["content"][0]["text"], "four");
}

#[test]
fn a_chunked_request_is_read() {
    let server = ModelServer::start().unwrap();
    let mut stream = connect(&server);
    let body = json!({"messages": [{"role": "user", "content": "ECHO:chunks"}]}).to_string();
    let (first, second) = body.split_at(10);
    let text = format!(
        "POST /v1/messages HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{first}\r\n{:x}\r\n{second}\r\n0\r\n\r\n",
        first.len(),
        second.len()
    );
    assert_eq!(ask(&mut stream, &text).1["content"][0]["text"], "chunks");
}

#[test]
fn a_stream_with_pauses_arrives_piece_by_piece() {
    let server = ModelServer::start().unwrap();
    let mut stream = connect(&server);
    stream.write_all(messages("WORDS:4:50", true).as_bytes()).unwrap();
    let begin = Instant::now();
    let mut text = String::new();
    let mut first = None;
    while !text.ends_with("0\r\n\r\n") {
        let mut part = [0; 4096];
        let read = stream.read(&mut part).unwrap();
        text.push_str(std::str::from_utf8(&part[..read]).unwrap());
        if first.is_none() && text.contains("w0 ") {
            first = Some(begin.elapsed());
        }
    }
    assert!(begin.elapsed() >= first.unwrap() + Duration::from_millis(150));
    assert_eq!(text.matches("text_delta").count(), 4);
}

#[test]
fn a_cut_resets_and_a_hang_ends_with_the_server() {
    let server = ModelServer::start().unwrap();
    server.script([Reply::fault(Fault::ConnectionReset), Reply::fault(Fault::HangHeaders)]);
    let mut cut = connect(&server);
    cut.write_all(messages("x", true).as_bytes()).unwrap();
    let mut bytes = Vec::new();
    assert!(cut.read_to_end(&mut bytes).is_err());
    assert!(String::from_utf8_lossy(&bytes).contains("partial"));

    let mut hung = connect(&server);
    hung.write_all(messages("x", true).as_bytes()).unwrap();
    while server.model_requests().len() < 2 {
        std::thread::yield_now();
    }
    let begin = Instant::now();
    drop(server);
    assert!(begin.elapsed() < Duration::from_secs(5));
    assert_eq!(hung.read(&mut [0; 16]).unwrap_or_default(), 0);
}

#[test]
fn a_client_that_leaves_is_counted() {
    let server = ModelServer::start().unwrap();
    server.script([Reply::fault(Fault::HangBody)]);
    let mut stream = connect(&server);
    stream.write_all(messages("x", true).as_bytes()).unwrap();
    let _ = stream.read(&mut [0; 16]).unwrap();
    assert_eq!(server.abandoned_count(), 0);
    drop(stream);
    let deadline = Instant::now() + Duration::from_secs(10);
    while server.abandoned_count() == 0 {
        assert!(Instant::now() < deadline);
        std::thread::yield_now();
    }
}

#[test]
fn the_responses_dialect_answers_too() {
    let server = ModelServer::start().unwrap();
    let mut stream = connect(&server);
    let body = json!({"model": "g", "input": "ECHO:hello"}).to_string();
    let (status, answer) = ask(&mut stream, &request("POST", "/v1/responses", &body));
    assert_eq!((status, &answer["status"]), (200, &json!("completed")));
    assert_eq!(answer["output"][0]["content"][0]["text"], "hello");
    let body = json!({"model": "g", "input": "STATUS:429"}).to_string();
    let (status, answer) = ask(&mut stream, &request("POST", "/v1/responses", &body));
    assert_eq!((status, &answer["error"]["code"]), (429, &json!("rate_limit_exceeded")));
}

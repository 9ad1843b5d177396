//! The scripted model server as a plain HTTP client sees it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

use angelia_testkit::model_server::{
    ApiError, Fault, ModelServer, Reply, ReplyUsage, StreamBreak, WireQuirk,
};
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

/// The three APIs that our own loop speaks: the path, a body that asks for a stream, and what the end
/// of a whole stream contains.
const APIS: [(&str, &str, &str); 3] = [
    ("/v1/messages", r#"{"stream":true,"messages":[]}"#, "message_stop"),
    ("/v1/chat/completions", r#"{"stream":true,"messages":[]}"#, "[DONE]"),
    ("/v1/responses", r#"{"stream":true,"input":[]}"#, "response.completed"),
];

/// Asks for a stream and returns everything that came, and whether the body ended properly.
fn stream_of(server: &ModelServer, path: &str, body: &str) -> (String, bool) {
    let mut stream = connect(server);
    stream.write_all(request("POST", path, body).as_bytes()).unwrap();
    let mut bytes = Vec::new();
    loop {
        let mut part = [0; 4096];
        match stream.read(&mut part) {
            Ok(0) | Err(_) => break,
            Ok(read) => bytes.extend_from_slice(&part[..read]),
        }
        if bytes.ends_with(b"\r\n0\r\n\r\n") {
            break;
        }
    }
    let text = String::from_utf8(bytes).unwrap();
    let whole = text.ends_with("\r\n0\r\n\r\n");
    (text, whole)
}

#[test]
fn the_chat_dialect_answers_too() {
    let server = ModelServer::start().unwrap();
    let mut stream = connect(&server);
    let body = json!({"model": "g", "messages": [{"role": "user", "content": "ECHO:hello"}]});
    let asked = request("POST", "/v1/chat/completions", &body.to_string());
    let (status, answer) = ask(&mut stream, &asked);
    assert_eq!((status, &answer["object"]), (200, &json!("chat.completion")));
    assert_eq!(answer["choices"][0]["message"]["content"], "hello");
    assert_eq!(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 3000);
    server.script([Reply::error(ApiError::InsufficientQuota)]);
    let (status, answer) = ask(&mut stream, &asked);
    assert_eq!((status, &answer["error"]["code"]), (429, &json!("insufficient_quota")));
    let (_, model) = ask(&mut stream, &request("GET", "/v1/models/gpt-5.5", ""));
    assert_eq!(model["id"], "gpt-5.5");
    assert_eq!(server.model_requests().len(), 2);
}

#[test]
fn a_call_is_cut_in_every_dialect() {
    let server = ModelServer::start().unwrap();
    let call = || Reply::tool("read", json!({"path": "a/long/enough/name"}));
    for (path, body, end) in APIS {
        server.script([call().with_cut(StreamBreak::End), call().with_cut(StreamBreak::Reset)]);
        for ends_properly in [true, false] {
            let (text, whole) = stream_of(&server, path, body);
            assert_eq!(whole, ends_properly, "{path}: {text}");
            assert!(text.contains("\\\"path\\\""), "{path}: {text}");
            assert!(!text.contains("gh/name") && !text.contains(end), "{path}: {text}");
        }
        server.script([Reply::text("said before").with_cut(StreamBreak::ErrorFrame)]);
        let (text, whole) = stream_of(&server, path, body);
        assert!(whole && text.contains("said bef") && text.contains("\"error\""), "{path}: {text}");
        server.script([call()]);
        let (text, whole) = stream_of(&server, path, body);
        assert!(whole && text.contains(end), "{path}: {text}");
    }
}

#[test]
fn text_that_is_not_quite_json_is_sent_as_it_is() {
    let server = ModelServer::start().unwrap();
    for (path, body, _) in APIS {
        let table = [
            (WireQuirk::LoneSurrogate, "a\\ud83db"),
            (WireQuirk::RawTab, "a\tb"),
            (WireQuirk::NotANumber, "{\"score\":NaN,"),
        ];
        for (quirk, damage) in table {
            server.script([Reply::text("a b").with_quirk(quirk)]);
            let (text, whole) = stream_of(&server, path, body);
            assert!(whole && text.contains(damage), "{path} {quirk:?}: {text}");
        }
    }
}

#[test]
fn keep_alives_go_on_until_the_client_leaves() {
    let server = ModelServer::start().unwrap();
    for (path, body, _) in APIS {
        server.script([Reply::fault(Fault::KeepAlives)]);
        let before = server.abandoned_count();
        let mut stream = connect(&server);
        stream.write_all(request("POST", path, body).as_bytes()).unwrap();
        let mut text = String::new();
        while text.matches("ping").count() + text.matches("\n: ").count() < 20 {
            let mut part = [0; 4096];
            let read = stream.read(&mut part).unwrap();
            assert!(read > 0, "{path}: {text}");
            text.push_str(std::str::from_utf8(&part[..read]).unwrap());
        }
        drop(stream);
        let deadline = Instant::now() + Duration::from_secs(10);
        while server.abandoned_count() == before {
            assert!(Instant::now() < deadline, "{path}");
            std::thread::yield_now();
        }
    }
}

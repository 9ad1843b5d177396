//! Limits against hostile clients: they can hold neither memory nor a connection slot forever.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, timeout},
};

use crate::{
    harness::{DEADLINE, TOKEN},
    sockets::{RunningServer, exchange},
};

/// Returns the first line of the answer that comes before the connection is closed.
async fn first_response_line(mut stream: TcpStream, request: &[u8]) -> String {
    // The server may close the connection before everything is written.
    let _hung_up = stream.write_all(request).await;
    let mut answer = Vec::new();
    let _reset = timeout(DEADLINE, stream.read_to_end(&mut answer)).await.unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    answer.lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn an_oversized_head_is_refused() {
    let served = RunningServer::start().await;
    let host = served.address;
    let many = "x-more: 1\r\n".repeat(1000);
    let many = format!("GET /healthz HTTP/1.1\r\nhost: {host}\r\n{many}\r\n");
    let line = first_response_line(served.tcp().await, many.as_bytes()).await;
    assert!(line.contains("431"), "{line}");

    let long = "x".repeat(4 << 20);
    let header = format!("GET /healthz HTTP/1.1\r\nhost: {host}\r\nx-long: {long}\r\n\r\n");
    let line = first_response_line(served.tcp().await, header.as_bytes()).await;
    assert!(line.is_empty() || line.contains("431"), "{line}");

    let uri = format!("GET /{long} HTTP/1.1\r\nhost: {host}\r\n\r\n");
    let line = first_response_line(served.tcp().await, uri.as_bytes()).await;
    assert!(line.is_empty() || line.contains("414") || line.contains("431"), "{line}");
    let (status, _) =
        exchange(served.tcp().await, &served.request_text("GET", "/healthz", "")).await;
    assert_eq!(status, 200);
}

/// Sends a byte every second until the server closes the connection.
async fn dribble(stream: &mut TcpStream, byte: u8) -> (Duration, String) {
    let began = Instant::now();
    let (mut reader, mut writer) = stream.split();
    let mut answer = String::new();
    let write = async {
        while writer.write_all(&[byte]).await.is_ok() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        _reset = reader.read_to_string(&mut answer) => {}
        () = write => {}
        () = tokio::time::sleep(Duration::from_mins(10)) => panic!("nobody minds"),
    }
    (began.elapsed(), answer)
}

#[tokio::test(start_paused = true)]
async fn a_dribbled_head_is_given_up() {
    let served = RunningServer::start().await;
    let mut stream = served.tcp().await;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nx-slow: ").await.unwrap();
    let (lasted, answer) = dribble(&mut stream, b'x').await;
    assert!(lasted < Duration::from_mins(2), "{lasted:?} {answer}");
}

#[tokio::test(start_paused = true)]
async fn a_dribbled_body_is_given_up_with_the_reason() {
    for path in ["/api/sessions", "/v1/messages", "/v1/responses"] {
        let served = RunningServer::start().await;
        let mut stream = served.tcp().await;
        let host = served.address;
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {host}\r\nx-api-key: {TOKEN}\r\n\
             content-length: 1000000\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let (lasted, answer) = dribble(&mut stream, b' ').await;
        assert!(lasted < Duration::from_mins(3), "{lasted:?}");
        assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
        assert!(answer.contains("did not arrive in time"), "{answer}");
    }
}

/// A large body that stops half-way holds up no other of the same caller.
#[tokio::test]
async fn a_large_body_that_stalls_lets_the_next_one_go_first() {
    let served = RunningServer::start().await;
    let body = format!("{{\"title\":\"{}\"}}", "x".repeat(1 << 20));
    let request = served.request_text("POST", "/api/sessions", &body);
    let (first_half, second_half) = request.split_at(request.len() / 2);
    let mut stalled = served.tcp().await;
    stalled.write_all(first_half.as_bytes()).await.unwrap();
    let (status, answer) = exchange(served.tcp().await, &request).await;
    assert_eq!(status, 201, "{answer}");
    let (status, answer) = exchange(stalled, second_half).await;
    assert_eq!(status, 201, "{answer}");
}

/// Every connection slot of the port is taken by connections that send something now and then.
#[tokio::test]
async fn a_port_that_is_taken_leaves_the_socket_open() {
    let served = RunningServer::start().await;
    let mut taken = Vec::new();
    for index in 0..256 {
        let mut stream = served.tcp().await;
        let head = format!("POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-{index}: ");
        stream.write_all(head.as_bytes()).await.unwrap();
        taken.push(stream);
    }
    for _ in 0..20 {
        let request = served.request_text("GET", "/api/sessions", "");
        let (status, _) = exchange(served.unix().await, &request).await;
        assert_eq!(status, 200);
    }
    drop(taken);
    let request = served.request_text("GET", "/healthz", "");
    assert_eq!(exchange(served.tcp().await, &request).await.0, 200);
}

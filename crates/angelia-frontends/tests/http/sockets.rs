//! The listeners: real TCP and Unix sockets, agents as clients, and shutting down.

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use angelia_core::task::TaskGroup;
use angelia_frontends::http::{serve_tcp, serve_unix};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
    time::timeout,
};

use crate::harness::{ApiHarness, DEADLINE, TOKEN, agent_mark};

/// Runs the listeners in their own tasks, as the daemon does.
pub(crate) struct RunningServer {
    stage: ApiHarness,
    listener_tasks: TaskGroup,
    pub(crate) address: SocketAddr,
    folder: tempfile::TempDir,
}

impl RunningServer {
    pub(crate) async fn start() -> Self {
        let stage = ApiHarness::new();
        let doors = TaskGroup::new();
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = tcp.local_addr().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let unix = UnixListener::bind(folder.path().join("angelia.sock")).unwrap();
        serve_tcp(tcp, Arc::clone(&stage.state), &doors);
        serve_unix(unix, Arc::clone(&stage.state), &doors);
        Self { stage, listener_tasks: doors, address, folder }
    }

    fn socket(&self) -> std::path::PathBuf {
        self.folder.path().join("angelia.sock")
    }

    pub(crate) async fn tcp(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    pub(crate) async fn unix(&self) -> UnixStream {
        UnixStream::connect(self.socket()).await.unwrap()
    }

    pub(crate) fn request_text(&self, method: &str, path: &str, body: &str) -> String {
        let address = self.address;
        let length = body.len();
        format!(
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\nx-api-key: {TOKEN}\r\n\
             content-length: {length}\r\nconnection: close\r\n\r\n{body}"
        )
    }
}

/// Sends a request, reads everything, and returns the status and the text after the head.
pub(crate) async fn exchange(
    mut stream: impl AsyncReadExt + AsyncWriteExt + Unpin,
    text: &str,
) -> (u16, String) {
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer);
    timeout(DEADLINE, read).await.unwrap().unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

#[tokio::test]
async fn a_turn_over_tcp_and_over_the_socket() {
    let served = RunningServer::start().await;
    for over_tcp in [true, false] {
        let send = async |method: &str, path: &str, body: &str| {
            let request = served.request_text(method, path, body);
            if over_tcp {
                exchange(served.tcp().await, &request).await
            } else {
                let request = request.replace(&format!("x-api-key: {TOKEN}\r\n"), "");
                exchange(served.unix().await, &request).await
            }
        };
        let (status, session) = send("POST", "/api/sessions", "").await;
        assert_eq!(status, 201, "{session}");
        let session: Value = serde_json::from_str(&session).unwrap();
        let path = format!("/api/sessions/{}/turns", session["id"].as_str().unwrap());
        let (status, turn) = send("POST", &path, r#"{"input":"words 50"}"#).await;
        assert_eq!(status, 202, "{turn}");
        let turn: Value = serde_json::from_str(&turn).unwrap();
        let path = format!("/api/turns/{}/events", turn["id"].as_str().unwrap());
        let (status, events) = send("GET", &path, "").await;
        assert_eq!(status, 200);
        assert!(events.contains("event: turn.finished"), "{events}");
        let (status, hello) = send("GET", "/healthz", "").await;
        assert_eq!(status, 200);
        assert_eq!(hello.contains("c0ffee"), !over_tcp, "{hello}");
    }
}

#[tokio::test]
async fn over_tcp_the_token_is_needed_and_the_name_checked() {
    let served = RunningServer::start().await;
    let request = served.request_text("GET", "/api/sessions", "");
    let (status, _) = exchange(served.tcp().await, &request.replace(TOKEN, "wrong")).await;
    assert_eq!(status, 401);
    let other = request.replace(&served.address.to_string(), "evil.example");
    assert_eq!(exchange(served.tcp().await, &other).await.0, 421);
    let by_name = format!("localhost:{}", served.address.port());
    let by_name = request.replace(&served.address.to_string(), &by_name);
    assert_eq!(exchange(served.tcp().await, &by_name).await.0, 200);
}

#[tokio::test]
async fn what_is_not_http_is_closed_without_harm() {
    let served = RunningServer::start().await;
    for garbage in
        ["\0\0\0\0\r\n\r\n", "\u{16}\u{3}\u{1}", "GET\r\n\r\n", "x".repeat(500_000).as_str()]
    {
        let mut stream = served.tcp().await;
        // The server may close the connection before everything is written.
        let _hung_up = stream.write_all(garbage.as_bytes()).await;
        let _hung_up = stream.shutdown().await;
        let mut answer = Vec::new();
        let _reset = timeout(DEADLINE, stream.read_to_end(&mut answer)).await.unwrap();
    }
    let (status, _) =
        exchange(served.tcp().await, &served.request_text("GET", "/healthz", "")).await;
    assert_eq!(status, 200);
}

#[tokio::test]
async fn a_giant_body_is_answered_although_the_client_writes_first() {
    let served = RunningServer::start().await;
    let body = "x".repeat((64 << 20) + 1);
    let request = served.request_text("POST", "/api/sessions", &body);
    let (status, answer) = exchange(served.tcp().await, &request).await;
    assert_eq!(status, 413, "{answer}");
}

/// Half a request must not hold a connection slot forever.
#[tokio::test(start_paused = true)]
async fn a_head_that_never_ends_is_given_up() {
    let served = RunningServer::start().await;
    let mut stream = served.tcp().await;
    let first = keep_alive(&served.request_text("GET", "/api/sessions", ""));
    assert_eq!(ask(&mut stream, &first).await, 200);
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: ").await.unwrap();
    let began = tokio::time::Instant::now();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert!(began.elapsed() >= Duration::from_secs(29));
    assert!(began.elapsed() < Duration::from_mins(1));
}

/// A stranger cannot hold a connection: only a valid key makes it the caller's.
#[tokio::test(start_paused = true)]
async fn a_connection_without_a_key_is_closed_after_five_seconds() {
    let served = RunningServer::start().await;
    let half = "GET /healthz HTTP/1.1\r\nhost: ".to_owned();
    let open = served.request_text("GET", "/healthz", "");
    let wrong = served.request_text("GET", "/api/sessions", "").replace(TOKEN, "wrong");
    for text in [half, keep_alive(&open), keep_alive(&wrong)] {
        let mut stream = served.tcp().await;
        let began = tokio::time::Instant::now();
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        let took = began.elapsed().as_secs();
        assert!((4..=6).contains(&took), "{took} s: {text}");
    }
}

#[tokio::test]
async fn a_caller_has_a_limited_number_of_connections() {
    let served = RunningServer::start().await;
    let request = keep_alive(&served.request_text("GET", "/api/sessions", ""));
    let mut open = Vec::new();
    for _ in 0..64 {
        let mut stream = served.tcp().await;
        assert_eq!(ask(&mut stream, &request).await, 200);
        open.push(stream);
    }
    assert_eq!(ask(&mut served.tcp().await, &request).await, 429);
    assert_eq!(ask(&mut open[0], &request).await, 200, "those that are open go on");
    assert_eq!(ask(&mut served.unix().await, &request).await, 200, "the socket has no limit");
    drop(open);
    // The server notices the end of a connection a moment later.
    let freed = async {
        while ask(&mut served.tcp().await, &request).await != 200 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(DEADLINE, freed).await.unwrap();
}

fn keep_alive(request: &str) -> String {
    request.replace("connection: close\r\n", "")
}

/// Sends a request on a connection that stays open, and returns the status.
async fn ask(stream: &mut (impl AsyncReadExt + AsyncWriteExt + Unpin), request: &str) -> u16 {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut piece = vec![0; 65536];
    let length = timeout(DEADLINE, stream.read(&mut piece)).await.unwrap().unwrap();
    let head = String::from_utf8_lossy(&piece[..length]).into_owned();
    head.split(' ').nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_flood_of_connections_on_the_port_leaves_the_socket_open() {
    let served = RunningServer::start().await;
    let mut flood = Vec::new();
    for _ in 0..300 {
        flood.push(served.tcp().await);
    }
    let request = served.request_text("GET", "/healthz", "");
    assert_eq!(exchange(served.unix().await, &request).await.0, 200);
    // The port accepts connections again as soon as a slot is free.
    let waiting = served.tcp().await;
    drop(flood);
    assert_eq!(exchange(waiting, &request).await.0, 200);
}

#[tokio::test]
async fn shutting_down_lets_viewers_see_the_end_and_closes_the_rest() {
    let served = RunningServer::start().await;
    let session = served.stage.session().await;
    let turn = served.stage.submit(&session, "hang").await;
    let path = format!("/api/turns/{turn}/events");
    let mut viewer = served.unix().await;
    viewer.write_all(served.request_text("GET", &path, "").as_bytes()).await.unwrap();
    let mut seen = String::new();
    while !seen.contains("turn.started") {
        let mut piece = [0; 4096];
        let length = timeout(DEADLINE, viewer.read(&mut piece)).await.unwrap().unwrap();
        assert!(length > 0, "{seen}");
        seen.push_str(std::str::from_utf8(&piece[..length]).unwrap());
    }
    let mut idle = served.tcp().await;
    let keep_alive =
        served.request_text("GET", "/healthz", "").replace("connection: close\r\n", "");
    idle.write_all(keep_alive.as_bytes()).await.unwrap();
    let mut piece = [0; 4096];
    assert!(timeout(DEADLINE, idle.read(&mut piece)).await.unwrap().unwrap() > 0);

    // Shut down in the daemon's order: accept no new connections, end the turns, close connections.
    served.listener_tasks.stop_token().cancel();
    assert_eq!(timeout(DEADLINE, idle.read(&mut piece)).await.unwrap().unwrap(), 0);
    served.stage.state.engine.shutdown().await;
    assert!(served.listener_tasks.shutdown(DEADLINE).await);
    viewer.read_to_string(&mut seen).await.unwrap();
    assert!(seen.contains("event: turn.finished"), "{seen}");
    assert!(TcpStream::connect(served.address).await.is_err());
    assert!(UnixStream::connect(served.socket()).await.is_err());
}

/// The address that a process connects to.
#[derive(Clone, Copy)]
enum Target<'a> {
    Socket(&'a Path),
    /// Over TCP with the owner's token, which every process of the same user can read.
    Port(SocketAddr),
}

/// A program that an agent started, or a descendant of such a program.
#[expect(
    clippy::disallowed_methods,
    reason = "the other end of the socket must be another process"
)]
async fn request_from_child(
    target: Target<'_>,
    mark: Option<&str>,
    script: &str,
    body: &str,
    path: &str,
) -> u16 {
    let host = match target {
        Target::Socket(_) => "localhost".to_owned(),
        Target::Port(address) => address.to_string(),
    };
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: {host}\r\nx-angelia-terminal: 1\r\n\
         x-api-key: {TOKEN}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let mut command = tokio::process::Command::new("sh");
    command
        .arg("-c")
        .arg(script)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("REQUEST", request)
        .env("CLIENT", CLIENT)
        .kill_on_drop(true);
    match target {
        Target::Socket(socket) => command.env("SOCKET", socket),
        Target::Port(address) => command.env("PORT", address.port().to_string()),
    };
    if let Some(mark) = mark {
        command.env("ANGELIA_AGENT", mark);
    }
    let output = timeout(DEADLINE, command.output()).await.unwrap().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
    status.unwrap_or_else(|| panic!("{text} {}", String::from_utf8_lossy(&output.stderr)))
}

const CLIENT: &str = "
import os, socket
if 'PORT' in os.environ:
    s = socket.create_connection(('127.0.0.1', int(os.environ['PORT'])))
else:
    s = socket.socket(socket.AF_UNIX)
    s.connect(os.environ['SOCKET'])
s.sendall(os.environ['REQUEST'].encode())
answer = b''
while piece := s.recv(65536):
    answer += piece
print(answer.decode())
";

/// Ways to start a client from an agent's shell. Removing the mark, or replacing it, does not
/// change the parent processes.
const SCRIPTS: [&str; 5] = [
    "exec python3 -c \"$CLIENT\"",
    "env -u ANGELIA_AGENT python3 -c \"$CLIENT\"; true",
    "ANGELIA_AGENT=released python3 -c \"$CLIENT\"; true",
    "ANGELIA_AGENT=home:owner:command-1 python3 -c \"$CLIENT\"; true",
    // The client is in a process session of its own.
    "env -u ANGELIA_AGENT setsid -w python3 -c \"$CLIENT\"; true",
];

async fn pending_approval(served: &RunningServer, turn: &str) -> angelia_core::model::ApprovalId {
    served.stage.wait_for_status(turn, "awaiting_approval").await;
    let mut watch = served.stage.state.engine.watch(turn.parse().unwrap(), 0).await.unwrap();
    loop {
        let batch = watch.next().await.unwrap().unwrap();
        let found = batch.iter().find_map(|event| match &event.kind {
            angelia_core::model::EventKind::Approval(approval) => Some(approval.id),
            _ => None,
        });
        if let Some(id) = found {
            return id;
        }
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_agents_process_cannot_decide_nor_speak_as_the_owner() {
    let served = RunningServer::start().await;
    let session = served.stage.session().await;
    let turn = served.stage.submit(&session, "ask").await;
    let approval = pending_approval(&served, &turn).await;
    let socket = served.socket();
    let decide = format!("/api/approvals/{approval}");
    let verdict = json!({"verdict": "once"}).to_string();
    let (own, other) = (agent_mark(&session), "home:owner:agent".to_owned());
    let turns = format!("/api/sessions/{session}/turns");
    let origin = json!({"input": "origin"}).to_string();
    for target in [Target::Socket(&socket), Target::Port(served.address)] {
        for script in SCRIPTS {
            for mark in [&own, &other] {
                for (path, body) in [(&decide, &verdict), (&turns, &origin)] {
                    let status = request_from_child(target, Some(mark), script, body, path).await;
                    assert_eq!(status, 403, "{script} {path}");
                }
            }
        }
    }
    let shown = served.stage.wait_for_status(&turn, "awaiting_approval").await;
    assert_eq!(shown["status"], "awaiting_approval");

    // The same programs without a mark are the owner's.
    for target in [Target::Port(served.address), Target::Socket(&socket)] {
        let status = request_from_child(target, None, SCRIPTS[0], &origin, &turns).await;
        assert_eq!(status, 202);
    }
    let port = Target::Port(served.address);
    let status = request_from_child(port, None, SCRIPTS[0], &verdict, &decide).await;
    assert_eq!(status, 200);
    served.stage.wait_for_status(&turn, "completed").await;
    // Newest first: only a request over the socket can come from a terminal.
    let listed = format!("/api/turns?session={session}");
    let newest = served.stage.get(&listed).await["data"][0]["id"].as_str().unwrap().to_owned();
    served.stage.wait_for_status(&newest, "completed").await;
    let turns = served.stage.get(&listed).await;
    assert_eq!(turns["data"][0]["text"], "owner true");
    assert_eq!(turns["data"][1]["text"], "remote true");
}

/// A client that goes away at once cannot be identified, so what it asked for is not done.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_request_whose_sender_is_gone_decides_nothing() {
    let served = RunningServer::start().await;
    let session = served.stage.session().await;
    let turn = served.stage.submit(&session, "ask").await;
    let approval = pending_approval(&served, &turn).await;
    let body = json!({"verdict": "once"}).to_string();
    let request = served.request_text("POST", &format!("/api/approvals/{approval}"), &body);
    let script = "env -u ANGELIA_AGENT python3 -c \"$LEAVER\"; true";
    for _ in 0..5 {
        #[expect(clippy::disallowed_methods, reason = "the sender must be another process")]
        let mut child = tokio::process::Command::new("sh")
            .args(["-c", script])
            .env("ANGELIA_AGENT", agent_mark(&session))
            .env("PORT", served.address.port().to_string())
            .env("REQUEST", &request)
            .env("LEAVER", LEAVER)
            .spawn()
            .unwrap();
        child.wait().await.unwrap();
    }
    // Requests are answered in the order of their connections or dropped; this one comes last.
    let last = served.request_text("GET", "/healthz", "");
    assert_eq!(exchange(served.tcp().await, &last).await.0, 200);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let shown = served.stage.get(&format!("/api/turns/{turn}")).await;
    assert_eq!(shown["status"], "awaiting_approval");
}

const LEAVER: &str = "
import os, socket
s = socket.create_connection(('127.0.0.1', int(os.environ['PORT'])))
s.sendall(os.environ['REQUEST'].encode())
s.close()
";

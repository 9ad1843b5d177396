//! A login that is refreshed with single-use tokens: sessions that start together refresh it once.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::Path,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use angelia_core::model::{Mode, SessionSpec};
use angelia_testkit::codex_home::CodexLogin;
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use crate::harness::CodexHarness;

/// The vendor's endpoint: accepts each refresh token once, and answers with the next one.
struct RefreshEndpoint {
    url: String,
    /// Whether each request, in order, was accepted.
    requests: Arc<Mutex<Vec<bool>>>,
}

impl RefreshEndpoint {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/oauth/token", listener.local_addr().unwrap());
        let requests = Arc::<Mutex<Vec<bool>>>::default();
        let seen = Arc::clone(&requests);
        thread::spawn(move || {
            for connection in listener.incoming() {
                let seen = Arc::clone(&seen);
                thread::spawn(move || answer(&connection.unwrap(), &seen));
            }
        });
        Self { url, requests }
    }

    fn requests(&self) -> Vec<bool> {
        self.requests.lock().unwrap().clone()
    }
}

fn answer(mut connection: &TcpStream, seen: &Mutex<Vec<bool>>) {
    let mut reader = BufReader::new(connection);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let body = String::from_utf8_lossy(&body).into_owned();
    let (accepted, count) = {
        let mut seen = seen.lock().unwrap();
        let count = seen.iter().filter(|accepted| **accepted).count();
        let accepted = body.contains(&format!("refresh-{count}\""));
        seen.push(accepted);
        (accepted, count + 1)
    };
    // Long enough for processes that start together to meet.
    thread::sleep(Duration::from_millis(300));
    let (status, body) = if accepted {
        ("200 OK", tokens(count, 10 * 24 * 3600))
    } else {
        let error = json!({"error": {"code": "refresh_token_reused", "message": "used"}});
        ("401 Unauthorized", error)
    };
    let body = body.to_string();
    let head = "content-type: application/json\r\nconnection: close";
    let length = body.len();
    let _gone =
        write!(connection, "HTTP/1.1 {status}\r\n{head}\r\ncontent-length: {length}\r\n\r\n{body}");
}

/// Returns tokens that expire in so many seconds.
fn tokens(count: usize, seconds: i64) -> Value {
    let now = jiff::Timestamp::now().as_second();
    let claims = json!({"exp": now + seconds, "email": "owner@example.com", "count": count,
        "https://api.openai.com/auth": {"chatgpt_plan_type": "plus", "chatgpt_account_id": "a",
            "chatgpt_user_id": "u"}});
    let token = format!("e30.{}.x", BASE64_URL_SAFE_NO_PAD.encode(claims.to_string()));
    json!({"id_token": token, "access_token": token, "refresh_token": format!("refresh-{count}")})
}

fn write_login(path: &Path, seconds: i64) {
    let mut tokens = tokens(0, seconds);
    tokens["account_id"] = json!("a");
    let last = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(24);
    let login = json!({"auth_mode": "chatgpt", "OPENAI_API_KEY": null, "tokens": tokens,
        "last_refresh": last.to_string()});
    fs::write(path, login.to_string()).unwrap();
}

/// Returns specifications that no two of share a process, of both modes.
fn specs(lab: &CodexHarness, endpoint: &RefreshEndpoint) -> Vec<SessionSpec> {
    (0..8)
        .map(|number| {
            let mut spec = lab.spec();
            spec.mode = if number % 2 == 0 { Mode::Model } else { Mode::Agent };
            let url = endpoint.url.as_str();
            spec.env.insert("CODEX_REFRESH_TOKEN_URL_OVERRIDE".into(), url.into());
            let vendor = format!("{}/", lab.server.base_url());
            spec.env.insert("CODEX_APP_SERVER_CHATGPT_BASE_URL".into(), vendor.into());
            spec.env.insert("OWN_PROCESS".into(), number.to_string().into());
            spec
        })
        .collect()
}

#[tokio::test]
async fn real_sessions_that_start_together_refresh_the_login_once() {
    for seconds in [-60, 120] {
        let endpoint = RefreshEndpoint::start();
        let lab = CodexHarness::with_config(CodexLogin::Account, "");
        let login = lab.home.join("auth.json");
        let specs = specs(&lab, &endpoint);
        // Processes in a new folder start one by one for another reason, so the folders are used
        // once before.
        write_login(&login, 3600);
        for spec in &specs[..2] {
            let mut session = lab.open(spec).await;
            session.prompt("ECHO:first").await.answer();
            session.close().await;
        }
        lab.close().await;
        assert_eq!(endpoint.requests(), [false; 0]);
        let earlier = lab.server.model_requests().len();

        write_login(&login, seconds);
        let sessions = specs.iter().map(|spec| async {
            let mut session = lab.open(spec).await;
            let answer = session.prompt("ECHO:hello").await.answer().to_owned();
            session.close().await;
            answer
        });
        let answers = futures_util::future::join_all(sessions).await;
        assert_eq!(answers, ["hello"; 8]);
        assert_eq!(endpoint.requests(), [true], "one refresh, and it was accepted");

        // The owner's own file has the new login, which was used by all, and it works.
        assert!(login.symlink_metadata().unwrap().is_file());
        let stored: Value = serde_json::from_slice(&fs::read(&login).unwrap()).unwrap();
        assert_eq!(stored["tokens"]["refresh_token"], "refresh-1");
        let bearer = format!("Bearer {}", stored["tokens"]["access_token"].as_str().unwrap());
        for request in lab.server.model_requests().iter().skip(earlier) {
            assert_eq!(request.header("authorization"), Some(&*bearer));
        }
        let mut session = lab.open(&lab.spec()).await;
        assert_eq!(session.prompt("ECHO:owner").await.answer(), "owner");
        session.close().await;
        lab.close().await;
        assert_eq!(endpoint.requests(), [true]);
    }
}

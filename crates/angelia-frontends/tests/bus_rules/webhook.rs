//! The webhook against a server on loopback: the request, its signature, and the meaning of the
//! server's answers.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use angelia_core::ports::{Button, Channel as _, OutgoingMessage, SendErrorKind};
use angelia_frontends::chat::{
    AddressProblem,
    webhook::{Webhook, WebhookError, signature},
};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

use super::fakes::CountingClock;

type Request = (HashMap<String, String>, Vec<u8>);

/// Answers each connection with the given response; an empty one closes the connection.
async fn server(answers: Vec<&'static str>) -> (String, mpsc::Receiver<Request>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let (requests, seen) = mpsc::channel(16);
    let tasks = angelia_core::task::TaskGroup::new();
    tasks.spawn(async move {
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            requests.send(read(&mut stream).await).await.unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    (url, seen)
}

async fn read(stream: &mut TcpStream) -> Request {
    let mut bytes = Vec::new();
    loop {
        assert!(stream.read_buf(&mut bytes).await.unwrap() > 0);
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
            continue;
        };
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let fields = head.lines().skip(1).filter_map(|line| line.split_once(": "));
        let fields: HashMap<String, String> =
            fields.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
        let length: usize = fields["content-length"].parse().unwrap();
        while bytes.len() < end + 4 + length {
            assert!(stream.read_buf(&mut bytes).await.unwrap() > 0);
        }
        return (fields, bytes[end + 4..].to_vec());
    }
}

fn webhook(url: &str) -> Webhook {
    Webhook::new(url, "s3cret", Arc::new(CountingClock::default())).unwrap()
}

fn message() -> OutgoingMessage {
    OutgoingMessage {
        id: "d-1".into(),
        text: "build «7» failed".into(),
        buttons: vec![Button { label: "Retry".into(), value: "retry".into(), words: None }],
        ..OutgoingMessage::default()
    }
}

#[tokio::test]
async fn what_is_sent_is_signed() {
    let (url, mut seen) = server(vec!["HTTP/1.1 204 No Content\r\n\r\n"]).await;
    webhook(&url).send("ops", &message()).await.unwrap();
    let (fields, body) = seen.recv().await.unwrap();
    let at: i64 = fields["x-angelia-timestamp"].parse().unwrap();
    assert_eq!(fields["x-angelia-signature-256"], signature("s3cret", at, &body));
    assert_ne!(fields["x-angelia-signature-256"], signature("other", at, &body));
    assert_eq!(fields["x-angelia-delivery"], "d-1");
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(
        body,
        serde_json::json!({
            "id": "d-1", "channel": "webhook:ops", "chat": "ops", "text": "build «7» failed",
            "may_repeat": false, "buttons": [{"label": "Retry", "value": "retry"}],
        })
    );
}

#[tokio::test]
async fn what_an_answer_means() {
    let table = [
        ("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", SendErrorKind::Refused),
        (
            "HTTP/1.1 302 Found\r\nlocation: http://other/\r\ncontent-length: 0\r\n\r\n",
            SendErrorKind::Refused,
        ),
        ("HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n", SendErrorKind::Unknown),
        (
            "HTTP/1.1 503 Later\r\nretry-after: 7\r\ncontent-length: 0\r\n\r\n",
            SendErrorKind::NotSent,
        ),
        ("", SendErrorKind::Unknown),
    ];
    for (answer, kind) in table {
        let (url, _seen) = server(vec![answer]).await;
        let error = webhook(&url).send("ops", &message()).await.unwrap_err();
        assert_eq!(error.kind, kind, "{answer}: {error}");
        let wait = answer.contains("retry-after").then(|| Duration::from_secs(7));
        assert_eq!(error.retry_after, wait);
    }
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let error = webhook(&format!("http://{nobody}/?token=hidden")).send("ops", &message()).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::NotSent);
    assert!(!error.message.contains("hidden"), "{error}");
}

#[tokio::test]
async fn texts_go_nowhere_in_clear_and_nothing_unsigned() {
    let refused = |url: &str, secret: &str| {
        let clock = Arc::new(CountingClock::default());
        Webhook::new(url, secret, clock).err()
    };
    assert!(matches!(
        refused("http://example.com/", "s"),
        Some(WebhookError::Address(AddressProblem::Unencrypted(_)))
    ));
    assert!(matches!(
        refused("ftp://localhost/", "s"),
        Some(WebhookError::Address(AddressProblem::NotHttp(_)))
    ));
    assert!(matches!(
        refused("nonsense", "s"),
        Some(WebhookError::Address(AddressProblem::NotHttp(_)))
    ));
    assert!(matches!(refused("https://example.com/", ""), Some(WebhookError::NoSecret)));
    for url in ["https://example.com/", "http://localhost:1/", "http://[::1]:1/"] {
        assert!(refused(url, "s").is_none(), "{url}");
    }
}

#[tokio::test]
async fn a_reply_reaches_a_webhook_through_the_ledger() {
    use angelia_backends::deliveries::SqliteDeliveries;
    use angelia_core::{ports::ChannelRegistry, task::TaskGroup};
    use angelia_frontends::chat::{DeliveryQueue, DeliveryQueueParts, RetryPolicy};

    let answers = vec![
        "HTTP/1.1 500 Oh\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
    ];
    let (url, seen) = server(answers).await;
    let seen = Mutex::new(seen);
    let folder = tempfile::tempdir().unwrap();
    let ledger = SqliteDeliveries::open(&folder.path().join("deliveries.db")).unwrap();
    let courier = DeliveryQueue::new(DeliveryQueueParts {
        channels: ChannelRegistry::new(vec![Arc::new(webhook(&url))], |_| None),
        ledger: Arc::new(ledger),
        clock: Arc::new(CountingClock::default()),
        tasks: TaskGroup::new(),
        retry: RetryPolicy { max_attempts: 3, first_delay: Duration::from_millis(1) },
    });
    let sending = courier.send("r-1", "webhook:ops", "done").await.unwrap();
    sending.outcome().await.unwrap();
    let mut texts = Vec::new();
    while let Ok((fields, body)) = seen.lock().unwrap().try_recv() {
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(fields["x-angelia-delivery"], "r-1");
        texts.push((body["text"].as_str().unwrap().to_owned(), body["may_repeat"] == true));
    }
    let expected = [("done".to_owned(), false), ("(may be a repeat) done".to_owned(), true)];
    assert_eq!(texts, expected);
    let homeless = courier.send("r-2", "webhook", "done").await.unwrap_err();
    assert!(homeless.to_string().contains("WEBHOOK_HOME_CHANNEL"), "{homeless}");
}

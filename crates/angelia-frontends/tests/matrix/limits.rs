//! The limits of Synapse are kept, counted at the server; and where a server tells its own, they are heeded.

use std::time::{Duration, Instant};

use angelia_core::ports::{Button, Channel as _, OutgoingMessage, SendErrorKind};
use angelia_testkit::matrix_server::{MatrixFault, MatrixServer};

use super::{PERSON, adapter};

fn message(id: usize) -> OutgoingMessage {
    OutgoingMessage {
        id: format!("m{id}").into(),
        text: format!("number {id}").into(),
        ..OutgoingMessage::default()
    }
}

#[tokio::test]
async fn previews_leave_room_for_the_answer_and_a_card() {
    let server = MatrixServer::start();
    let room = server.direct_room(PERSON);
    server.limit_events(10.0, 0.2);
    let bot = adapter(&server);
    let begun = bot.begin_stream(&room, &message(0)).await.unwrap();
    let mut shown = 1;
    for id in 1..30 {
        match bot.update_stream(&room, &begun, &message(id)).await {
            Ok(()) => shown += 1,
            Err(early) => assert_eq!(early.kind, SendErrorKind::NotSent),
        }
    }
    assert_eq!(shown, 5);
    bot.end_stream(&room, &begun, &message(30)).await.unwrap();
    let button =
        |label: &str| Button { label: label.into(), value: label.into(), ..Button::default() };
    let buttons = vec![button("Allow"), button("Always"), button("Deny")];
    bot.send(&room, &OutgoingMessage { buttons, ..message(31) }).await.unwrap();
    let calls = server.calls("PUT send");
    assert_eq!(calls.len(), 10);
    assert!(calls.iter().all(|call| call.status == 200), "the server had to refuse none");
    assert_eq!(server.messages(&room)[1].choices().len(), 3);
}

#[tokio::test]
async fn a_pause_is_for_everything_and_a_long_one_is_for_the_caller() {
    let server = MatrixServer::start();
    let room = server.direct_room(PERSON);
    let bot = adapter(&server);
    server.fail_next("PUT send", MatrixFault::TooMany(800));
    let error = bot.send(&room, &message(0)).await.unwrap_err();
    assert_eq!(error.retry_after, Some(Duration::from_millis(800)));
    let begun = Instant::now();
    let early = bot.begin_stream(&room, &message(1)).await.unwrap_err();
    assert_eq!(early.kind, SendErrorKind::NotSent);
    bot.send(&room, &message(2)).await.unwrap();
    assert!(begun.elapsed() > Duration::from_millis(500));
    server.fail_next("PUT send", MatrixFault::TooMany(99_000));
    bot.send(&room, &message(3)).await.unwrap_err();
    let error = bot.send(&room, &message(4)).await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::NotSent);
    assert!(error.retry_after.unwrap() > Duration::from_secs(90), "{error:?}");
}

#[tokio::test]
async fn outcomes_are_honest() {
    let server = MatrixServer::start();
    let room = server.direct_room(PERSON);
    let bot = adapter(&server);
    for (fault, kind) in [
        (MatrixFault::Refuse(500, "M_UNKNOWN", "Internal server error"), SendErrorKind::Unknown),
        (MatrixFault::Garbage, SendErrorKind::Unknown),
        (MatrixFault::Refuse(403, "M_FORBIDDEN", "not in the room"), SendErrorKind::Refused),
        (MatrixFault::Refuse(401, "M_UNKNOWN_TOKEN", "expired"), SendErrorKind::NotSent),
        (MatrixFault::Cut, SendErrorKind::Unknown),
    ] {
        server.fail_next("PUT send", fault.clone());
        let error = bot.send(&room, &message(1)).await.unwrap_err();
        assert_eq!(error.kind, kind, "{fault:?}");
        assert!(!error.message.contains("://"), "{error}");
    }
    // The last one had arrived, and does not come again.
    bot.send(&room, &message(1)).await.unwrap();
    assert_eq!(server.messages(&room).len(), 1);
    for bad in ["", "!", "room", "#alias:test.example", "@ada:test.example"] {
        let error = bot.send(bad, &message(1)).await.unwrap_err();
        assert_eq!(error.kind, SendErrorKind::Refused, "{bad}");
    }
}

//! The limits of Discord are kept, counted at the server; and where they are told, they are heeded.

use std::time::{Duration, Instant};

use angelia_core::ports::{Channel as _, OutgoingMessage, SendErrorKind, SentMessage};
use angelia_testkit::discord_server::{DiscordServer, RestFault};

use super::adapter;

fn message(id: usize) -> OutgoingMessage {
    OutgoingMessage {
        id: format!("m{id}").into(),
        text: format!("number {id}").into(),
        ..OutgoingMessage::default()
    }
}

#[tokio::test]
async fn a_channel_gets_five_messages_in_five_seconds_and_others_do_not_wait() {
    let server = DiscordServer::start();
    let bot = adapter(&server);
    let begun = Instant::now();
    for id in 0..7 {
        bot.send("97", &message(id)).await.unwrap();
    }
    bot.send("98", &message(9)).await.unwrap();
    let calls = server.calls("POST messages");
    assert!(calls.iter().all(|call| call.status == 200), "the server had to refuse none");
    assert!(begun.elapsed() >= Duration::from_secs(5));
    let edits = server.messages("97");
    let sent = SentMessage { message_id: Some(edits[0].id.to_string().into()) };
    for id in 0..3 {
        bot.update_stream("97", &sent, &message(id)).await.unwrap();
    }
    let early = bot.update_stream("97", &sent, &message(3)).await.unwrap_err();
    assert_eq!(early.kind, SendErrorKind::NotSent, "previews leave room for the answer");
    bot.end_stream("97", &sent, &message(4)).await.unwrap();
    assert_eq!(server.messages("97")[0].text, "number 4");
}

#[tokio::test]
async fn a_limit_for_everything_stops_everything() {
    let server = DiscordServer::start();
    let bot = adapter(&server);
    server.fail_next("POST messages", RestFault::TooMany(0.8, true));
    let error = bot.send("97", &message(0)).await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::NotSent);
    assert_eq!(error.retry_after, Some(Duration::from_millis(800)));
    let begun = Instant::now();
    let early = bot.begin_stream("98", &message(1)).await.unwrap_err();
    assert_eq!(early.kind, SendErrorKind::NotSent);
    bot.send("98", &message(2)).await.unwrap();
    assert!(begun.elapsed() > Duration::from_millis(500), "another channel waits too");
    // So long a pause is for the caller.
    server.fail_next("POST messages", RestFault::TooMany(99.0, false));
    bot.send("97", &message(3)).await.unwrap_err();
    let error = bot.send("97", &message(4)).await.unwrap_err();
    assert!(error.retry_after.unwrap() > Duration::from_secs(90), "{error:?}");
    bot.send("98", &message(5)).await.unwrap();
}

#[tokio::test]
async fn outcomes_are_honest() {
    let server = DiscordServer::start();
    let bot = adapter(&server);
    for (fault, kind) in [
        (RestFault::Refuse(500, 0, "Internal Server Error"), SendErrorKind::Unknown),
        (RestFault::Garbage, SendErrorKind::Unknown),
        (RestFault::Refuse(403, 50013, "Missing Permissions"), SendErrorKind::Refused),
        (RestFault::Cut, SendErrorKind::Unknown),
    ] {
        server.fail_next("POST messages", fault.clone());
        let error = bot.send("97", &message(1)).await.unwrap_err();
        assert_eq!(error.kind, kind, "{fault:?}");
        assert!(!error.message.contains("://"), "{error}");
    }
    // The last one had arrived, and does not come again.
    bot.send("97", &message(1)).await.unwrap();
    assert_eq!(server.messages("97").len(), 1);
    for bad in ["", "x", "97/messages", "9 7"] {
        let error = bot.send(bad, &message(1)).await.unwrap_err();
        assert_eq!(error.kind, SendErrorKind::Refused, "{bad}");
    }
}

//! The rates are kept, counted at the server, and outcomes are honest.

use std::time::{Duration, Instant};

use angelia_core::ports::{Channel as _, OutgoingMessage, SendErrorKind};
use angelia_testkit::mattermost_server::{MattermostFault, MattermostServer};

use super::{PERSON, adapter};

fn message(id: usize) -> OutgoingMessage {
    OutgoingMessage {
        id: format!("m{id}").into(),
        text: format!("number {id}").into(),
        ..OutgoingMessage::default()
    }
}

#[tokio::test]
async fn a_second_has_five_posts_in_a_channel_and_one_preview() {
    let server = MattermostServer::start();
    let channel = server.direct_channel(PERSON);
    let bot = adapter(&server);
    let since = Instant::now();
    for id in 0..6 {
        bot.send(&channel, &message(id)).await.unwrap();
    }
    assert!(since.elapsed() >= Duration::from_secs(1));
    // On a busy machine the seconds pass, and more previews fit.
    let since = Instant::now();
    let begun = loop {
        match bot.begin_stream(&channel, &message(7)).await {
            Ok(begun) => break begun,
            Err(early) => assert_eq!(early.kind, SendErrorKind::NotSent),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let mut shown = 1;
    for id in 0..20 {
        match bot.update_stream(&channel, &begun, &message(id)).await {
            Ok(()) => shown += 1,
            Err(early) => assert_eq!(early.kind, SendErrorKind::NotSent),
        }
    }
    assert!(shown <= since.elapsed().as_secs() + 1, "{shown} previews");
    bot.end_stream(&channel, &begun, &message(9)).await.unwrap();
    assert_eq!(server.messages(&channel).last().unwrap().text, "number 9");
}

#[tokio::test]
async fn outcomes_are_honest() {
    let server = MattermostServer::start();
    let channel = server.direct_channel(PERSON);
    let bot = adapter(&server);
    for (fault, kind) in [
        (MattermostFault::Refuse(500, "Internal Server Error"), SendErrorKind::Unknown),
        (MattermostFault::Garbage, SendErrorKind::Unknown),
        (MattermostFault::Refuse(403, "no permission"), SendErrorKind::Refused),
        (MattermostFault::Refuse(401, "expired"), SendErrorKind::NotSent),
        (MattermostFault::TooMany(3), SendErrorKind::NotSent),
        (MattermostFault::Cut, SendErrorKind::Unknown),
    ] {
        server.fail_next("POST posts", fault.clone());
        let error = bot.send(&channel, &message(1)).await.unwrap_err();
        assert_eq!(error.kind, kind, "{fault:?}");
        assert!(!error.message.contains("://"), "{error}");
    }
    for bad in ["", "a b", "@ada", "a/b", "~town-square"] {
        let error = bot.send(bad, &message(1)).await.unwrap_err();
        assert_eq!(error.kind, SendErrorKind::Refused, "{bad}");
    }
}

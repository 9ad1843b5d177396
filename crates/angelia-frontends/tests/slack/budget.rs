//! The rates of Slack are kept, counted at the server.

use std::time::{Duration, Instant};

use angelia_core::ports::{Channel as _, SendErrorKind};
use angelia_testkit::slack_server::SlackServer;

use super::{adapter, markdown};

#[tokio::test]
async fn one_message_a_second_for_each_channel_and_channels_do_not_wait_for_each_other() {
    let server = SlackServer::start();
    let slack = adapter(&server);
    let send = |chat: &'static str| {
        let slack = slack.clone();
        async move { slack.send(chat, &markdown("x")).await.unwrap() }
    };
    let begin = Instant::now();
    tokio::join!(send("C1"), send("C1#5.5"), send("C1"), send("C2"));
    let calls = server.calls("chat.postMessage");
    let times: Vec<_> =
        calls.iter().filter(|call| call.fields["channel"] == "C1").map(|call| call.at).collect();
    // The requests of a busy machine arrive late, never early.
    for (at, seconds) in times.iter().zip(0..) {
        assert!(*at >= begin + Duration::from_secs(seconds), "{times:?}");
    }
    let other = calls.iter().find(|call| call.fields["channel"] == "C2").unwrap();
    assert!(other.at < times[1], "the other channel did not wait");
}

#[tokio::test]
async fn previews_that_come_too_early_are_left_out() {
    let server = SlackServer::start();
    let slack = adapter(&server);
    let begun = slack.begin_stream("DU7", &markdown("so")).await.unwrap();
    let mut shown = 0;
    for _ in 0..20 {
        match slack.update_stream("DU7", &begun, &markdown("so far")).await {
            Ok(()) => shown += 1,
            Err(error) => assert_eq!(error.kind, SendErrorKind::NotSent, "{error}"),
        }
    }
    assert!(shown < 20, "{shown}");
    assert_eq!(server.calls("chat.update").len(), shown);
    slack.end_stream("DU7", &begun, &markdown("so far, so good")).await.unwrap();
    assert_eq!(server.messages("DU7").remove(0).text, "so far, so good");
}

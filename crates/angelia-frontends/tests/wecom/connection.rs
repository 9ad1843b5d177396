//! The one connection of a bot: it is shared, lost, refused and taken away.

use std::{sync::Arc, time::Duration};

use angelia_core::ports::{Channel as _, ConnectionErrorKind, SendErrorKind};
use angelia_frontends::chat::wecom::Wecom;
use angelia_testkit::{
    clock::SystemClock,
    wecom_server::{BOT_ID, WecomServer},
};
use tokio::time::timeout;

use super::{Connected, Inbox, PERSON, adapter, message, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_before_the_receiver_shares_its_connection() {
    let server = WecomServer::start();
    let bot = adapter(&server);
    bot.send(PERSON, &message("m", "early")).await.unwrap();
    server.say(PERSON, "already here");
    let connected = Connected::start(&server, &bot);
    let events = connected.wait_for_events(1);
    assert_eq!(&*events[0].chat, PERSON, "nothing was lost meanwhile");
    assert_eq!(server.subscriptions(), 1);
    let found = bot.check().await.unwrap();
    assert!(found[0].text.contains(BOT_ID) && bot.is_exclusive());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_was_taken_away_is_not_taken_back() {
    let server = WecomServer::start();
    let bot = adapter(&server);
    let mut connected = Connected::start(&server, &bot);
    server.displace();
    let error = timeout(Duration::from_secs(20), connected.ended.recv()).await.unwrap().unwrap();
    assert_eq!(error.kind, ConnectionErrorKind::Refused);
    assert!(error.message.contains("another program"), "{error}");
    let error = bot.send(PERSON, &message("m", "hello")).await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::NotSent);
    assert!(error.retry_after.is_some() && error.message.contains("another program"), "{error}");
    assert_eq!(server.subscriptions(), 1);
    // The host tries again later.
    let _connected = Connected::start(&server, &bot);
    bot.send(PERSON, &message("m", "hello")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_secrets_are_refused_and_not_tried_again_at_once() {
    let server = WecomServer::start();
    let clock = Arc::new(SystemClock);
    let bot = Wecom::new(BOT_ID, "wrong", Some(server.base_url()), clock).unwrap();
    let error = bot.receive(None, &Inbox::default()).await;
    assert_eq!(error.kind, ConnectionErrorKind::Refused);
    assert!(error.message.contains("check the bot's id"), "{error}");
    let error = bot.send(PERSON, &message("m", "hello")).await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::NotSent);
    assert_eq!(server.calls("aibot_subscribe").len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_connection_is_reported_and_made_again() {
    let server = WecomServer::start();
    let bot = adapter(&server);
    let mut connected = Connected::start(&server, &bot);
    server.cut();
    let error = timeout(Duration::from_secs(20), connected.ended.recv()).await.unwrap().unwrap();
    assert_eq!(error.kind, ConnectionErrorKind::Lost);
    let connected = Connected::start(&server, &bot);
    server.say(PERSON, "again");
    connected.wait_for_events(1);
    assert_eq!(server.subscriptions(), 2);
    drop((connected, bot));
    until("it leaves when nobody needs it", || !server.is_connected());
}

#[test]
fn an_address_must_be_encrypted_except_on_this_machine() {
    let clock = Arc::new(SystemClock);
    for address in ["http://example.com", "ftp://127.0.0.1"] {
        assert!(Wecom::new("b", "s", Some(address), Arc::clone(&clock) as _).is_err());
    }
    assert!(Wecom::new("", "s", None, Arc::clone(&clock) as _).is_err());
    assert!(Wecom::new("b", "s", None, clock).is_ok());
}

//! The life of the program: its environment, its ends and its restarts.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use angelia_core::ports::{
    Channel as _, ConnectionErrorKind, EventInbox, InboundEvent, InboundKind, OutgoingMessage,
    RichText, SendErrorKind, StoreFuture, StreamMeans,
};
use angelia_testkit::folder_platform::FolderPlatform;
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::{PERSON, TOKEN, adapter, plain_adapter};

const PATIENCE: Duration = Duration::from_mins(1);

#[derive(Default)]
struct KeptEvents(Mutex<Vec<InboundEvent>>);

impl EventInbox for KeptEvents {
    fn accept(&self, events: Vec<InboundEvent>, _: Option<Arc<str>>) -> StoreFuture<'_, ()> {
        self.0.lock().unwrap().extend(events);
        Box::pin(async { Ok(()) })
    }

    fn note_alive(&self) {}
}

fn message(id: &str, text: &str) -> OutgoingMessage {
    let rich = Some(RichText::plain(text));
    OutgoingMessage { id: id.into(), text: text.into(), rich, ..OutgoingMessage::default() }
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(timeout(PATIENCE, waiting).await.is_ok(), "{what}");
}

#[tokio::test]
async fn the_program_gets_its_own_variables_and_nothing_of_ours() {
    let platform = FolderPlatform::default();
    let found = plain_adapter(&platform).check().await.unwrap();
    let texts: Vec<&str> = found.iter().map(|one| one.text.as_str()).collect();
    assert_eq!(texts, ["the program runs and speaks the protocol", "the folder is there"]);
    let start = &platform.starts()[0];
    assert_eq!(start["CHAT_TOKEN"], TOKEN);
    assert!(start["PATH"].is_string() && start["HOME"].is_string());
    assert!(start["SECRET_OF_OURS"].is_null(), "{start}");
    // It is a program of the owner, not of an agent.
    let mark = start["ANGELIA_AGENT"].as_str().unwrap();
    assert!(mark.rsplit(':').next().unwrap().starts_with("command-"), "{mark}");
}

#[tokio::test]
async fn a_program_that_cannot_start_is_reported_without_its_secrets_and_tried_less_and_less_often()
{
    let platform = FolderPlatform::default();
    std::fs::write(platform.file("broken"), "").unwrap();
    let channel = plain_adapter(&platform);
    let inbox = KeptEvents::default();
    for _ in 0..2 {
        let error = channel.receive(None, &inbox).await;
        assert_eq!(error.kind, ConnectionErrorKind::Lost);
        assert!(error.message.contains("is wrong") && !error.message.contains(TOKEN), "{error}");
    }
    assert_eq!(platform.starts().len(), 2);
    let error = channel.receive(None, &inbox).await;
    assert!(error.retry_after.unwrap() <= Duration::from_secs(1), "{error:?}");
    let error = channel.send("chat-ada", &message("m", "hello")).await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::NotSent);
    assert!(error.retry_after.is_some() && error.message.contains("does not run"), "{error:?}");
    assert_eq!(platform.starts().len(), 2, "it was not started again");
    std::fs::remove_file(platform.file("broken")).unwrap();
    sleep(error.retry_after.unwrap()).await;
    channel.send("chat-ada", &message("m", "hello")).await.unwrap();
}

#[tokio::test]
async fn a_missing_program_is_named() {
    let error = adapter(&["no-such-adapter".to_owned()], None).check().await.unwrap_err();
    assert!(error.message.contains("there is no program no-such-adapter"), "{error}");
    let error = adapter(&["~/none".to_owned()], None).ready().await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::NotSent);
}

#[tokio::test]
async fn a_program_says_that_its_platform_refuses_it() {
    let platform = FolderPlatform::default();
    platform.act("lost", 1);
    let channel = plain_adapter(&platform);
    let error = timeout(PATIENCE, channel.receive(None, &KeptEvents::default())).await.unwrap();
    assert_eq!(error.kind, ConnectionErrorKind::Refused);
    assert_eq!(error.message, "the token is wrong");
}

#[tokio::test]
async fn groups_threads_and_formatting_pass_through() {
    let platform = FolderPlatform::default();
    let channel = plain_adapter(&platform);
    let inbox = KeptEvents::default();
    platform.push_event(
        PERSON,
        json!({
            "kind": "message", "message_id": "1", "chat": "#room", "thread": "7", "addressed": true,
            "text": "look", "quoted": "before", "sent_at": "2026-11-18T05:00:00Z",
        }),
    );
    platform.push_event(PERSON, json!({"kind": "stop", "chat": "#room"}));
    platform.push_event(PERSON, json!({"kind": "deleted", "message_id": "1", "chat": "#room"}));
    tokio::select! {
        error = channel.receive(None, &inbox) => unreachable!("{error}"),
        () = until("all arrive", || inbox.0.lock().unwrap().len() == 3) => {}
    }
    let events = inbox.0.lock().unwrap().clone();
    let InboundKind::Message(words) = &events[0].kind else { unreachable!("{events:?}") };
    assert_eq!((&*events[0].chat, &*events[0].sender.id), ("#room#7", PERSON));
    assert_eq!((&*words.text, words.quoted.as_deref()), ("look", Some("before")));
    assert!(words.is_addressed && !words.is_direct);
    assert_eq!(words.sent_at.to_string(), "2026-11-18T05:00:00Z");
    assert_eq!((&*events[1].chat, &events[1].kind), ("#room", &InboundKind::Stop));
    assert_eq!(events[2].kind, InboundKind::Deleted("1".into()));
    let text = angelia_frontends::chat::formatting::parse_markdown("a **b** `c`");
    let plain = text.visible_text();
    let answer =
        OutgoingMessage { rich: Some(text), reply_to: Some("1".into()), ..message("m1", &plain) };
    channel.send("#room#7", &answer).await.unwrap();
    let shown = platform.messages().remove(0);
    assert_eq!((shown.chat.as_str(), shown.reply_to.as_deref()), ("#room#7", Some("1")));
    assert_eq!((shown.text.as_str(), shown.markdown.as_str()), ("a b c", "a **b** `c`"));
    assert_eq!(platform.starts().len(), 2, "who stops to receive ends the program");
}

#[tokio::test]
async fn a_program_can_do_as_little_as_it_wants() {
    let platform = FolderPlatform::default();
    let channel = adapter(&platform.command(), Some("{\"max_length\": {\"max\": 50}}"));
    assert_eq!(channel.capabilities().max_length, None, "nobody has asked yet");
    channel.ready().await.unwrap();
    let own = channel.capabilities();
    assert_eq!(own.max_length.unwrap().max, 50);
    assert!(!own.edit && !own.buttons && !own.files && !own.idempotent && own.receive);
    assert_eq!(channel.stream_means("x"), StreamMeans::None);
    let lived = adapter(
        &platform.command(),
        Some(r#"{"stream": {"means": "stream", "interval": 2, "lifetime": 300}}"#),
    );
    lived.ready().await.unwrap();
    let (interval, lifetime) = (Duration::from_secs(2), Duration::from_mins(5));
    assert_eq!(lived.stream_means("x"), StreamMeans::Stream { interval, lifetime });
    let begun = lived.begin_stream("x", &message("s", "so")).await.unwrap();
    lived.update_stream("x", &begun, &message("s", "so far")).await.unwrap();
    lived.end_stream("x", &begun, &message("s", "so good")).await.unwrap();
    assert_eq!(platform.messages()[0].text, "so good");
}

//! Sockets are replaced without a gap, and events are one however they arrive.

use std::{sync::Arc, time::Duration};

use angelia_core::ports::{
    ButtonPress, Channel as _, ConnectionErrorKind, InboundFile, InboundKind, SendErrorKind,
};
use angelia_testkit::{
    direct_session::wait_until,
    slack_server::{BOT_USER, SlackFault, SlackServer},
};
use serde_json::json;
use tokio::time::timeout;

use super::{KeptEvents, PERSON, adapter, markdown};

fn texts(kept: &KeptEvents) -> Vec<String> {
    let text = |kind: &InboundKind| match kind {
        InboundKind::Message(message) | InboundKind::Edited(message) => message.text.to_string(),
        other => format!("{other:?}"),
    };
    kept.all().iter().map(|event| text(&event.kind)).collect()
}

#[tokio::test]
async fn the_next_socket_is_open_before_the_old_one_is_left() {
    let server = SlackServer::start();
    let kept = KeptEvents::receive(&adapter(&server));
    wait_until("it connects", || server.open_sockets() == 1).await;
    for (round, reason) in ["warning", "refresh_requested"].into_iter().enumerate() {
        server.disconnect(reason);
        wait_until("it opens another one", || server.sockets_opened() == round + 2).await;
        assert_eq!(server.most_sockets(), 2, "both were open");
        server.say(PERSON, reason);
        wait_until("events arrive", || texts(&kept).len() == round + 1).await;
        wait_until("the old one is closed", || server.open_sockets() == 1).await;
    }
    assert_eq!(texts(&kept), ["warning", "refresh_requested"]);
    wait_until("all are acknowledged", || server.is_acknowledged()).await;
}

#[tokio::test]
async fn a_socket_that_cannot_be_replaced_is_used_until_it_ends() {
    let server = SlackServer::start();
    let slack = adapter(&server);
    let kept = Arc::new(KeptEvents::default());
    let receiving = slack.receive(None, &*kept);
    tokio::pin!(receiving);
    let driving = async {
        wait_until("it connects", || server.open_sockets() == 1).await;
        server.fail_next("apps.connections.open", SlackFault::Garbage);
        server.disconnect("warning");
        wait_until("it has tried", || server.calls("apps.connections.open").len() == 2).await;
        server.say(PERSON, "still here");
        wait_until("it arrives", || texts(&kept) == ["still here"]).await;
        server.cut_sockets();
    };
    let (error, ()) = tokio::join!(receiving, driving);
    assert_eq!(error.kind, ConnectionErrorKind::Lost, "{error}");
    assert!(!error.message.contains("ticket"), "{error}");
}

#[tokio::test]
async fn socket_mode_that_is_off_is_told() {
    let server = SlackServer::start();
    let slack = adapter(&server);
    let kept = KeptEvents::default();
    server.disable_sockets();
    let receiving = slack.receive(None, &kept);
    let error = timeout(Duration::from_secs(20), receiving).await.unwrap();
    assert_eq!(error.kind, ConnectionErrorKind::Refused);
    assert!(error.message.contains("Socket Mode is off"), "{error}");
}

#[tokio::test]
async fn mentions_commands_deletions_and_names_are_received() {
    let server = SlackServer::start();
    let kept = KeptEvents::receive(&adapter(&server));
    let ts = server.write_in_channel(PERSON, "C1", None, &format!("<@{BOT_USER}> go &amp; see"));
    wait_until("both events arrive", || kept.all().len() == 2).await;
    let events = kept.all();
    assert_eq!(events[0], events[1], "a mention arrives twice, as one event");
    assert_eq!(*events[0].chat, format!("C1#{ts}"));
    assert_eq!(&*events[0].sender.name, "person-u7");
    server.command(PERSON, &SlackServer::direct_channel(PERSON), "/stop", "now");
    server.delete(PERSON, &ts);
    wait_until("they arrive", || kept.all().len() == 4).await;
    assert_eq!(texts(&kept)[2], "/stop now");
    assert_eq!(kept.all()[3].kind, InboundKind::Deleted(ts.into()));
    assert_eq!(server.calls("users.info").len(), 1, "a name is asked for once");
}

#[tokio::test]
async fn a_press_is_answered_where_only_its_person_sees_it() {
    let server = SlackServer::start();
    let press = |id: &str| ButtonPress {
        id: id.into(),
        value: "v".into(),
        message_id: None,
        is_direct: false,
    };
    let slack = adapter(&server);
    slack.answer_press(&press("C1#5.5 U7"), "done <b>").await.unwrap();
    let told = server.calls("chat.postEphemeral").remove(0).fields;
    let wanted =
        json!({"channel": "C1", "thread_ts": "5.5", "user": "U7", "text": "done &lt;b&gt;"});
    assert_eq!(told, wanted);
    slack.answer_press(&press("nothing"), "x").await.unwrap_err();
}

#[tokio::test]
async fn the_token_goes_to_no_other_host() {
    let server = SlackServer::start();
    let other = SlackServer::start();
    let slack = adapter(&server);
    let file = |id: String| InboundFile {
        id: id.into(),
        name: "a.txt".into(),
        media_type: Some("text/plain".into()),
        size: None,
    };
    let id = other.add_file("a.txt", b"secret");
    for address in [format!("{}/files-pri/{id}", other.base_url()), "https://evil.example/x".into()]
    {
        let error = slack.fetch_file(&file(address), 100).await.unwrap_err();
        assert_eq!(error.kind, SendErrorKind::Refused);
        assert!(error.message.contains("not on a server of Slack"), "{error}");
    }
    // A file without an address is asked for by its id.
    let id = server.add_file("b.txt", b"notes");
    assert_eq!(slack.fetch_file(&file(id), 100).await.unwrap(), b"notes");
}

#[tokio::test]
async fn errors_say_whether_a_message_may_have_arrived() {
    let server = SlackServer::start();
    let slack = adapter(&server);
    for (fault, kind) in [
        (SlackFault::Refuse("internal_error".to_owned()), SendErrorKind::Unknown),
        (SlackFault::Garbage, SendErrorKind::Unknown),
        (SlackFault::Refuse("service_unavailable".to_owned()), SendErrorKind::NotSent),
        (SlackFault::Refuse("not_in_channel".to_owned()), SendErrorKind::Refused),
    ] {
        server.fail_next("chat.postMessage", fault.clone());
        let error = slack.send("C1", &markdown("x")).await.unwrap_err();
        assert_eq!(error.kind, kind, "{fault:?}: {error}");
    }
    slack.send("#general", &markdown("x")).await.unwrap_err();
}

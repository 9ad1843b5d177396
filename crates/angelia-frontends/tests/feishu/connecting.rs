//! The WebSocket: parts, pings, presses and their answers, groups and threads, tokens.

use std::{sync::Arc, time::Duration};

use angelia_core::ports::{
    Button, Channel as _, ConnectionErrorKind, InboundKind, InboundMessage, OutgoingMessage,
    SendErrorKind,
};
use angelia_frontends::chat::feishu::Feishu;
use angelia_testkit::{
    clock::SystemClock,
    direct_session::wait_until,
    feishu_server::{APP_ID, ApiFault, FeishuServer, MessageKind},
};
use serde_json::json;

use super::{PERSON, Receiver, adapter, chat, message};

fn words(kind: &InboundKind) -> &InboundMessage {
    match kind {
        InboundKind::Message(message) => message,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_event_in_parts_is_one_and_is_acknowledged_once_in_time() {
    let server = FeishuServer::start();
    let receiver = Receiver::start(&adapter(&server), &server).await;
    let text = "long ".repeat(50_000);
    let message = json!({
        "message_id": "om_long", "chat_id": chat(), "chat_type": "p2p", "message_type": "text",
        "content": json!({"text": text}).to_string(), "create_time": "1700000000000",
    });
    let sender = json!({"sender_id": {"open_id": PERSON}, "sender_type": "user"});
    server.push_parts("im.message.receive_v1", &json!({"sender": sender, "message": message}), 5);
    let events = receiver.wait_for(1).await;
    assert_eq!(words(&events[0].kind).text.len(), text.trim().len());
    wait_until("it is acknowledged", || server.is_acknowledged()).await;
    let acks = server.acks();
    assert_eq!((acks.len(), acks[0].code), (1, 200));
    assert!(acks[0].after < Duration::from_secs(3), "{acks:?}");
    assert!(
        !acks[0].frame.header("biz_rt").is_empty() && !acks[0].frame.header("trace_id").is_empty()
    );
}

#[tokio::test]
async fn it_pings_in_the_interval_of_the_server() {
    let server = FeishuServer::start();
    let config = |seconds: u64| json!({"ReconnectNonce": 0, "PingInterval": seconds});
    server.set_config(config(1));
    let _receiver = Receiver::start(&adapter(&server), &server).await;
    wait_until("it pings", || server.pings().len() >= 3).await;
    let pings = server.pings();
    assert!(pings[1] - pings[0] >= Duration::from_millis(900), "{pings:?}");
    // The answer to a ping can change it.
    server.set_config(config(3600));
    let before = server.pings().len();
    wait_until("the answer comes", || server.pings().len() > before).await;
    let last = server.pings().len();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(server.pings().len(), last);
}

#[tokio::test]
async fn a_press_is_answered_in_its_acknowledgement_and_late_answers_beside_the_card() {
    let server = FeishuServer::start();
    let bot = adapter(&server);
    let receiver = Receiver::start(&bot, &server).await;
    server.say(PERSON, "hello");
    receiver.wait_for(1).await;
    let buttons = vec![Button { label: "Yes".into(), value: "v:1".into(), words: None }];
    let asked = OutgoingMessage { buttons, ..message("b1", "really?") };
    bot.send(&chat(), &asked).await.unwrap();
    let card = server.messages(&chat())[0].clone();
    server.press(PERSON, &card, "Yes");
    let events = receiver.wait_for(2).await;
    let InboundKind::Press(press) = &events[1].kind else { panic!("{events:?}") };
    assert!(press.is_direct, "the button knows its chat");
    assert_eq!(&*events[1].sender.name, "Person ou_7");
    // Other events do not wait for the answer.
    server.say(PERSON, "meanwhile");
    receiver.wait_for(3).await;
    bot.answer_press(press, "Allowed.").await.unwrap();
    wait_until("it is acknowledged", || server.is_acknowledged()).await;
    let answers: Vec<_> = server.acks().into_iter().filter_map(|ack| ack.answer).collect();
    assert_eq!(answers, [json!({"toast": {"type": "info", "content": "Allowed."}})]);
    // Nobody answers in time: the acknowledgement goes, and the answer comes as a message.
    server.press(PERSON, &card, "Yes");
    let events = receiver.wait_for(4).await;
    let InboundKind::Press(press) = &events[3].kind else { panic!("{events:?}") };
    wait_until("it is acknowledged", || server.is_acknowledged()).await;
    assert!(server.acks().last().unwrap().after < Duration::from_secs(3));
    bot.answer_press(press, "Too late.").await.unwrap();
    let told = server.messages(&chat()).pop().unwrap();
    assert_eq!((told.text.as_str(), told.reply_to), ("Too late.", Some(card.id)));
}

#[tokio::test]
async fn the_kind_of_a_chat_is_looked_up_where_a_button_does_not_know_it() {
    let server = FeishuServer::start();
    let bot = adapter(&server);
    let receiver = Receiver::start(&bot, &server).await;
    let buttons = vec![Button { label: "Yes".into(), value: "v:1".into(), words: None }];
    for (index, chat) in [chat(), "oc_team".to_owned()].into_iter().enumerate() {
        let asked = OutgoingMessage { buttons: buttons.clone(), ..message(&chat, "really?") };
        bot.send(&chat, &asked).await.unwrap();
        server.press(PERSON, &server.messages(&chat)[0], "Yes");
        let events = receiver.wait_for(index + 1).await;
        let InboundKind::Press(press) = &events[index].kind else { panic!("{events:?}") };
        assert_eq!(press.is_direct, index == 0);
    }
}

#[tokio::test]
async fn groups_have_mentions_threads_and_answers() {
    let server = FeishuServer::start();
    let bot = adapter(&server);
    let receiver = Receiver::start(&bot, &server).await;
    let text = |text: &str| json!({"text": text});
    let group = MessageKind::Group("oc_team", false);
    let first = server.write(PERSON, group, "text", &text("just talk"), &json!({}));
    let mention = MessageKind::Group("oc_team", true);
    let thread = json!({"thread_id": "omt_1", "root_id": first});
    server.write(PERSON, mention, "text", &text("@_user_1 do it"), &thread);
    let quote = json!({"parent_id": first, "root_id": first});
    server.write(PERSON, mention, "text", &text("@_user_1 and this?"), &quote);
    let events = receiver.wait_for(3).await;
    assert!(!words(&events[0].kind).is_addressed && !words(&events[0].kind).is_direct);
    let in_thread = words(&events[1].kind);
    assert_eq!((&*in_thread.text, in_thread.is_addressed), ("do it", true));
    assert_eq!(*events[1].chat, *format!("oc_team#{first}"));
    assert_eq!(words(&events[2].kind).quoted.as_deref(), Some("just talk"));
    // Into the thread, with and without a message to answer; an answer to one that is gone too.
    bot.send(&events[1].chat, &message("1", "said there")).await.unwrap();
    let reply = OutgoingMessage { reply_to: Some("om_gone".into()), ..message("2", "again") };
    bot.send(&events[1].chat, &reply).await.unwrap();
    let quoting = OutgoingMessage {
        reply_to: Some(words(&events[2].kind).id.clone()),
        ..message("3", "yes")
    };
    bot.send("oc_team", &quoting).await.unwrap();
    let sent = server.messages("oc_team");
    for one in &sent[..2] {
        assert_eq!((one.reply_to.as_deref(), one.in_thread), (Some(&*first), true));
    }
    assert!(!sent[2].in_thread && sent[2].reply_to.is_some());
    // An answer to the bot's own message is for the bot.
    let answer = json!({"parent_id": sent[2].id, "root_id": sent[2].id});
    server.write(PERSON, group, "text", &text("thanks"), &answer);
    let events = receiver.wait_for(4).await;
    assert!(words(&events[3].kind).is_addressed && words(&events[3].kind).quoted.is_none());
    server.recall("oc_team", &first);
    let events = receiver.wait_for(5).await;
    assert_eq!(events[4].kind, InboundKind::Deleted(first.as_str().into()));
    bot.send("ou_9", &message("4", "to a person")).await.unwrap();
    assert_eq!(server.messages("oc_with_ou_9").len(), 1);
}

#[tokio::test]
async fn a_token_is_renewed_early_and_once_when_it_is_refused() {
    let server = FeishuServer::start();
    let bot = adapter(&server);
    for id in ["1", "2", "3"] {
        bot.send(&chat(), &message(id, id)).await.unwrap();
    }
    assert_eq!(server.tokens(), 1);
    server.revoke_tokens();
    bot.send(&chat(), &message("4", "4")).await.unwrap();
    assert_eq!((server.tokens(), server.messages(&chat()).len()), (2, 4));
    // Files too.
    server.add_file("file_x", "x.txt", b"x");
    server.revoke_tokens();
    let file = angelia_core::ports::InboundFile {
        id: "om_1/file_x/file".into(),
        name: "x.txt".into(),
        media_type: None,
        size: None,
    };
    assert_eq!(bot.fetch_file(&file, 10).await.unwrap(), b"x");
    let bad = angelia_core::ports::InboundFile { id: "om_1/../file".into(), ..file };
    assert_eq!(bot.fetch_file(&bad, 10).await.unwrap_err().kind, SendErrorKind::Refused);
    // One that lives for a second is used for half of it.
    server.set_token_lifetime(1);
    server.revoke_tokens();
    bot.send(&chat(), &message("5", "5")).await.unwrap();
    let before = server.tokens();
    tokio::time::sleep(Duration::from_millis(600)).await;
    bot.send(&chat(), &message("6", "6")).await.unwrap();
    assert_eq!(server.tokens(), before + 1);
    // Only once: a platform that refuses every token is told to the caller.
    for _ in 0..2 {
        let words = "Invalid access token".to_owned();
        server.fail_next("send", ApiFault::Refuse(99_991_663, words));
    }
    let error = bot.send(&chat(), &message("7", "7")).await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::NotSent, "{error}");
}

#[tokio::test]
async fn refused_credentials_are_told_from_a_lost_connection() {
    let server = FeishuServer::start();
    let clock = || Arc::new(SystemClock);
    let wrong = Feishu::new(APP_ID, "wrong-secret", Some(server.base_url()), clock()).unwrap();
    let error = wrong.check().await.unwrap_err();
    assert_eq!(error.kind, ConnectionErrorKind::Refused);
    assert!(error.to_string().contains("larksuite"), "{error}");
    assert!(!format!("{error}{wrong:?}").contains("wrong-secret"), "the secret is never shown");
    for bad in ["", "abc", "cli_a b"] {
        assert!(Feishu::new(bad, "x", None, clock()).is_err(), "{bad}");
    }
    let plain = Feishu::new(APP_ID, "x", Some("http://example.com"), clock());
    assert!(plain.unwrap_err().to_string().contains("unencrypted"));
    // A busy platform is asked again; one that gives no connection says why.
    let bot = adapter(&server);
    server.fail_next("endpoint", ApiFault::Garbage);
    let busy = Receiver::start(&bot, &server).await.ended().unwrap();
    assert_eq!(busy.kind, ConnectionErrorKind::Lost);
    server.fail_next("endpoint", ApiFault::TooMany(7));
    let busy = Receiver::start(&bot, &server).await.ended().unwrap();
    assert_eq!(busy.retry_after, Some(Duration::from_secs(7)));
    let receiver = Receiver::start(&bot, &server).await;
    server.cut();
    wait_until("it is lost", || receiver.ended().is_some()).await;
    assert_eq!(receiver.ended().unwrap().kind, ConnectionErrorKind::Lost);
}

//! What only Matrix has: invitations, encrypted rooms, gaps, threads, and edits that anybody can claim.

use angelia_core::ports::{
    Channel as _, InboundEvent, InboundKind, InboundMessage, OutgoingMessage,
};
use angelia_testkit::{
    matrix_server::{BOT, MatrixFault, MatrixServer},
    receiving_adapter::ReceivingAdapter,
};
use serde_json::json;

use super::{PERSON, adapter};

fn words(event: &InboundEvent) -> &InboundMessage {
    match &event.kind {
        InboundKind::Message(message) | InboundKind::Edited(message) => message,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_invitation_is_accepted_and_what_was_written_with_it_counts() {
    let server = MatrixServer::start();
    server.say(PERSON, "before the bot began to listen");
    let receiving = ReceivingAdapter::start(adapter(&server), None).await;
    server.fail_next("POST join", MatrixFault::Garbage);
    let room = server.invite("new", PERSON);
    server.say_in(&room, PERSON, json!({"msgtype": "m.text", "body": "hello at once"}));
    server.say(PERSON, "elsewhere");
    let events = receiving.events(2).await;
    let mut seen: Vec<(&str, bool)> =
        events.iter().map(|event| (&*words(event).text, words(event).is_direct)).collect();
    seen.sort_unstable();
    assert_eq!(seen, [("elsewhere", true), ("hello at once", true)]);
    assert_eq!(&*events[0].sender.name, "Ada");
}

#[tokio::test]
async fn an_encrypted_room_is_told_so_once() {
    let server = MatrixServer::start();
    let room = server.direct_room(PERSON);
    let receiving = ReceivingAdapter::start(adapter(&server), None).await;
    server.encrypt(&room, PERSON);
    let secret = json!({"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "abc"});
    for _ in 0..3 {
        let before = server.calls("GET sync").len();
        server.push(&room, PERSON, "m.room.encrypted", secret.clone());
        receiving.until("it polls", || server.calls("GET sync").len() > before).await;
    }
    receiving.until("it says so", || !server.messages(&room).is_empty()).await;
    server.say("bob", "end");
    receiving.events(1).await;
    let told = server.messages(&room);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].text.contains("encrypted") && told[0].kind == "m.notice");
}

#[tokio::test]
async fn a_long_absence_loses_nothing_and_keeps_the_order() {
    let server = MatrixServer::start();
    let receiving = ReceivingAdapter::start(adapter(&server), None).await;
    server.say(PERSON, "the last one");
    receiving.events(1).await;
    let cursor = receiving.cursor();
    drop(receiving);
    for number in 0..250 {
        server.say(PERSON, &number.to_string());
    }
    let receiving = ReceivingAdapter::start(adapter(&server), cursor.as_deref()).await;
    let events = receiving.events(250).await;
    let seen: Vec<String> = events.iter().map(|event| words(event).text.to_string()).collect();
    assert_eq!(seen, (0..250).map(|number| number.to_string()).collect::<Vec<_>>());
    drop(receiving);
    // A server that does not know the cursor any more gets a new beginning.
    let receiving = ReceivingAdapter::start(adapter(&server), Some("of another server")).await;
    server.say(PERSON, "anew");
    assert_eq!(&*words(&receiving.events(1).await[0]).text, "anew");
}

#[tokio::test]
async fn in_rooms_threads_mentions_and_answers_count() {
    let server = MatrixServer::start();
    let room = server.add_room("team", &[PERSON, "bob"]);
    let receiving = ReceivingAdapter::start(adapter(&server), None).await;
    let bot = adapter(&server);
    let own = bot
        .send(&room, &OutgoingMessage { text: "a question?".into(), ..Default::default() })
        .await
        .unwrap();
    let own = own.message_id.unwrap();
    let first = server.say_in(&room, PERSON, json!({"msgtype": "m.text", "body": "just talk"}));
    server.say_in(
        &room,
        PERSON,
        json!({
            "msgtype": "m.text", "body": "Angelia Bot: do it", "m.mentions": {"user_ids": [BOT]},
            "m.relates_to": {
                "rel_type": "m.thread", "event_id": first, "is_falling_back": true,
                "m.in_reply_to": {"event_id": first},
            },
        }),
    );
    let answer = |of: &str| {
        json!({
            "msgtype": "m.text", "body": "yes", "m.relates_to": {"m.in_reply_to": {"event_id": of}},
        })
    };
    let answered = server.say_in(&room, PERSON, answer(&own));
    server.say_in(&room, "bob", answer(&first));
    let events = receiving.events(4).await;
    let seen: Vec<(String, &str, bool, Option<&str>)> = events
        .iter()
        .map(|event| {
            let message = words(event);
            assert!(!message.is_direct);
            let quoted = message.quoted.as_deref();
            (event.chat.to_string(), &*message.text, message.is_addressed, quoted)
        })
        .collect();
    let thread = format!("{room}#{first}");
    assert_eq!(
        seen,
        [
            (room.clone(), "just talk", false, None),
            (thread.clone(), "do it", true, None),
            (room.clone(), "yes", true, None),
            (room.clone(), "yes", false, Some("just talk")),
        ]
    );
    // An edit counts if it is the sender's own, and stands where the message stood.
    server.edit(&room, "bob", &answered, "no, bob says");
    server.edit(&room, PERSON, &answered, "no");
    receiving.events(5).await;
    server.redact(&room, "bob", &answered);
    server.redact(&room, PERSON, &first);
    let events = receiving.events(6).await;
    assert!(matches!(&events[4].kind, InboundKind::Edited(_)), "{:?}", events[4]);
    let edited = words(&events[4]);
    assert_eq!((&*edited.id, &*edited.text, edited.is_addressed), (&*answered, "no", true));
    assert_eq!(events[5].kind, InboundKind::Deleted(first.as_str().into()));
    assert_eq!(events.len(), 6);
    // A third person makes a direct room a group.
    let direct = server.direct_room(PERSON);
    server.say(PERSON, "alone");
    assert!(words(&receiving.events(7).await[6]).is_direct);
    server.join(&direct, "bob");
    server.say(PERSON, "not alone");
    assert!(!words(&receiving.events(8).await[7]).is_direct);
    let sent = bot
        .send(&thread, &OutgoingMessage { text: "in the thread".into(), ..Default::default() })
        .await;
    sent.unwrap();
    assert_eq!(server.messages(&room)[1].thread.as_deref(), Some(first.as_str()));
}

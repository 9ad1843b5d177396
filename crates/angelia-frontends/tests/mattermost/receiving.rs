//! What only Mattermost has: threads, numbers of events, and what was missed between two connections.

use std::time::Duration;

use angelia_core::ports::{
    Channel as _, InboundEvent, InboundKind, InboundMessage, OutgoingMessage,
};
use angelia_testkit::{
    mattermost_server::{BOT_NAME, MattermostServer},
    receiving_adapter::{KeptEvents, ReceivingAdapter},
};
use serde_json::json;
use tokio::time::sleep;

use super::{PERSON, adapter};

fn words(event: &InboundEvent) -> &InboundMessage {
    match &event.kind {
        InboundKind::Message(message) | InboundKind::Edited(message) => message,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn in_channels_threads_mentions_and_answers_count() {
    let server = MattermostServer::start();
    let town = server.add_channel("town", "O", &[PERSON, "bob"]);
    let receiving = ReceivingAdapter::start(adapter(&server), None).await;
    let bot = adapter(&server);
    let question = OutgoingMessage { text: "a question?".into(), ..Default::default() };
    let own = bot.send(&town, &question).await.unwrap().message_id.unwrap();
    let talk = server.say_in(&town, PERSON, &json!({"message": "just talk"}));
    let named = server.say_in(&town, PERSON, &json!({"message": format!("@{BOT_NAME} do it")}));
    server.say_in(&town, PERSON, &json!({"message": "yes", "root_id": own}));
    server.say_in(&town, "bob", &json!({"message": "hm", "root_id": talk}));
    server.say_in(&town, "bob", &json!({"message": "joined", "type": "system_join_channel"}));
    server.say_in(&town, "bob", &json!({"message": "beep", "props": {"from_bot": "true"}}));
    server.say(PERSON, "alone");
    let events = receiving.events(5).await;
    let seen: Vec<(String, &str, bool)> = events
        .iter()
        .map(|event| {
            let message = words(event);
            (event.chat.to_string(), &*message.text, message.is_addressed)
        })
        .collect();
    assert_eq!(
        seen,
        [
            (format!("{town}#{talk}"), "just talk", false),
            (format!("{town}#{named}"), "do it", true),
            (format!("{town}#{own}"), "yes", true),
            (format!("{town}#{talk}"), "hm", false),
            (server.direct_channel(PERSON), "alone", false),
        ]
    );
    assert!(words(&events[4]).is_direct && !words(&events[0]).is_direct);
    assert_eq!(&*events[0].sender.name, PERSON);
    server.delete(&named);
    let events = receiving.events(6).await;
    assert_eq!(events[5].kind, InboundKind::Deleted(named.as_str().into()));
    // An answer stands in the thread that the question has begun.
    bot.send(&format!("{town}#{talk}"), &question).await.unwrap();
    assert_eq!(server.messages(&town)[1].root, talk);
}

#[tokio::test]
async fn what_was_missed_is_asked_for_and_comes_once() {
    let server = MattermostServer::start();
    server.say(PERSON, "before the bot began to listen");
    let receiving = ReceivingAdapter::start(adapter(&server), None).await;
    let kept = server.say(PERSON, "one");
    receiving.events(1).await;
    let cursor = receiving.cursor();
    drop(receiving);
    for number in 0..30 {
        server.say(PERSON, &number.to_string());
    }
    let gone = server.say(PERSON, "not wanted any more");
    server.delete(&gone);
    server.edit(&kept, "one, changed");
    let receiving = ReceivingAdapter::start(adapter(&server), cursor.as_deref()).await;
    let events = receiving.events(31).await;
    assert!(
        matches!(&events[0].kind, InboundKind::Edited(words) if &*words.text == "one, changed")
    );
    let seen: Vec<String> = events[1..].iter().map(|one| words(one).text.to_string()).collect();
    assert_eq!(seen, (0..30).map(|number| number.to_string()).collect::<Vec<_>>());
    server.say(PERSON, "and now");
    assert_eq!(&*words(&receiving.events(32).await[31]).text, "and now");
}

#[tokio::test]
async fn an_event_that_is_missing_ends_the_connection() {
    let server = MattermostServer::start();
    server.direct_channel(PERSON);
    let inbox = KeptEvents::default();
    let bot = adapter(&server);
    let pushing = async {
        while server.ready_sockets() == 0 {
            sleep(Duration::from_millis(10)).await;
        }
        server.skip_number();
        server.say(PERSON, "after a gap");
        sleep(Duration::from_secs(20)).await;
    };
    let error = tokio::select! {
        error = bot.receive(None, &inbox) => error,
        () = pushing => panic!("the gap was not seen"),
    };
    assert!(error.to_string().contains("missing"), "{error}");
}

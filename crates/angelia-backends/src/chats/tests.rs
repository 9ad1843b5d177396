//! The chat store over restarts, repetitions and several processes.

use angelia_core::{
    model::TurnId,
    ports::{
        ButtonPress, ChatStore, HookAnswer, InboundEvent, InboundFile, InboundKind, InboundMessage,
        PairingCode, ReplyRoute, Sender,
    },
};
use jiff::Timestamp;
use uuid::Uuid;

use super::SqliteChats;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn event(key: &str, kind: InboundKind) -> InboundEvent {
    let sender = Sender { roles: vec!["r1".into()], ..Sender::new("7", "Ada") };
    InboundEvent { dedupe_key: key.into(), chat: "7#2".into(), sender, kind }
}

fn message(text: &str) -> InboundKind {
    InboundKind::Message(InboundMessage {
        id: "11".into(),
        text: text.into(),
        is_direct: true,
        is_addressed: false,
        quoted: Some("before".into()),
        files: vec![InboundFile {
            id: "f".into(),
            name: "a.png".into(),
            media_type: Some("image/png".into()),
            size: Some(3),
        }],
        sent_at: at(5),
    })
}

#[tokio::test]
async fn an_event_is_added_once_and_found_until_its_work_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chats.db");
    let chats = SqliteChats::open(&path).unwrap();
    let press = ButtonPress {
        id: "q".into(),
        value: "v".into(),
        message_id: Some("3".into()),
        is_direct: false,
    };
    let events = vec![
        event("1", message("hello")),
        event("2", InboundKind::Press(press)),
        event("3", InboundKind::Stop),
        event("4", InboundKind::Deleted("11".into())),
    ];
    let added = chats.accept("x", events.clone(), Some("4".into()), at(9)).await.unwrap();
    assert_eq!(added.len(), 4);
    let again = chats.accept("x", events.clone(), Some("5".into()), at(10)).await.unwrap();
    assert!(again.is_empty(), "{again:?}");
    let other = chats.accept("y", vec![events[0].clone()], None, at(10)).await.unwrap();
    assert_eq!(other.len(), 1, "platforms have keys of their own");
    drop(chats);

    let chats = SqliteChats::open(&path).unwrap();
    assert_eq!(chats.cursor("x").await.unwrap().as_deref(), Some("5"));
    assert_eq!(chats.cursor("y").await.unwrap(), None);
    let turn = TurnId::from_uuid(Uuid::from_u128(8));
    chats.set_event_turn(added[0].position, turn).await.unwrap();
    chats.finish_event(added[1].position).await.unwrap();
    let open = chats.unfinished_events().await.unwrap();
    assert_eq!(open.len(), 4);
    assert_eq!((&open[0].event, open[0].turn), (&events[0], Some(turn)));
    assert_eq!((&open[1].event, &open[2].event), (&events[2], &events[3]));
    // A finished event is still known.
    assert!(chats.accept("x", events, None, at(11)).await.unwrap().is_empty());
    chats.forget_before(at(100)).await.unwrap();
    assert_eq!(chats.unfinished_events().await.unwrap().len(), 4, "only finished ones");
}

#[tokio::test]
async fn codes_are_few_short_lived_and_used_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chats.db");
    let chats = SqliteChats::open(&path).unwrap();
    let offer = |code: &str, platform: &str, sender: &str, second| PairingCode {
        code: code.into(),
        platform: platform.into(),
        sender: sender.into(),
        name: "N".into(),
        made_at: at(second),
    };
    let long_ago = at(0);
    for (code, sender) in [("A", "1"), ("B", "2"), ("C", "3")] {
        let kept = chats.offer_code(offer(code, "x", sender, 10), long_ago).await.unwrap();
        assert_eq!(kept.unwrap().code.as_ref(), code);
    }
    let known = chats.offer_code(offer("D", "x", "2", 11), long_ago).await.unwrap();
    assert_eq!(known.unwrap().code.as_ref(), "B", "one code for each person");
    assert_eq!(chats.offer_code(offer("D", "x", "4", 11), long_ago).await.unwrap(), None);
    assert!(chats.offer_code(offer("E", "y", "4", 11), long_ago).await.unwrap().is_some());

    // Another process of the owner redeems it.
    let owner = SqliteChats::open(&path).unwrap();
    assert_eq!(owner.redeem_code("A", at(11), at(12)).await.unwrap(), None, "too old");
    let guest = owner.redeem_code("A", long_ago, at(12)).await.unwrap().unwrap();
    assert_eq!((guest.platform.as_ref(), guest.id.as_ref()), ("x", "1"));
    assert_eq!(owner.redeem_code("A", long_ago, at(12)).await.unwrap(), None, "used");
    assert!(chats.is_guest("x", "1").await.unwrap());
    assert!(!chats.is_guest("y", "1").await.unwrap());
    assert_eq!(owner.codes(long_ago).await.unwrap().len(), 3);
    assert!(owner.remove_guest("x", "1").await.unwrap());
    assert!(!owner.remove_guest("x", "1").await.unwrap());
    assert!(!chats.is_guest("x", "1").await.unwrap());
    let late = chats.offer_code(offer("F", "x", "9", 5000), at(1000)).await.unwrap();
    assert!(late.is_some(), "expired codes make room");
}

#[tokio::test]
async fn answers_of_webhooks_are_kept_until_they_are_handed_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chats.db");
    let chats = SqliteChats::open(&path).unwrap();
    let answer = |number| HookAnswer {
        turn: TurnId::from_uuid(Uuid::from_u128(number)),
        hook: "ci".into(),
        to: "telegram:7".into(),
    };
    for number in [2, 1] {
        chats.put_hook_answer(answer(number)).await.unwrap();
    }
    let chats = SqliteChats::open(&path).unwrap();
    assert_eq!(chats.hook_answers().await.unwrap(), [answer(1), answer(2)]);
    chats.remove_hook_answer(answer(1).turn).await.unwrap();
    assert_eq!(chats.hook_answers().await.unwrap(), [answer(2)]);
}

#[tokio::test]
async fn the_newest_route_of_each_chat_is_kept_until_it_expires() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chats.db");
    let chats = SqliteChats::open(&path).unwrap();
    let route = |value: &str, end| ReplyRoute { value: value.into(), expires_at: at(end) };
    chats.put_route("x", "a", route("old", 20), at(1)).await.unwrap();
    chats.put_route("x", "b", route("other", 90), at(2)).await.unwrap();
    chats.put_route("x", "a", route("new", 30), at(3)).await.unwrap();
    chats.put_route("y", "a", route("elsewhere", 5), at(3)).await.unwrap();
    let chats = SqliteChats::open(&path).unwrap();
    let both = vec![("a".into(), route("new", 30)), ("b".into(), route("other", 90))];
    assert_eq!(chats.routes("x").await.unwrap(), both);
    chats.put_route("x", "b", route("last", 99), at(31)).await.unwrap();
    assert_eq!(chats.routes("x").await.unwrap(), [("b".into(), route("last", 99))]);
    assert_eq!(chats.routes("y").await.unwrap().len(), 1);
}

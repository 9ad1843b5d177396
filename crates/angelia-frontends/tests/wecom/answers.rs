//! Answers by the way that is open: streams while they live, cards right after a press, messages otherwise.

use angelia_core::ports::{Channel as _, InboundKind, SendErrorKind, SentMessage, StreamMeans};
use angelia_testkit::wecom_server::{BotFault, BotWay, WecomServer};
use serde_json::json;

use super::{Connected, PERSON, RESPOND, SEND, adapter, answer, message, question, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_grows_in_one_stream() {
    let server = WecomServer::start();
    let bot = adapter(&server);
    assert_eq!(bot.stream_means(PERSON), StreamMeans::None, "nobody has written yet");
    let connected = Connected::start(&server, &bot);
    let asked = server.say(PERSON, "hello");
    connected.wait_for_events(1);
    assert!(matches!(bot.stream_means(PERSON), StreamMeans::Stream { .. }));
    let begun = bot.begin_stream(PERSON, &answer("s1", "so", &asked)).await.unwrap();
    bot.update_stream(PERSON, &begun, &message("s1", "so far")).await.unwrap();
    assert!(server.messages(PERSON)[0].is_open);
    for _ in 0..2 {
        bot.end_stream(PERSON, &begun, &message("s1", "so far, so good")).await.unwrap();
    }
    let messages = server.messages(PERSON);
    assert_eq!(messages.len(), 1);
    assert_eq!((messages[0].text.as_str(), messages[0].is_open), ("so far, so good", false));
    let again = bot.begin_stream(PERSON, &answer("s2", "more", &asked)).await.unwrap_err();
    assert_eq!(again.kind, SendErrorKind::Refused, "a message is answered by one stream");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_is_over_is_left_by_deadline_and_by_error() {
    let server = WecomServer::start();
    let bot = adapter(&server);
    let connected = Connected::start(&server, &bot);
    // It began long ago, in an earlier process: nothing is even tried.
    let old = SentMessage { message_id: Some("stream/1700000000/abc/req1".into()) };
    let error = bot.end_stream(PERSON, &old, &message("s", "late")).await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Refused);
    assert!(server.calls(RESPOND).is_empty());
    let asked = server.say(PERSON, "hello");
    connected.wait_for_events(1);
    let begun = bot.begin_stream(PERSON, &answer("s1", "so", &asked)).await.unwrap();
    server.end_streams();
    let error = bot.end_stream(PERSON, &begun, &message("s1", "so far")).await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Refused, "then it is sent as a message: {error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_without_a_preview_is_a_reply_then_a_message() {
    let server = WecomServer::start();
    let bot = adapter(&server);
    let connected = Connected::start(&server, &bot);
    let asked = server.say(PERSON, "hello");
    connected.wait_for_events(1);
    bot.send(PERSON, &answer("m1", "one", &asked)).await.unwrap();
    bot.send(PERSON, &answer("m2", "two", &asked)).await.unwrap();
    let asked = server.say(PERSON, "more");
    connected.wait_for_events(2);
    server.fail_next(RESPOND, BotFault::Refuse(846_605, "invalid req_id".to_owned()));
    bot.send(PERSON, &answer("m3", "three", &asked)).await.unwrap();
    let ways: Vec<(String, BotWay)> =
        server.messages(PERSON).into_iter().map(|one| (one.text, one.way)).collect();
    let expected = [("one", BotWay::Stream), ("two", BotWay::Push), ("three", BotWay::Push)];
    assert_eq!(ways, expected.map(|(text, way)| (text.to_owned(), way)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_card_changes_right_after_a_press_and_not_else() {
    let server = WecomServer::start();
    let bot = adapter(&server);
    let connected = Connected::start(&server, &bot);
    let card = bot.send(PERSON, &question("c1", "really?")).await.unwrap();
    let decided = message("c1", "really?\nAllowed by Ada");
    let error = bot.edit(PERSON, &card, &decided).await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Refused);
    server.press("eve", &server.messages(PERSON)[0], "v:1");
    let events = connected.wait_for_events(1);
    let InboundKind::Press(press) = &events[0].kind else { panic!("{events:?}") };
    assert_eq!((&*events[0].sender.id, &*press.value), ("eve", "v:1"));
    assert_eq!(press.message_id, card.message_id);
    bot.edit(PERSON, &card, &decided).await.unwrap();
    let shown = server.messages(PERSON).remove(0);
    assert_eq!((shown.text.as_str(), shown.buttons.len()), ("Allowed by Ada\nreally?", 0));
    bot.answer_press(press, "Thank *you*").await.unwrap();
    assert_eq!(server.messages("eve")[0].text, "Thank \\*you\\*");
    // What does not fit on a card is read before it.
    bot.send(PERSON, &question("c2", &"long ".repeat(100))).await.unwrap();
    let messages = server.messages(PERSON);
    assert_eq!(messages.len(), 3);
    assert!(messages[1].text.len() > 400 && messages[1].buttons.is_empty());
    assert_eq!(messages[2].buttons.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_pictures_voices_and_quotes_are_read() {
    let server = WecomServer::start();
    let bot = adapter(&server);
    let connected = Connected::start(&server, &bot);
    server.say_in_group(PERSON, "wrGroup", "look here");
    let picture = server.add_file(b"pixels");
    let items = json!([
        {"msgtype": "text", "text": {"content": "two"}}, {"msgtype": "image", "image": picture},
    ]);
    let quote = json!({"msgtype": "text", "text": {"content": "before"}});
    server.push_message(
        PERSON,
        None,
        &json!({"msgtype": "mixed", "mixed": {"msg_item": items}, "quote": quote}),
    );
    server.push_message(PERSON, None, &json!({"msgtype": "voice", "voice": {"content": "spoken"}}));
    let events = connected.wait_for_events(3);
    let words = |index: usize| match &events[index].kind {
        InboundKind::Message(message) => message.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!((&*words(0).text, words(0).is_addressed), ("look here", true));
    assert_eq!((&*events[0].chat, words(0).is_direct), ("wrGroup", false));
    assert_eq!((&*words(1).text, words(1).quoted.as_deref()), ("two", Some("before")));
    assert_eq!(bot.fetch_file(&words(1).files[0], 100).await.unwrap(), b"pixels");
    assert_eq!(&*words(2).text, "spoken");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frame_without_an_answer_may_have_arrived() {
    let server = WecomServer::start();
    let bot = adapter(&server);
    server.fail_next(SEND, BotFault::Silence);
    let error = bot.send(PERSON, &message("m", "perhaps")).await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Unknown);
    bot.send(PERSON, &message("n", "surely")).await.unwrap();
    until("both are there", || server.messages(PERSON).len() == 2);
    assert_eq!(server.subscriptions(), 1, "over one connection");
}

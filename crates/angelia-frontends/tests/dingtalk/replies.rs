//! By which way messages go: the session webhook until shortly before its end, then the API. Tokens are
//! replaced, and cards are made once.

use std::time::Duration;

use angelia_core::ports::{
    Button, Channel as _, OutgoingMessage, SendErrorKind, SentMessage, StreamMeans,
};
use angelia_testkit::dingtalk_server::{DingTalkServer, MessageWay, RobotFault, TEMPLATE};

use super::{BY_SESSION, CHAT, Connected, GROUP, PERSON, TO_GROUP, TO_PERSON, adapter, message};

const TOKEN_PATH: &str = "/v1.0/oauth2/accessToken";

fn ways(server: &DingTalkServer, chat: &str) -> Vec<MessageWay> {
    server.messages(chat).into_iter().map(|message| message.way).collect()
}

/// D49.
#[tokio::test]
async fn d49_a_reply_falls_back_to_the_documented_call_before_the_webhook_ends_or_when_it_is_gone()
{
    let server = DingTalkServer::start();
    let robot = adapter(&server, None);
    let connected = Connected::start(&server, &robot).await;
    server.say(PERSON, "hello");
    server.say_in_group(PERSON, GROUP, "hello");
    connected.wait_for_events(2).await;
    robot.send(CHAT, &message("1", "by the webhook")).await.unwrap();
    robot.send(GROUP, &message("2", "by the webhook")).await.unwrap();
    assert!(server.calls(TO_PERSON).is_empty() && server.calls(TO_GROUP).is_empty());

    // By its code, although the request succeeds.
    server.close_sessions();
    robot.send(CHAT, &message("3", "the session is gone")).await.unwrap();
    robot.send(GROUP, &message("4", "the session is gone")).await.unwrap();
    let tries = server.calls(BY_SESSION).len();
    robot.send(CHAT, &message("5", "it is not tried again")).await.unwrap();
    assert_eq!(server.calls(BY_SESSION).len(), tries);

    // By the deadline: it still works, but it ends in less than five minutes.
    server.set_session_lifetime(Duration::from_secs(299));
    server.say(PERSON, "hello again");
    server.say_in_group(PERSON, GROUP, "hello again");
    connected.wait_for_events(4).await;
    robot.send(CHAT, &message("6", "in time")).await.unwrap();
    robot.send(GROUP, &message("7", "in time")).await.unwrap();
    assert_eq!(server.calls(BY_SESSION).len(), tries);
    let (webhook, api) = (MessageWay::SessionWebhook, MessageWay::Api);
    assert_eq!(ways(&server, CHAT), [webhook, api, api, api]);
    assert_eq!(ways(&server, GROUP), [webhook, api, api]);
    // The address of a session never gets credentials.
    for call in server.calls(BY_SESSION) {
        let headers = format!("{:?} {:?}", call.headers, call.query);
        assert!(!headers.contains("token") && !headers.contains("authorization"), "{headers}");
    }
    let person = server.calls(TO_PERSON).pop().unwrap().fields;
    assert_eq!((&person["userIds"][0], person.get("openConversationId")), (&PERSON.into(), None));
    let group = server.calls(TO_GROUP).pop().unwrap().fields;
    assert_eq!((&group["openConversationId"], group.get("userIds")), (&GROUP.into(), None));
}

#[tokio::test]
async fn a_webhook_is_known_after_a_restart() {
    let server = DingTalkServer::start();
    let robot = adapter(&server, None);
    let connected = Connected::start(&server, &robot).await;
    server.say(PERSON, "hello");
    connected.wait_for_events(1).await;
    let routes = connected.inbox.routes.lock().clone();
    assert_eq!(&*routes[0].0, CHAT);
    let next = adapter(&server, None);
    next.recall_routes(routes);
    next.send(CHAT, &message("1", "as before")).await.unwrap();
    assert_eq!(ways(&server, CHAT), [MessageWay::SessionWebhook]);
}

#[tokio::test]
async fn an_answer_of_the_webhook_that_is_lost_is_not_repeated_elsewhere() {
    let server = DingTalkServer::start();
    let robot = adapter(&server, None);
    let connected = Connected::start(&server, &robot).await;
    server.say(PERSON, "hello");
    connected.wait_for_events(1).await;
    server.fail_next(BY_SESSION, RobotFault::Cut);
    let error = robot.send(CHAT, &message("1", "perhaps")).await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Unknown, "{error}");
    server.fail_next(BY_SESSION, RobotFault::ErrorCode(130_101));
    let error = robot.send(CHAT, &message("2", "too fast")).await.unwrap_err();
    assert_eq!(
        (error.kind, error.retry_after),
        (SendErrorKind::NotSent, Some(Duration::from_mins(1)))
    );
    assert!(server.calls(TO_PERSON).is_empty());
}

#[tokio::test]
async fn a_webhook_that_is_not_encrypted_is_not_used() {
    let server = DingTalkServer::start();
    let robot = adapter(&server, None);
    let connected = Connected::start(&server, &robot).await;
    server.push_message(PERSON, None, &serde_json::json!({
        "msgtype": "text", "text": {"content": "hello"}, "sessionWebhook": "http://example.com/x",
    }));
    connected.wait_for_events(1).await;
    robot.send(CHAT, &message("1", "by the API")).await.unwrap();
    assert_eq!(ways(&server, CHAT), [MessageWay::Api]);
}

#[tokio::test]
async fn a_token_is_replaced_early_and_once_when_it_is_refused() {
    let server = DingTalkServer::start();
    let robot = adapter(&server, None);
    let send = |id: &'static str| {
        let robot = robot.clone();
        async move { robot.send(CHAT, &message(id, id)).await }
    };
    let (first, second, third) = tokio::join!(send("a"), send("b"), send("c"));
    assert!(first.is_ok() && second.is_ok() && third.is_ok());
    assert_eq!(server.calls(TOKEN_PATH).len(), 1, "one token for all");
    server.expire_tokens();
    send("d").await.unwrap();
    assert_eq!(server.calls(TOKEN_PATH).len(), 2);
    assert_eq!(server.messages(CHAT).len(), 4);
    // One that would end within five minutes is not used a second time.
    server.expire_tokens();
    server.set_token_lifetime(200);
    send("e").await.unwrap();
    send("f").await.unwrap();
    assert_eq!(server.calls(TOKEN_PATH).len(), 4);
    // A refusal that stays is told, not tried for ever.
    let refused = || RobotFault::Refuse(401, "InvalidAuthentication".into(), "no".into());
    server.fail_next(TO_PERSON, refused());
    server.fail_next(TO_PERSON, refused());
    let error = send("g").await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::NotSent, "{error}");
}

fn question(id: &str) -> OutgoingMessage {
    let button = |label: &str, value: &str, words: &str| Button {
        label: label.into(),
        value: value.into(),
        words: Some(words.into()),
    };
    let buttons = vec![button("Yes", "y", "/approve 1 & go"), button("No", "n", "/deny 1")];
    OutgoingMessage { buttons, ..message(id, "really *so*?") }
}

#[tokio::test]
async fn buttons_without_a_template_write_commands_by_both_ways() {
    let server = DingTalkServer::start();
    let robot = adapter(&server, None);
    assert_eq!(robot.stream_means(CHAT), StreamMeans::None);
    robot.send(CHAT, &question("1")).await.unwrap();
    let connected = Connected::start(&server, &robot).await;
    server.say(PERSON, "hello");
    connected.wait_for_events(1).await;
    let sent = robot.send(CHAT, &question("2")).await.unwrap();
    assert_eq!(ways(&server, CHAT), [MessageWay::Api, MessageWay::SessionWebhook]);
    for shown in server.messages(CHAT) {
        assert_eq!(shown.text, "really *so*?");
        let yes = "dtmd://dingtalkclient/sendMessage?content=%2Fapprove%201%20%26%20go";
        assert_eq!(shown.buttons[0], ("Yes".to_owned(), yes.to_owned()));
        assert_eq!(shown.buttons.len(), 2);
    }
    let error = robot.edit(CHAT, &sent, &message("2", "new")).await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Refused);
}

#[tokio::test]
async fn a_card_is_made_once_although_its_answer_is_lost() {
    let server = DingTalkServer::start();
    let robot = adapter(&server, Some(TEMPLATE));
    let create = "/v1.0/card/instances/createAndDeliver";
    server.fail_next(create, RobotFault::Cut);
    let sent = robot.send(GROUP, &question("1")).await.unwrap();
    let shown = server.messages(GROUP);
    assert_eq!((shown.len(), shown[0].way), (1, MessageWay::Card));
    let tracks: Vec<_> =
        server.calls(create).into_iter().map(|call| call.fields["outTrackId"].clone()).collect();
    assert!(tracks.len() == 2 && tracks[0] == tracks[1], "{tracks:?}");
    robot.edit(GROUP, &sent, &message("1", "decided")).await.unwrap();
    let shown = server.messages(GROUP);
    assert_eq!((shown[0].text.as_str(), shown[0].buttons.len()), ("decided", 0));
    // A template that is refused does not keep the question from being asked.
    let wrong = adapter(&server, Some("no-such-template"));
    wrong.send(CHAT, &question("2")).await.unwrap();
    assert_eq!(ways(&server, CHAT), [MessageWay::Api]);
}

#[tokio::test]
async fn an_answer_grows_on_a_card_and_its_end_may_come_again() {
    let server = DingTalkServer::start();
    let robot = adapter(&server, Some(TEMPLATE));
    let begun = robot.begin_stream(GROUP, &message("p", "so")).await.unwrap();
    assert_eq!(server.messages(GROUP)[0].status, "2");
    let early = robot.update_stream(GROUP, &begun, &message("p", "too early")).await.unwrap_err();
    assert_eq!(early.kind, SendErrorKind::NotSent);
    // Another process ends it.
    let next = adapter(&server, Some(TEMPLATE));
    server.fail_next("/v1.0/card/streaming", RobotFault::Cut);
    let error = next.end_stream(GROUP, &begun, &message("p", "so far")).await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Unknown);
    next.end_stream(GROUP, &begun, &message("p", "so far")).await.unwrap();
    next.end_stream(GROUP, &begun, &message("p", "so far")).await.unwrap();
    let shown = server.messages(GROUP);
    assert_eq!((shown.len(), shown[0].text.as_str(), shown[0].status.as_str()), (1, "so far", "3"));
    let gone = SentMessage { message_id: Some("cid.0123456789abcdef".into()) };
    let error = next.end_stream(GROUP, &gone, &message("q", "x")).await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Refused, "it is sent as a new message");
}

#[tokio::test]
async fn an_address_that_names_nobody_is_refused() {
    let server = DingTalkServer::start();
    let robot = adapter(&server, None);
    let error = robot.send("user:", &message("1", "x")).await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Refused);
    let denied = RobotFault::Refuse(
        403,
        "Forbidden.AccessDenied.AccessTokenPermissionDenied".into(),
        "no".into(),
    );
    server.fail_next(TO_GROUP, denied);
    let error = robot.send(GROUP, &message("2", "x")).await.unwrap_err();
    assert!(
        error.kind == SendErrorKind::Refused && error.message.contains("permission"),
        "{error}"
    );
}

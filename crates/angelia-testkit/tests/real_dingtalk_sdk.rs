//! The fake server of DingTalk, driven by dingtalk-stream: the fake is right before our adapter meets it.

use angelia_testkit::{
    dingtalk_server::{CLIENT_ID, CLIENT_SECRET, DingTalkServer, MessageWay, StreamLog, TEMPLATE},
    python_client::PythonClient,
};
use serde_json::json;

#[test]
fn real_dingtalk_stream_works_on_the_fake() {
    let server = DingTalkServer::start();
    let variables = [
        ("DINGTALK_URL", server.base_url()),
        ("DINGTALK_CLIENT_ID", CLIENT_ID),
        ("DINGTALK_CLIENT_SECRET", CLIENT_SECRET),
        ("DINGTALK_TEMPLATE", TEMPLATE),
    ];
    let client = PythonClient::start("dingtalk", "dingtalk_bot.py", variables);
    client.until("it connects", || server.connections() == 1);
    server.ping();
    let is_ping_answer =
        |answer: &serde_json::Value| answer["data"].as_str().unwrap_or_default().contains("opaque");
    client.until("it answers a ping with its data", || {
        server.acknowledgements().iter().any(is_ping_answer)
    });
    server.say("ada", "hello");
    client.until("it answers", || server.messages("user:ada").len() == 2);
    let answers = server.messages("user:ada");
    assert_eq!(answers[0].text, "got <hello>");
    assert_eq!(
        (answers[1].text.as_str(), answers[1].way),
        ("bold code *", MessageWay::SessionWebhook)
    );
    client.until("it acknowledges", || server.is_all_acknowledged());
    let answer = server.acknowledgements().pop().unwrap();
    assert_eq!(
        (&answer["code"], answer["data"].as_str()),
        (&json!(200), Some(r#"{"response": "OK"}"#))
    );

    server.push_message(
        "ada",
        None,
        &json!({
            "msgtype": "text", "text": {"content": "closed"},
            "sessionWebhook": format!("{}/robot/sendBySession?session=over", server.base_url()),
        }),
    );
    client.until("the end of a session is told", || server.is_all_acknowledged());

    server.say("ada", "card");
    let card = || server.messages("user:ada").into_iter().find(|one| one.way == MessageWay::Card);
    client.until("the card is complete", || card().is_some_and(|card| card.status == "3"));
    let card = card().unwrap();
    assert_eq!((card.text.as_str(), card.buttons.len()), ("so far, so good", 1));
    server.press("ada", &card.id, &card.buttons[0].1);
    client.until("the press is acknowledged", || server.is_all_acknowledged());
    let answer = server.acknowledgements().pop().unwrap();
    assert!(answer["data"].as_str().unwrap().contains("cardParamMap"), "{answer}");

    server.add_file("P1", b"some notes");
    let picture = json!({"msgtype": "picture", "content": {"downloadCode": "P1"}});
    server.push_message("ada", None, &picture);
    client.until("the picture is fetched", || server.is_all_acknowledged());
    server.say_in_group("ada", "cidGroup==", "in a group");
    client.until("the group gets its card", || server.messages("cidGroup==").len() == 1);

    // It is told to leave, and comes back with another ticket.
    server.disconnect();
    client.until("it comes back", || {
        let opened = |one: &&StreamLog| matches!(one, StreamLog::Opened(_));
        server.log().iter().filter(opened).count() == 2
    });
    server.expire_tokens();
    server.say("ada", "again");
    client.finish();
}

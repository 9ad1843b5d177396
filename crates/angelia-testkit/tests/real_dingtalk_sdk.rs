//! The fake server of DingTalk, driven by dingtalk-stream: the fake is right before our adapter meets it.

#![expect(clippy::disallowed_methods, reason = "the library runs in a program of its own")]

use std::{
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use angelia_testkit::{
    dingtalk_server::{CLIENT_ID, CLIENT_SECRET, DingTalkServer, MessageWay, StreamLog, TEMPLATE},
    programs::workspace_root,
};
use serde_json::json;

fn until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn real_dingtalk_stream_works_on_the_fake() {
    let python = workspace_root().join("target/python/dingtalk/bin/python");
    assert!(python.exists(), "run `cargo xtask setup` first");
    let server = DingTalkServer::start();
    let child = Command::new(python)
        .arg(workspace_root().join("tests/clients/dingtalk_bot.py"))
        .env_clear()
        .env("DINGTALK_URL", server.base_url())
        .env("DINGTALK_CLIENT_ID", CLIENT_ID)
        .env("DINGTALK_CLIENT_SECRET", CLIENT_SECRET)
        .env("DINGTALK_TEMPLATE", TEMPLATE)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let wait_for = |what: &str, condition: &dyn Fn() -> bool| until(what, condition);
    wait_for("it connects", &|| server.connections() == 1);
    server.ping();
    let is_ping_answer =
        |answer: &serde_json::Value| answer["data"].as_str().unwrap_or_default().contains("opaque");
    wait_for("it answers a ping with its data", &|| {
        server.acknowledgements().iter().any(is_ping_answer)
    });
    server.say("ada", "hello");
    wait_for("it answers", &|| server.messages("user:ada").len() == 2);
    let answers = server.messages("user:ada");
    assert_eq!(answers[0].text, "got <hello>");
    assert_eq!(
        (answers[1].text.as_str(), answers[1].way),
        ("bold code *", MessageWay::SessionWebhook)
    );
    wait_for("it acknowledges", &|| server.is_all_acknowledged());
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
    wait_for("the end of a session is told", &|| server.is_all_acknowledged());

    server.say("ada", "card");
    let card = || server.messages("user:ada").into_iter().find(|one| one.way == MessageWay::Card);
    wait_for("the card is complete", &|| card().is_some_and(|card| card.status == "3"));
    let card = card().unwrap();
    assert_eq!((card.text.as_str(), card.buttons.len()), ("so far, so good", 1));
    server.press("ada", &card.id, &card.buttons[0].1);
    wait_for("the press is acknowledged", &|| server.is_all_acknowledged());
    let answer = server.acknowledgements().pop().unwrap();
    assert!(answer["data"].as_str().unwrap().contains("cardParamMap"), "{answer}");

    server.add_file("P1", b"some notes");
    let picture = json!({"msgtype": "picture", "content": {"downloadCode": "P1"}});
    server.push_message("ada", None, &picture);
    wait_for("the picture is fetched", &|| server.is_all_acknowledged());
    server.say_in_group("ada", "cidGroup==", "in a group");
    wait_for("the group gets its card", &|| server.messages("cidGroup==").len() == 1);

    // It is told to leave, and comes back with another ticket.
    server.disconnect();
    wait_for("it comes back", &|| {
        let opened = |one: &&StreamLog| matches!(one, StreamLog::Opened(_));
        server.log().iter().filter(opened).count() == 2
    });
    server.expire_tokens();
    server.say("ada", "again");
    let ended = child.wait_with_output().unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success() && out.contains("all right"), "{out}{err}");
}

//! The fake server of WeCom, driven by its official library for Node.js: the fake is right before our adapter meets it.

#![expect(clippy::disallowed_methods, reason = "the library runs in a program of its own")]

use std::{
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use angelia_testkit::{
    programs::workspace_root,
    wecom_server::{BOT_ID, BotWay, SECRET, WecomServer},
};

fn until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn real_wecom_library_works_on_the_fake() {
    let modules = workspace_root().join("target/npm/wecom/node_modules");
    assert!(modules.join("@wecom/aibot-node-sdk").exists(), "run `cargo xtask setup` first");
    let server = WecomServer::start();
    server.block("blocked");
    let child = Command::new("node")
        .arg(workspace_root().join("tests/clients/wecom_bot.mjs"))
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("WECOM_MODULES", modules)
        .env("WECOM_URL", server.base_url().replacen("http", "ws", 1))
        .env("WECOM_BOT", BOT_ID)
        .env("WECOM_SECRET", SECRET)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("it connects", || server.is_connected());
    until("it says that it lives", || server.calls("ping").len() > 2);
    server.push_raw("{\"cmd\": \"aibot_msg_callback\", \"he\u{1}aders\": 7}");
    server.say("ada", "hello");
    until("it answers with a stream and a card", || server.messages("ada").len() == 2);
    let messages = server.messages("ada");
    assert_eq!((messages[0].text.as_str(), messages[0].way), ("got hello", BotWay::Stream));
    assert!(!messages[0].is_open);
    assert_eq!(messages[1].buttons, [("Yes".to_owned(), "y".to_owned())]);
    server.press("ada", &messages[1], "y");
    until("it decides", || server.messages("ada")[1].text == "decided");
    server.send_file("ada", b"some notes");
    until("it sends a file and a message", || server.messages("ada").len() == 4);
    let messages = server.messages("ada");
    let (name, bytes) = messages[2].file.clone().unwrap();
    assert_eq!((name.as_str(), bytes.len()), ("back.txt", 600 * 1024 + 10));
    assert!(bytes.starts_with(b"some notesxx"));
    assert_eq!(messages[3].text, "**sent**");
    until("the refusal arrives", || server.calls("aibot_send_msg").len() >= 4);
    server.displace();
    let ended = child.wait_with_output().unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success() && out.contains("all right"), "{out}{err}");
}

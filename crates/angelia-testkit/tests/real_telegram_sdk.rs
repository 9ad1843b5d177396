//! The fake server of the Bot API, driven by python-telegram-bot: the fake is right before our adapter
//! meets it.

#![expect(clippy::disallowed_methods, reason = "the library runs in a program of its own")]

use std::{
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use angelia_testkit::{
    programs::workspace_root,
    telegram_server::{BotFault, TOKEN, TelegramServer},
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
fn real_python_telegram_bot_works_on_the_fake() {
    let python = workspace_root().join("target/python/telegram/bin/python");
    assert!(python.exists(), "run `cargo xtask setup` first");
    let server = TelegramServer::start();
    server.block(8);
    server.fail_text("limited", BotFault::TooMany(3));
    server.add_file("F1", b"some notes");
    let child = Command::new(python)
        .arg(workspace_root().join("tests/clients/telegram_bot.py"))
        .env_clear()
        .env("TELEGRAM_URL", server.base_url())
        .env("TELEGRAM_TOKEN", TOKEN)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("it polls", || !server.calls("getUpdates").is_empty());
    server.say(7, "hello");
    until("it answers", || server.messages(7).len() == 1);
    server.push(json!({"message": {
        "message_id": 50, "date": 1_700_000_000,
        "from": {"id": 7, "is_bot": false, "first_name": "Ada"},
        "chat": {"id": 7, "type": "private"},
        "document": {"file_id": "F1", "file_unique_id": "u", "file_name": "notes.txt"},
    }}));
    until("it sends the file back", || server.messages(7).len() == 2);
    let back = server.messages(7)[1].file.clone().unwrap();
    assert_eq!(back, ("back.txt".to_owned(), b"some notes".to_vec()));
    let asked = server.messages(7)[0].clone();
    assert_eq!(asked.text, "got hello");
    server.press(7, &asked, "Yes");
    until("it decides", || server.messages(7)[0].text == "decided");
    let ended = child.wait_with_output().unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success() && out.contains("all right"), "{out}{err}");
    assert_eq!(server.calls("answerCallbackQuery").len(), 1);
    let edits = server.calls("editMessageText").len();
    assert!(edits >= 3, "{edits}");
}

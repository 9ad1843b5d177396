//! The fake server of Slack, driven by Bolt and Slack's SDK: the fake is right before our adapter meets it.

#![expect(clippy::disallowed_methods, reason = "the library runs in a program of its own")]

use std::{
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use angelia_testkit::{
    programs::workspace_root,
    slack_server::{APP_TOKEN, BOT_TOKEN, BOT_USER, SlackFault, SlackServer},
};

const PERSON: &str = "U7";

fn until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn real_slack_bolt_works_on_the_fake() {
    let python = workspace_root().join("target/python/slack/bin/python");
    assert!(python.exists(), "run `cargo xtask setup` first");
    let server = SlackServer::start();
    server.archive("C9");
    server.fail_text("limited", SlackFault::TooMany(3));
    let child = Command::new(python)
        .arg(workspace_root().join("tests/clients/slack_app.py"))
        .env_clear()
        .env("SLACK_URL", server.base_url())
        .env("SLACK_BOT_TOKEN", BOT_TOKEN)
        .env("SLACK_APP_TOKEN", APP_TOKEN)
        .env("SLACK_FILE", server.add_file("known.txt", b"known"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let direct = SlackServer::direct_channel(PERSON);
    until("it connects", || server.open_sockets() == 1);
    let ts = server.say(PERSON, "hello");
    until("it answers", || server.messages(&direct).len() == 1);
    server.edit(PERSON, &ts, "hello", "hello all");
    until("it acknowledges the edit", || server.is_acknowledged());
    server.delete(PERSON, &ts);
    until("it acknowledges the deletion", || server.is_acknowledged());
    server.send_file(PERSON, "notes.txt", b"some notes", true);
    until("it sends the file back", || server.messages(&direct).len() == 2);
    let back = server.messages(&direct)[1].file.clone().unwrap();
    assert_eq!(back, ("back.txt".to_owned(), b"some notes".to_vec()));
    let opened = server.write_in_channel(PERSON, "C1", None, &format!("<@{BOT_USER}> stream"));
    until("the stream has ended", || {
        let streams = server.messages("C1");
        streams.len() == 1 && streams[0].text == "bold words" && !streams[0].is_streaming
    });
    let stream = server.messages("C1").remove(0);
    assert_eq!(stream.thread.as_deref(), Some(&*opened));
    assert_eq!(stream.tasks["t"], ("Bash ls".to_owned(), "in_progress".to_owned()));
    until("it acknowledges the mention", || server.is_acknowledged());
    server.command(PERSON, &direct, "/stop", "");
    until("it acknowledges the command", || server.is_acknowledged());
    // The library opens the next socket before it leaves the old one.
    server.disconnect("refresh_requested");
    until("it has changed the socket", || {
        server.sockets_opened() == 2 && server.open_sockets() == 1
    });
    assert_eq!(server.most_sockets(), 2);
    server.say(PERSON, "after the change");
    until("it answers again", || server.messages(&direct).len() == 3);
    let asked = server.messages(&direct)[0].clone();
    assert_eq!(asked.text, "got hello");
    server.press(PERSON, &asked, "Yes");
    let ended = child.wait_with_output().unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success() && out.contains("all right"), "{out}{err}");
    let decided = server.messages(&direct)[0].clone();
    assert_eq!((&*decided.text, decided.buttons.len(), decided.edits), ("decided", 0, 1));
    assert_eq!(server.calls("chat.postEphemeral").len(), 1);
}

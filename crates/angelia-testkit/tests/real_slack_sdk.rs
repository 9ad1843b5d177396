//! The fake server of Slack, driven by Bolt and Slack's SDK: the fake is right before our adapter meets it.

use angelia_testkit::{
    python_client::PythonClient,
    slack_server::{APP_TOKEN, BOT_TOKEN, BOT_USER, SlackFault, SlackServer},
};

const PERSON: &str = "U7";

#[test]
fn real_slack_bolt_works_on_the_fake() {
    let server = SlackServer::start();
    server.archive("C9");
    server.fail_text("limited", SlackFault::TooMany(3));
    let (url, file) = (server.base_url(), server.add_file("known.txt", b"known"));
    let variables = [
        ("SLACK_URL", &*url),
        ("SLACK_BOT_TOKEN", BOT_TOKEN),
        ("SLACK_APP_TOKEN", APP_TOKEN),
        ("SLACK_FILE", &*file),
    ];
    let client = PythonClient::start("slack", "slack_app.py", variables);
    let direct = SlackServer::direct_channel(PERSON);
    client.until("it connects", || server.open_sockets() == 1);
    let ts = server.say(PERSON, "hello");
    client.until("it answers", || server.messages(&direct).len() == 1);
    server.edit(PERSON, &ts, "hello", "hello all");
    client.until("it acknowledges the edit", || server.is_acknowledged());
    server.delete(PERSON, &ts);
    client.until("it acknowledges the deletion", || server.is_acknowledged());
    server.send_file(PERSON, "notes.txt", b"some notes", true);
    client.until("it sends the file back", || server.messages(&direct).len() == 2);
    let back = server.messages(&direct)[1].file.clone().unwrap();
    assert_eq!(back, ("back.txt".to_owned(), b"some notes".to_vec()));
    let opened = server.write_in_channel(PERSON, "C1", None, &format!("<@{BOT_USER}> stream"));
    client.until("the stream has ended", || {
        let streams = server.messages("C1");
        streams.len() == 1 && streams[0].text == "bold words" && !streams[0].is_streaming
    });
    let stream = server.messages("C1").remove(0);
    assert_eq!(stream.thread.as_deref(), Some(&*opened));
    assert_eq!(stream.tasks["t"], ("Bash ls".to_owned(), "in_progress".to_owned()));
    client.until("it acknowledges the mention", || server.is_acknowledged());
    server.command(PERSON, &direct, "/stop", "");
    client.until("it acknowledges the command", || server.is_acknowledged());
    // The library opens the next socket before it leaves the old one.
    server.disconnect("refresh_requested");
    client.until("it has changed the socket", || {
        server.sockets_opened() == 2 && server.open_sockets() == 1
    });
    assert_eq!(server.most_sockets(), 2);
    server.say(PERSON, "after the change");
    client.until("it answers again", || server.messages(&direct).len() == 3);
    let asked = server.messages(&direct)[0].clone();
    assert_eq!(asked.text, "got hello");
    server.press(PERSON, &asked, "Yes");
    client.finish();
    let decided = server.messages(&direct)[0].clone();
    assert_eq!((&*decided.text, decided.buttons.len(), decided.edits), ("decided", 0, 1));
    assert_eq!(server.calls("chat.postEphemeral").len(), 1);
}

//! The fake server of Mattermost, driven by mattermostdriver: the fake is right before our adapter meets it.

use angelia_testkit::{
    mattermost_server::{MattermostServer, TOKEN},
    python_client::PythonClient,
};
use serde_json::json;

#[test]
fn real_mattermostdriver_works_on_the_fake() {
    let server = MattermostServer::start();
    let channel = server.direct_channel("ada");
    let variables = [("MATTERMOST_URL", server.base_url()), ("MATTERMOST_TOKEN", TOKEN)];
    let client = PythonClient::start("mattermost", "mattermost_bot.py", variables);
    client.until("it is greeted", || server.ready_sockets() == 1);
    let hello = server.say("ada", "hello");
    client.until("it answers and edits", || !server.calls("POST typing").is_empty());
    let answer = server.messages(&channel).remove(0);
    assert_eq!((answer.text.as_str(), answer.edits), ("edited", 1));
    assert_eq!((answer.root.as_str(), answer.reactions.len()), (hello.as_str(), 2));
    let file = server.add_file("notes.txt", b"some notes");
    server.say_in(&channel, "ada", &json!({"message": "", "file_ids": [file]}));
    client.until("it sends a file back", || server.messages(&channel).len() == 2);
    let (name, bytes) = server.messages(&channel)[1].file.clone().unwrap();
    assert_eq!((name.as_str(), bytes.as_slice()), ("back.txt", &b"some notes"[..]));
    server.react("ada", &answer.id, "one");
    server.edit(&hello, "hello, changed");
    server.delete(&hello);
    // The library connects again by itself.
    server.cut_sockets();
    client.until("it is greeted again", || server.ready_sockets() == 1);
    server.say("ada", "end");
    let out = client.finish();
    for word in
        ["'hello'", "'notes.txt'", "reaction one", "post_edited hello, changed", "post_deleted"]
    {
        assert!(out.contains(word), "{word}: {out}");
    }
    assert_eq!(out.matches("greeted").count(), 2, "{out}");
}

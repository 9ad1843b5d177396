//! The fake homeserver, driven by matrix-nio: the fake is right before our adapter meets it.

use angelia_testkit::{
    matrix_server::{BOT, MatrixFault, MatrixServer, TOKEN},
    python_client::PythonClient,
};
use serde_json::json;

#[test]
fn real_matrix_nio_works_on_the_fake() {
    let server = MatrixServer::start();
    let room = server.direct_room("ada");
    server.say("ada", "before the first poll");
    let variables =
        [("MATRIX_URL", server.base_url()), ("MATRIX_TOKEN", TOKEN), ("MATRIX_USER", BOT)];
    let client = PythonClient::start("matrix", "matrix_bot.py", variables);
    client.until("it polls", || server.calls("GET sync").len() == 1);
    let hello = server.say("ada", "hello");
    client.until("it answers and edits", || {
        server.messages(&room).first().is_some_and(|one| one.text == "edited")
    });
    let answer = server.messages(&room).remove(0);
    assert_eq!((answer.reply_to.as_deref(), answer.edits), (Some(hello.as_str()), 1));
    assert_eq!(answer.reactions, ["1\u{fe0f}\u{20e3}"]);
    assert_eq!(server.first_version(&room, &answer.id).unwrap().text, "got hello");
    assert_eq!(server.calls("PUT typing").len(), 1);

    let url = server.add_media("notes", "text/plain", b"some notes");
    let file = json!({"msgtype": "m.file", "body": "notes.txt", "url": url});
    server.say_in(&room, "ada", file);
    client.until("it sends a file back", || server.messages(&room).len() == 2);
    let (name, _) = server.messages(&room)[1].file.clone().unwrap();
    assert_eq!(name, "back.txt");
    server.react(&room, "ada", &answer.id, "yes");
    server.redact(&room, "ada", &hello);

    // An invitation, and a room that is encrypted.
    let other = server.invite("other", "ada");
    client.until("it joins", || {
        server
            .events(&other)
            .iter()
            .any(|event| event["state_key"] == BOT && event["content"]["membership"] == "join")
    });
    server.encrypt(&other, "ada");
    let secret = json!({
        "algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "abc", "session_id": "s",
        "device_id": "D", "sender_key": "k",
    });
    server.push(&other, "ada", "m.room.encrypted", secret);
    // Many events at once, and a broken poll.
    server.fail_next("GET sync", MatrixFault::TooMany(50));
    for number in 0..15 {
        server.say("ada", &format!("number {number}"));
    }
    server.fail_next("PUT send", MatrixFault::TooMany(700));
    server.say("ada", "end");
    let out = client.finish();
    for word in ["'hello'", "'notes.txt'", "yes on", "redacted", "'encrypted'", "'number 14'"] {
        assert!(out.contains(word), "{word}: {out}");
    }
    assert!(!out.contains("before the first poll"), "{out}");
    assert!(out.trim_end().contains("2\nall right"), "both rooms are joined: {out}");
}

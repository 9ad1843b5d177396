//! `notify-hermes`: the message it sends, its output and its exit code.

use serde_json::json;

use super::{
    fake_bus::FakeBus,
    notify_fixture::{NotifyFixture, text},
};

const ACCEPTED: &str = r#"{"type": "accepted", "id": "ID"}"#;
const DELIVERED: &str = r#"{"type": "delivered", "id": "ID"}"#;

#[test]
fn it_says_what_became_of_the_message() {
    let table = [
        (vec![ACCEPTED, DELIVERED], "OK: notified coder: delivered\n"),
        (
            vec![r#"{"type": "accepted", "id": "ID", "queued": true}"#],
            "OK: notified coder: queued\n",
        ),
        (vec![ACCEPTED], "OK: notified coder: queued\n"),
        (
            vec![r#"{"type": "accepted", "id": "ID", "queued": true, "seen": false}"#],
            "OK: notified coder: queued: never seen\n",
        ),
    ];
    for (answers, expected) in table {
        let place = NotifyFixture::new();
        let bus = FakeBus::new(&place, ".hermes/hermes-bus.sock", vec![answers]);
        let output = place.run("notify-hermes", &["--to", "coder", "hello there"]);
        assert_eq!(text(&output.stdout), expected, "{output:?}");
        assert_eq!(output.status.code(), Some(0));
        let message = bus.next_message();
        assert_eq!(message["body"], json!({"text": "hello there"}));
        assert_eq!(message["from"], "notify-hermes");
        assert_eq!((&message["type"], &message["to"]), (&json!("message"), &json!("coder")));
        assert!(message["ts"].as_f64().unwrap() > 1.7e9);
        assert_eq!(message.get("ack"), None, "the receiver would get it");
    }
}

#[test]
fn a_dash_is_the_text_of_standard_input() {
    let place = NotifyFixture::new();
    let bus = FakeBus::new(&place, "b.sock", vec![vec![ACCEPTED, DELIVERED]]);
    let input = place.write("input", "two\nlines\n");
    let send = |input| {
        let mut command = place.command("notify-hermes");
        command.args(["--to", "coder", "--socket"]).arg(&bus.socket).arg("-");
        command.stdin(std::fs::File::open(input).unwrap()).output().unwrap()
    };
    let output = send(&input);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(bus.next_message()["body"], json!({"text": "two\nlines"}));
    std::fs::write(&input, b"\xff").unwrap();
    let output = send(&input);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stderr).contains("standard input is not UTF-8"), "{output:?}");
}

#[test]
fn a_refusal_is_a_failure_with_its_reason() {
    let place = NotifyFixture::new();
    let answers = vec![
        vec![r#"{"type": "rejected", "id": "ID", "reason": "full", "detail": "no room"}"#],
        vec![r#"{"type": "error", "code": "endpoint_not_found", "id": "ID", "detail": "who?"}"#],
        vec![],
    ];
    let bus = FakeBus::new(&place, "b.sock", answers);
    let socket = bus.socket.to_str().unwrap();
    for why in ["no room", "who?"] {
        let output = place.run("notify-hermes", &["--to", "coder", "x", "--socket", socket]);
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains(why), "{output:?}");
        bus.next_message();
    }
    let nowhere = place.path("nowhere.sock");
    let nowhere = nowhere.to_str().unwrap();
    let output = place.run("notify-hermes", &["--to", "coder", "x", "--socket", nowhere]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("cannot be reached"), "{output:?}");
}

#[test]
fn arguments_that_make_no_message() {
    let place = NotifyFixture::new();
    let table: [(&[&str], i32, &str); 6] = [
        (&["--to", "a", "--body", "{"], 1, "--body is not JSON"),
        (&["--to", "a"], 1, "nothing to send"),
        (&["--to", "a", "--body", "[]", "--type", "t"], 1, "object"),
        (&["--to", "a", "x", "--body", "{}"], 2, "cannot be used with"),
        (&["x"], 2, "--to"),
        (&["--to", "a", "x", "--config", "missing.yaml"], 1, "missing.yaml"),
    ];
    for (args, code, why) in table {
        let output = place.run("notify-hermes", args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {output:?}");
        assert!(text(&output.stderr).contains(why), "{args:?}: {output:?}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn names_go_through_the_role_map() {
    let place = NotifyFixture::new();
    let answers = vec![vec![ACCEPTED, DELIVERED]; 4];
    let bus = FakeBus::new(&place, ".hermes/hermes-bus.sock", answers);
    place.write(".hermes/bus-rules.yaml", "role_map:\n  be: {name: Backend}\n");
    let other = place.write("other.yaml", "role_map: {be: {name: Other}}\n");
    let send = |more: &[&str]| {
        let args: Vec<&str> = ["--to", "coder", "x"].iter().chain(more).copied().collect();
        let output = place.run("notify-hermes", &args);
        assert!(output.status.success(), "{output:?}");
        bus.next_message()["from"].as_str().unwrap().to_owned()
    };
    assert_eq!(send(&["--from", "be"]), "Backend");
    assert_eq!(send(&["--from", "Backend"]), "Backend");
    assert_eq!(send(&["--from", "be", "--config", other.to_str().unwrap()]), "Other");
    // A broken file loses the names, but not the message.
    place.write(".angelia/bus-rules.yaml", "- a list\n");
    assert_eq!(send(&["--from", "be"]), "be");
}

#[test]
fn angelia_notify_is_the_same() {
    let place = NotifyFixture::new();
    let bus = FakeBus::new(&place, "root/hermes-bus.sock", vec![vec![ACCEPTED, DELIVERED]]);
    let output = place
        .command(env!("CARGO_BIN_EXE_angelia"))
        .args(["notify", "--to", "coder", "--type", "t", "--channel", "c:1:2", "--", "-x"])
        .env("HERMES_BUS_ROOT", place.path("root"))
        .output()
        .unwrap();
    assert_eq!(text(&output.stdout), "OK: notified coder: delivered\n", "{output:?}");
    assert_eq!(bus.next_message()["body"], json!({"text": "-x", "type": "t", "channel": "c:1:2"}));
}

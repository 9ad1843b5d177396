//! Any invalid input of a host gives a clear error, and the bridge continues.

use serde_json::{Value, json};

use crate::{
    host::{Host, assert_final, response, run_request},
    machine::Machine,
};

/// Writes a line and returns the error it causes.
#[track_caller]
fn error(host: &mut Host, line: &[u8]) -> Value {
    host.write(line);
    host.write(b"\n");
    let event = host.next();
    assert_eq!(event["type"], "error", "{event}");
    assert!(!event["message"].as_str().unwrap().is_empty());
    event
}

/// The input, the code of its error, and the id of the request it belongs to.
const BAD: &[(&str, &str, Option<&str>)] = &[
    ("nonsense", "bad_json", None),
    ("[]", "bad_json", None),
    ("42", "bad_json", None),
    (r#""run""#, "bad_json", None),
    ("{}", "missing_field", None),
    (r#"{"request_id":"r"}"#, "missing_field", Some("r")),
    (r#"{"type":"dance","request_id":"r"}"#, "unknown_type", Some("r")),
    (r#"{"type":7,"request_id":"r"}"#, "bad_field", Some("r")),
    (r#"{"type":"run","request_id":"r"}"#, "missing_field", Some("r")),
    (r#"{"type":"run","request_id":"r","message":"m"}"#, "missing_field", Some("r")),
    (r#"{"type":"run","session_id":"s","message":"m"}"#, "missing_field", None),
    (r#"{"type":"run","request_id":"r","session_id":"s"}"#, "missing_field", Some("r")),
    (
        r#"{"type":"run","request_id":"r","session_id":"s","message":null}"#,
        "missing_field",
        Some("r"),
    ),
    (r#"{"type":"run","request_id":"r","session_id":"s","message":1}"#, "bad_field", Some("r")),
    (r#"{"type":"run","request_id":"r","session_id":"s","message":" \n"}"#, "bad_field", Some("r")),
    (r#"{"type":"run","request_id":"r","session_id":"","message":"m"}"#, "bad_field", Some("r")),
    (r#"{"type":"run","request_id":7,"session_id":"s","message":"m"}"#, "bad_field", Some("7")),
    (
        r#"{"type":"run","request_id":"r","session_id":"s","message":"m","assistant_delta":1}"#,
        "bad_field",
        Some("r"),
    ),
    (
        r#"{"type":"run","request_id":"r","session_id":"s","message":"m","cwd":7}"#,
        "bad_field",
        Some("r"),
    ),
    (r#"{"type":"interrupt","request_id":"r"}"#, "missing_field", Some("r")),
    (r#"{"type":"approve","request_id":"r"}"#, "missing_field", Some("r")),
    (
        r#"{"type":"approve","request_id":"r","approval_id":"x","verdict":"once"}"#,
        "bad_field",
        Some("r"),
    ),
    (
        r#"{"request_id":"r","type":"approve","verdict":"maybe","approval_id":"01890000-0000-7000-8000-000000000000"}"#,
        "bad_field",
        Some("r"),
    ),
    // The error carries as much of the request as could be parsed.
    (r#"{"type":"run","request_id":"r","message":"half"#, "bad_json", Some("r")),
    (r#"{"request_id":"r","type":"ping"} {"type":"ping"}"#, "bad_json", Some("r")),
];

#[test]
fn b16_a_bad_request_is_an_error_with_its_id_and_the_process_goes_on() {
    let machine = Machine::new();
    let mut host = Host::start(&machine, &[]);
    for &(line, code, request_id) in BAD {
        let event = error(&mut host, line.as_bytes());
        assert_eq!(event["code"], code, "{line}: {event}");
        assert_eq!(event.get("request_id").and_then(Value::as_str), request_id, "{line}: {event}");
    }
    assert_final(&host.run("r", "s", "still there"), "completed");
    host.shut_down();
}

#[test]
fn b16_a_session_id_is_told_too_where_it_can_be() {
    let machine = Machine::new();
    let mut host = Host::start(&machine, &[]);
    let event = error(&mut host, br#"{"type":"run","session_id":"s","request_id":"r"}"#);
    assert_eq!(event["session_id"], "s");
    let unknown = host.run_with("r", "s", "hello", json!({"profile": "nobody"}));
    let event = unknown.last().unwrap();
    assert_eq!(event["code"], "invalid", "{event}");
    assert_eq!(event["session_id"], "s");
    assert!(event["message"].as_str().unwrap().contains("default"), "{event}");
    host.shut_down();
}

#[test]
fn b17_every_text_comes_back_as_it_was() {
    let machine = Machine::new();
    let mut host = Host::start(&machine, &["--assistant-delta"]);
    let odd = "tab\t nul\u{0} bell\u{7} line\u{2028}break\u{2029} \u{feff}bom \\ \" </script> é e\u{301} \
        \u{1f600} \u{10ffff}";
    let events = host.run("r\u{0}\n", "s \u{2028}\u{1f600}", odd);
    assert_eq!(events[0]["request_id"], "r\u{0}\n");
    assert_eq!(events[0]["session_id"], "s \u{2028}\u{1f600}");
    let end = assert_final(&events, "completed");
    assert_eq!(end["messages"][0]["content"], odd);
    assert!(response(&events).contains("bell\u{7} line\u{2028}break"), "{end}");
    host.shut_down();
}

#[test]
fn bytes_that_are_no_text_are_an_error() {
    let machine = Machine::new();
    let mut host = Host::start(&machine, &[]);
    let event = error(&mut host, b"\xff\xfe\x00");
    assert_eq!(event["code"], "invalid_utf8");
    let line =
        b"{\"type\":\"run\",\"request_id\":\"r\",\"session_id\":\"s\",\"message\":\"\xc3\x28\"}";
    let event = error(&mut host, line);
    assert_eq!(event["code"], "invalid_utf8");
    assert_eq!(event["request_id"], "r");
    assert_final(&host.run("r", "s", "hello"), "completed");
    host.shut_down();
}

#[test]
fn a_line_may_come_in_halves_but_not_end_in_one() {
    let machine = Machine::new();
    let mut host = Host::start(&machine, &[]);
    let line = format!("{}\n", run_request("r", "s", "in pieces ✂"));
    for piece in line.as_bytes().chunks(7) {
        host.write(piece);
    }
    assert_final(&host.read_until_type("final"), "completed");
    host.write(br#"{"type":"run","request_id":"cut","session_id":"s","mess"#);
    host.close_stdin();
    let end = host.wait_for_exit();
    assert_eq!(end.code, Some(0));
    assert_eq!(end.events.len(), 1, "{end:?}");
    assert_eq!(end.events[0]["code"], "incomplete_line");
    assert_eq!(end.events[0]["request_id"], "cut");
    // A complete request without the final newline counts as a request.
    let ran = machine.angelia_with_input(&["bridge"], br#"{"type":"ping","request_id":"p"}"#);
    ran.assert_code(0);
    assert_eq!(ran.stdout, "{\"type\":\"pong\",\"request_id\":\"p\"}\n");
}

#[test]
fn a_line_that_is_too_long_is_passed_over() {
    let machine = Machine::new();
    let mut host = Host::start(&machine, &[]);
    let mut line = br#"{"type":"run","request_id":"big","session_id":"s","message":""#.to_vec();
    line.resize(65 << 20, b'x');
    line.extend_from_slice(b"\"}\n{\"type\":\"ping\",\"request_id\":\"p\"}\n");
    let writing = host.write_in_thread(line);
    let event = host.next();
    assert_eq!(event["code"], "too_long", "{event}");
    assert_eq!(event["request_id"], "big");
    assert_eq!(host.next()["type"], "pong");
    host.restore_stdin(writing.join().unwrap());
    host.shut_down();
}

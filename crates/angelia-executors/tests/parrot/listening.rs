//! Input on stdin: requests, garbage, the end of input, and random lines.

use proptest::prelude::*;
use serde_json::json;

use super::{ParrotThread, kinds, last, user, user_with_uuid};

#[test]
fn requests_are_answered_at_any_time() {
    let mut parrot = ParrotThread::start(&[]);
    parrot.control(&json!({"subtype": "initialize"}));
    let response = parrot.response();
    assert_eq!(response["subtype"], "success");
    assert_eq!(response["request_id"], "c");
    assert_eq!(response["response"]["account"]["apiProvider"], "parrot");
    assert_eq!(response["response"]["version"], env!("CARGO_PKG_VERSION"));

    parrot.control(&json!({"subtype": "mcp_status"}));
    assert_eq!(parrot.response()["response"], json!({"mcpServers": []}));
    parrot.control(&json!({"subtype": "interrupt"}));
    assert_eq!(parrot.response()["subtype"], "success");
    parrot.control(&json!({"subtype": "conjure"}));
    let refused = parrot.response();
    assert_eq!(refused["subtype"], "error");
    assert!(refused["error"].as_str().unwrap().contains("conjure"));

    parrot.prompt("!hang");
    parrot.until(|line| line["status"] == "requesting");
    parrot.control(&json!({"subtype": "set_model", "model": "ara"}));
    assert_eq!(parrot.response()["response"]["model"], "ara");
    parrot.control(&json!({"subtype": "interrupt"}));
    parrot.turn();
    parrot.prompt("!who");
    assert_eq!(parrot.turn()[0]["model"], "ara");
    parrot.control(&json!({"subtype": "end_session"}));
    assert_eq!(parrot.wait().code, 0);
}

#[test]
fn lines_it_does_not_know_are_ignored() {
    let mut parrot = ParrotThread::start(&[]);
    for line in [
        "",
        "   ",
        "5",
        "\"text\"",
        "null",
        "[]",
        "{}",
        r#"{"type":"keep_alive"}"#,
        r#"{"type":7}"#,
        r#"{"type":"assistant","message":{"role":"assistant","content":[]}}"#,
        r#"{"type":"control_request"}"#,
        r#"{"type":"control_response","response":{"request_id":"nobody"}}"#,
        r#"{"type":"control_response","response":5}"#,
    ] {
        parrot.send_raw(line);
    }
    parrot.prompt("!words 1");
    assert_eq!(last(&parrot.turn())["result"], "word1");
    assert_eq!(parrot.close().code, 0);
}

#[test]
fn a_broken_line_ends_it_with_a_reason() {
    for (line, reason) in [
        ("{\"type\":\"user\"", "not JSON"),
        ("hello", "not JSON"),
        ("\u{0}\u{1}\u{fffd}", "not JSON"),
        (r#"{"type":"user"}"#, "no `message`"),
        (r#"{"type":"user","message":{"role":"assistant"}}"#, "role"),
        (r#"{"type":"user","message":{"role":"user","content":5}}"#, "content"),
    ] {
        let mut parrot = ParrotThread::start(&[]);
        parrot.send_raw(line);
        let exit = parrot.wait();
        assert_eq!(exit.code, 1, "{line}");
        assert!(exit.rest.is_empty(), "{line}");
        assert!(exit.stderr.contains(reason), "{line}: {}", exit.stderr);
    }
}

#[test]
fn the_end_of_stdin_lets_the_turn_finish() {
    let exit = ParrotThread::start(&[]).close();
    assert_eq!((exit.code, exit.rest.len()), (0, 0));

    let mut parrot = ParrotThread::start(&[]);
    parrot.prompt("!words 4 1");
    let exit = parrot.close();
    assert_eq!(last(&exit.rest)["result"], "word1 word2 word3 word4");
    assert_eq!(exit.code, 0);
}

#[test]
fn wrong_arguments_are_refused_before_anything_is_read() {
    for arguments in [&["--bare"][..], &["--model"][..], &["text"][..]] {
        let exit = ParrotThread::start(arguments).wait();
        assert_eq!(exit.code, 1);
        assert!(exit.stderr.contains(arguments[0]), "{}", exit.stderr);
    }
}

/// Generates any line of input that makes the parrot neither hang nor exit.
fn any_line() -> impl Strategy<Value = String> {
    let step = prop_oneof![
        any::<String>(),
        (0..5_u8).prop_map(|n| format!("!words {n}")),
        Just("!tool Read".to_owned()),
        Just("!think".to_owned()),
        Just("!ask".to_owned()),
        Just("!question".to_owned()),
        Just("!fail rate".to_owned()),
        "![a-z]{1,6} [0-9a-z ]{0,6}",
    ]
    .prop_filter("needs somebody who interrupts", |text| {
        !text.contains("!hang") && !text.contains("!die")
    });
    let prompt = (proptest::collection::vec(step, 0..4), proptest::option::of(0..4_u8)).prop_map(
        |(steps, name)| match name {
            Some(name) => user_with_uuid(&steps.join("\n"), &name.to_string()),
            None => user(&steps.join("\n")),
        },
    );
    let control = prop_oneof!["[a-z_]{0,8}", Just("interrupt".into()), Just("initialize".into())]
        .prop_map(|subtype: String| {
            json!({"type": "control_request", "request_id": "c", "request": {"subtype": subtype}})
        });
    let other = any::<String>().prop_map(|text| json!({"type": text}));
    prop_oneof![4 => prompt, 2 => control, 1 => other].prop_map(|line| line.to_string())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn whatever_it_hears_it_speaks_the_protocol(
        lines in proptest::collection::vec(any_line(), 0..12),
    ) {
        let mut parrot = ParrotThread::start(&[]);
        for line in lines {
            parrot.send_raw(&line);
        }
        let exit = parrot.close();
        prop_assert_eq!(&exit.stderr, "");
        let kinds = kinds(&exit.rest);
        let count = |prefix: &str| kinds.iter().filter(|kind| kind.starts_with(prefix)).count();
        prop_assert_eq!(count("system init"), count("result"));
        let started = count("stream_event message_start");
        prop_assert_eq!(started, count("stream_event message_stop"));
        let blocks = count("stream_event content_block_start");
        prop_assert_eq!(blocks, count("stream_event content_block_stop"));
        let queued = count("command_lifecycle queued");
        let ended = count("command_lifecycle completed") + count("command_lifecycle cancelled");
        prop_assert_eq!(queued, ended);
    }
}

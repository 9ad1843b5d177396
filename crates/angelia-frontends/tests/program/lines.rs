//! The lines of the protocol: whatever a program writes is read or reported, and fits the schema.

use angelia_frontends::chat::program::{ProgramLine, decode_line, schema};
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

fn decode(line: &Value) -> Result<ProgramLine, serde_json::Error> {
    decode_line(line.to_string().as_bytes(), Timestamp::UNIX_EPOCH)
}

fn event(change: impl FnOnce(&mut Value)) -> Value {
    let mut params = json!({
        "key": "k", "chat": "c", "sender": {"id": "u"}, "kind": "message", "message_id": "m",
    });
    change(&mut params);
    json!({"id": "e1", "method": "event", "params": params})
}

#[test]
fn events_that_could_not_be_answered_later_are_refused() {
    assert!(matches!(decode(&event(|_| {})), Ok(ProgramLine::Event { event: Ok(_), .. })));
    let changes: [fn(&mut Value); 8] = [
        |params| params["key"] = json!(""),
        |params| params["chat"] = json!("a#b"),
        |params| params["chat"] = json!("a\nb"),
        |params| params["thread"] = json!("x#y"),
        |params| params["sender"]["id"] = json!("x".repeat(600)),
        |params| params["sent_at"] = json!("yesterday"),
        |params| params["kind"] = json!("new kind"),
        |params| params["message_id"] = json!(7),
    ];
    for change in changes {
        let line = event(change);
        let read = decode(&line).unwrap();
        assert!(matches!(read, ProgramLine::Event { event: Err(_), .. }), "{line}: {read:?}");
    }
}

#[test]
fn answers_may_be_short() {
    for line in [json!({"id": 1}), json!({"id": 1, "result": null}), json!({"id": 1, "result": {}})]
    {
        assert!(matches!(decode(&line), Ok(ProgramLine::Answer { id: 1, result: Ok(_) })));
    }
    let failed =
        json!({"id": 1, "error": {"kind": "not_sent", "message": "m", "retry_after": 1e300}});
    let Ok(ProgramLine::Answer { result: Err(error), .. }) = decode(&failed) else {
        unreachable!("it is an answer")
    };
    assert_eq!(error.message, "m");
    assert!(matches!(decode(&json!({"method": "alive"})), Ok(ProgramLine::Alive)));
    assert!(matches!(decode(&json!({"method": "alive", "params": {}})), Ok(ProgramLine::Alive)));
}

#[test]
fn the_schema_knows_the_lines() {
    let schema = jsonschema::validator_for(&schema()).unwrap();
    let place = json!({"chat": "c", "thread": null});
    let good = [
        event(|_| {}),
        event(|params| params["cursor"] = json!("5")),
        json!({"id": 1, "result": {"edit": true, "max_length": {"max": 9, "unit": "utf16"}}}),
        json!({"id": 2, "error": {"kind": "refused", "message": "no"}}),
        json!({"method": "lost", "params": {"kind": "refused", "message": "no"}}),
        json!({"method": "alive"}),
        json!({"id": 3, "method": "typing", "params": place}),
        json!({"id": 3, "method": "receive", "params": {"cursor": null}}),
        json!({"id": "e1", "result": {}}),
    ];
    for line in good {
        assert!(schema.is_valid(&line), "{line}");
    }
    for line in
        [json!(7), json!({}), json!({"method": "event", "params": {}}), json!({"method": "x"})]
    {
        assert!(!schema.is_valid(&line), "{line}");
    }
}

proptest! {
    #[test]
    fn no_line_is_fatal(bytes in prop::collection::vec(any::<u8>(), 0..200), text in "\\PC{0,200}") {
        let _any = decode_line(&bytes, Timestamp::UNIX_EPOCH);
        let line = json!({"id": text, "method": "event", "params": {"key": text, "chat": text}});
        let _any = decode(&line);
    }
}

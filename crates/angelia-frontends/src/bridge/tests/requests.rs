//! Tests of decoding lines into requests. The texts of errors are tested through the program.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::bridge::{BridgeErrorCode, BridgeRequest, decode, schema};

#[test]
fn a_request_written_by_its_type_is_read_as_itself() {
    let lines = [
        json!({"type": "run", "request_id": "r", "session_id": "s", "message": "m"}),
        json!({"type": "run", "request_id": "r", "session_id": "s", "message": "m",
            "profile": "p", "cwd": "/c", "model": "x", "assistant_delta": true,
            "native_stream": false, "native_assistant_delta": true, "idempotency_key": "k"}),
        json!({"type": "ping"}),
        json!({"type": "ping", "request_id": "r"}),
        json!({"type": "interrupt", "session_id": "s", "message": "why"}),
        json!({"type": "approve", "approval_id": "01890000-0000-7000-8000-000000000000",
            "verdict": "deny", "note": "n", "answers": {"q": "a"}}),
        json!({"type": "shutdown"}),
        json!({"type": "exit"}),
        json!({"type": "quit", "request_id": "r"}),
    ];
    let schema = schema();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for line in lines {
        let read = decode(line.to_string().as_bytes()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), line);
        assert!(validator.is_valid(&line), "{line}");
    }
}

#[test]
fn what_the_schema_refuses_is_refused() {
    let schema = schema();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for line in [
        json!({"type": "run", "request_id": "r", "session_id": "s"}),
        json!({"type": "run", "request_id": "r", "session_id": "", "message": "m"}),
        json!({"type": "approve", "approval_id": "x", "verdict": "maybe"}),
        json!({"type": "dance"}),
    ] {
        assert!(!validator.is_valid(&line), "{line}");
        decode(line.to_string().as_bytes()).unwrap_err();
    }
}

#[test]
fn null_is_as_good_as_nothing_and_the_last_word_counts() {
    let line = br#"{"type":"ping","type":"run","request_id":"a","request_id":"b","session_id":"s",
        "message":"m","profile":null,"assistant_delta":null,"answers":null}"#;
    let Ok(BridgeRequest::Run(run)) = decode(line) else { panic!("not a run") };
    assert_eq!((&*run.request_id, run.profile, run.assistant_delta), ("b", None, None));
}

#[test]
fn half_a_character_is_replaced_and_other_near_json_names_its_field() {
    let line = br#"{"type":"run","request_id":"r\ud800","session_id":"s","message":"a\ud83db"}"#;
    let Ok(BridgeRequest::Run(run)) = decode(line) else { panic!("not a run") };
    assert_eq!((&*run.request_id, &*run.message), ("r\u{fffd}", "a\u{fffd}b"));
    let line = br#"{"type":"run","request_id":"r","message":NaN,"session_id":"s"}"#;
    let bad = decode(line).unwrap_err();
    assert_eq!(bad.code, BridgeErrorCode::BadJson);
    assert!(bad.message.starts_with("`message`: NaN is not a number"), "{}", bad.message);
    assert_eq!(bad.request_id.as_deref(), Some("r"));
}

#[test]
fn keys_may_be_escaped() {
    let line = br#"{"\u0074ype":"ping","request\u005fid":"\u00e9"}"#;
    let Ok(BridgeRequest::Ping(ping)) = decode(line) else { panic!("not a ping") };
    assert_eq!(ping.request_id.as_deref(), Some("é"));
}

proptest! {
    #[test]
    fn any_bytes_are_a_request_or_an_error(line in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _either = decode(&line);
    }

    #[test]
    fn a_line_that_is_cut_still_names_itself(cut in 0..200_usize, text in ".{0,40}") {
        let line = json!({"request_id": "r", "session_id": "s", "type": "run", "message": text});
        let line = line.to_string();
        let cut = line.floor_char_boundary(cut.min(line.len() - 1));
        let bad = decode(&line.as_bytes()[..cut]).unwrap_err();
        prop_assert_eq!(bad.code, BridgeErrorCode::BadJson);
        let known = line[..cut].contains(r#""request_id":"r""#);
        prop_assert_eq!(bad.request_id.as_deref(), known.then_some("r"));
    }

    #[test]
    fn any_object_is_a_request_or_an_error(
        fields in proptest::collection::btree_map(
            prop_oneof!["type", "request_id", "session_id", "message", "answers", "[a-z]{1,4}"],
            prop_oneof![
                Just(Value::Null), any::<bool>().prop_map(Value::from), any::<i64>().prop_map(Value::from),
                ".{0,5}".prop_map(Value::from), Just(json!("run")), Just(json!("approve")), Just(json!({"a": 1})),
            ],
            0..8,
        )
    ) {
        let line = serde_json::to_vec(&fields).unwrap();
        let _either = decode(&line);
    }
}

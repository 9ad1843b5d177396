//! Generates random frames; `invariants` checks them.

use proptest::prelude::*;

use crate::invariants::check;

fn scalar() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("false".to_owned()),
        Just(r#""""#.to_owned()),
        Just(r#""\ud800""#.to_owned()),
        any::<i32>().prop_map(|number| number.to_string()),
        any::<String>().prop_map(|text| serde_json::Value::from(text).to_string()),
        Just(r#"{"verified": true, "redelivered": [{}]}"#.to_owned()),
    ]
}

fn key() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "to",
        "from",
        "id",
        "ts",
        "body",
        "token",
        "verified",
        "redelivered",
        "ack",
        "verif\\u0069ed",
        "redel\\u0069vered",
        "t\\u006fken",
        "other",
        "\\\"verified",
    ]);
    known.prop_map(str::to_owned)
}

fn frame() -> impl Strategy<Value = String> {
    let member = (key(), scalar(), prop::sample::select(vec!["", " ", "\n"]));
    prop::collection::vec(member, 0..8).prop_map(|members| {
        let mut frame = r#"{"type": "message""#.to_owned();
        for (key, value, blank) in members {
            frame += &[",", blank, "\"", &key, "\"", blank, ":", blank, &value, blank].concat();
        }
        frame + "}"
    })
}

proptest! {
    #[test]
    fn a_message_is_passed_on_as_it_was_said_with_a_sender_that_is_true(frame in frame()) {
        check(frame.as_bytes());
    }

    #[test]
    fn any_text_is_a_frame_or_malformed(text in any::<String>()) {
        check(text.as_bytes());
    }
}

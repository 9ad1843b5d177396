//! What is repaired in arguments, and what is refused.

use angelia_executors::native::arguments::{ArgumentsError, RepairKind, repair_arguments};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::invariants::check_arguments;

#[test]
fn mistakes_with_one_meaning_are_repaired() {
    use RepairKind::{
        BadEscape, CodeFence, ControlCharacter, DoubledObject, Empty, JsonInString, MissingCloser,
        PythonWord, SingleQuotes, SurplusCloser, TrailingComma,
    };
    let table: [(&str, Value, &[RepairKind]); 27] = [
        (r#"{"a":1}"#, json!({"a":1}), &[]),
        (" {\"a\" : 1 }\n", json!({"a":1}), &[]),
        ("", json!({}), &[Empty]),
        ("  ", json!({}), &[Empty]),
        ("null", json!({}), &[Empty]),
        (r#"{"s":"a,}b",}"#, json!({"s":"a,}b"}), &[TrailingComma]),
        (r#"{"s":["a",],}"#, json!({"s":["a"]}), &[TrailingComma]),
        ("```json\n{\"a\":1}\n```", json!({"a":1}), &[CodeFence]),
        ("```\n{\"a\":1}```\n", json!({"a":1}), &[CodeFence]),
        (r#"{"a":{"b":[true"#, json!({"a":{"b":[true]}}), &[MissingCloser]),
        (r#"{"a":"x""#, json!({"a":"x"}), &[MissingCloser]),
        (r#"{"a":[1,2}"#, json!({"a":[1,2]}), &[MissingCloser]),
        (r#"{"a":1}}"#, json!({"a":1}), &[SurplusCloser]),
        (r#"{"a":1]}"#, json!({"a":1}), &[SurplusCloser]),
        (r#"{"a":1}]} "#, json!({"a":1}), &[SurplusCloser]),
        (r"{'a':'it\'s \u00e9 and \n'}", json!({"a":"it's é and \n"}), &[SingleQuotes]),
        (r#"{'a':'say "hi"'}"#, json!({"a":"say \"hi\""}), &[SingleQuotes]),
        (r#"{"a":True,"b":False,"c":None}"#, json!({"a":true,"b":false,"c":null}), &[PythonWord]),
        (r#"{"a":"True, None,}"}"#, json!({"a":"True, None,}"}), &[]),
        ("{\"a\":\"x\ty\nz\"}", json!({"a":"x\ty\nz"}), &[ControlCharacter]),
        (r#"{"a":"C:\Users\me"}"#, json!({"a":"C:\\Users\\me"}), &[BadEscape]),
        (r#"{"a":"\d+ \u12 "}"#, json!({"a":"\\d+ \\u12 "}), &[BadEscape]),
        (r#"{"a":"\ud83d x"}"#, json!({"a":"\\ud83d x"}), &[BadEscape]),
        (r#"{"a":1}{"a":1}"#, json!({"a":1}), &[DoubledObject]),
        (r#"{"a":1}{"b":2}"#, json!({"a":1}), &[DoubledObject]),
        (r#""{\"a\":\"x\"}""#, json!({"a":"x"}), &[JsonInString]),
        (r#""{\"a\":1,}""#, json!({"a":1}), &[TrailingComma, JsonInString]),
    ];
    for (text, expected, kinds) in table {
        let repaired = repair_arguments(text, false);
        let repaired = repaired.unwrap_or_else(|error| panic!("{text}: {error}"));
        let object: Value = serde_json::from_str(repaired.object.get()).unwrap();
        assert_eq!(object, expected, "{text}");
        assert_eq!(repaired.repairs.into_iter().collect::<Vec<_>>(), kinds, "{text}");
    }
}

#[test]
fn what_may_have_been_cut_is_refused() {
    let table = [
        r#"{"a":"#,
        r#"{"a""#,
        r#"{"a":"x"#,
        r#"{"a":"x\"#,
        r#"{"a":"x\u12"#,
        r#"{"a":1,"#,
        r#"{"a":12"#,
        r#"{"a":-"#,
        r#"{"a":tr"#,
        r#"{"a":{"#,
        "{",
        r#"{"a":["#,
        "```json\n",
        r#"{"a":1}{"b":"#,
        r"{'a':'x",
    ];
    for text in table {
        let error = repair_arguments(text, false).unwrap_err();
        assert_eq!(error, ArgumentsError::CutOff { bytes: text.len() }, "{text}");
    }
    // After the limit of output nothing is repaired, not even what is missing altogether.
    for text in ["", "{\"a\":1,}", "{\"a\":[1]", "null", "\"{}\""] {
        let error = repair_arguments(text, true).unwrap_err();
        assert_eq!(error, ArgumentsError::CutOff { bytes: text.len() }, "{text}");
    }
    assert!(repair_arguments(r#"{"a":1}"#, true).is_ok(), "a whole call is whole");
    let message = ArgumentsError::CutOff { bytes: 31 }.to_string();
    assert!(message.contains("cut off after 31 bytes"), "{message}");
}

#[test]
fn what_is_no_object_or_could_mean_two_things_is_refused() {
    let table = [
        ("[1]", "a list"),
        ("\"text\"", "a string"),
        ("'text'", "a string"),
        ("5", "a number"),
        ("-", "a number"),
        ("hello", "a value is expected at byte 0"),
        ("{a:1}", "a key in double quotes is expected at byte 1"),
        (r#"{"a" 1}"#, "a colon is expected at byte 5"),
        (r#"{"a":}"#, "a value is expected at byte 5"),
        (r#"{"a":1 "b":2}"#, "a comma or a closing bracket is expected at byte 7"),
        (r#"{"s":"say "hi" now"}"#, "a comma or a closing bracket is expected"),
        (r"{'s':'it's'}", "a comma or a closing bracket is expected"),
        (r#"{"a":1} and more"#, "there is more after the object at byte 8"),
        (r#"{"a":01}"#, "a value is expected"),
        (r#"{"a":maybe}"#, "a value is expected"),
        (r#"{,"a":1}"#, "a key in double quotes is expected"),
        (r#"{"a":1,,"b":2}"#, "a key in double quotes is expected"),
    ];
    for (text, expected) in table {
        let error = repair_arguments(text, false).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    let deep = r#"{"a":"#.repeat(5_000);
    assert!(repair_arguments(&deep, false).is_err());
}

#[test]
fn a_large_argument_is_kept() {
    let text = format!(r#"{{"content":"{}",}}"#, "x,}\\n".repeat(1 << 20));
    let repaired = repair_arguments(&text, false).unwrap();
    assert_eq!(repaired.object.get().len(), text.len() - 1);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        r#"[{}\[\],:"'`\\ntrue\t]{0,12}"#.prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(any::<String>(), inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Writes JSON with a comma after the last value of each container that has one.
fn with_trailing_commas(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: String = items.iter().map(|item| with_trailing_commas(item) + ",").collect();
            format!("[{items}]")
        }
        Value::Object(fields) => {
            let field = |(key, value): (&String, &Value)| {
                format!("{}:{},", Value::from(key.as_str()), with_trailing_commas(value))
            };
            format!("{{{}}}", fields.iter().map(field).collect::<String>())
        }
        other => other.to_string(),
    }
}

fn object_of(text: &str) -> Option<Value> {
    let repaired = repair_arguments(text, false).ok()?;
    serde_json::from_str(repaired.object.get()).ok()
}

/// Reads a text as another repairer does, which accepts more than ours.
fn read_by_oracle(text: &str) -> Option<Value> {
    let own_parser = llm_json::RepairOptions { skip_json_loads: true, ..Default::default() };
    llm_json::loads(text, &own_parser).ok()
}

#[test]
fn e24_another_repairer_finds_the_same_meaning() {
    let table = [
        r#"{"s":"a,}b",}"#,
        r#"{"s":["a",],}"#,
        "```json\n{\"a\":1}\n```",
        r#"{"a":{"b":[true"#,
        r#"{"a":"x""#,
        r#"{"a":1}}"#,
        r#"{'a':'say "hi"'}"#,
        r#"{"a":True,"b":False,"c":None}"#,
        r#"{"a":1}{"b":2}"#,
    ];
    for text in table {
        let ours = object_of(text);
        assert!(ours.is_some(), "{text}");
        assert_eq!(ours, read_by_oracle(text), "{text}");
    }
}

proptest! {
    /// What ours gives is JSON to a reader that shares no code with it.
    #[test]
    fn e24_what_is_repaired_is_json_to_another_reader(
        text in r#"[{}\[\],:"'\\ `0-9a-uTFN.\-]{0,40}"#,
    ) {
        if let Some(object) = object_of(&text) {
            prop_assert_eq!(read_by_oracle(&object.to_string()), Some(object), "{}", text);
        }
    }

    #[test]
    fn damage_outside_strings_is_undone(value in any_json()) {
        let object = json!({"value": value});
        let text = object.to_string();
        let damaged = [
            text.clone(),
            with_trailing_commas(&object),
            format!("```json\n{text}\n```"),
            format!("{text}{text}"),
            format!("{text}}}]"),
            Value::from(text.as_str()).to_string(),
        ];
        for damaged in damaged {
            prop_assert_eq!(object_of(&damaged), Some(object.clone()), "{}", damaged);
        }
    }

    /// However a text is cut, the result is the whole value or nothing: never a part of a string,
    /// of a number or of a word.
    #[test]
    fn a_cut_text_never_gives_half_a_value(value in any_json(), at in any::<prop::sample::Index>()) {
        let object = json!({"first": value, "last": "the end"});
        let text = object.to_string();
        let mut at = at.index(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        if let Some(Value::Object(fields)) = object_of(&text[..at]) {
            if let Some(last) = fields.get("last") {
                prop_assert_eq!(last, "the end");
            }
            if let (Some(first), Value::String(_) | Value::Number(_)) = (fields.get("first"), &object["first"]) {
                prop_assert_eq!(first, &object["first"]);
            }
        }
    }

    #[test]
    fn any_text_is_repaired_or_refused(text in any::<String>()) {
        check_arguments(&text);
    }

    #[test]
    fn anything_like_json_is_repaired_or_refused(text in r#"[{}\[\],:"'\\ `0-9a-uTFN.\-]{0,40}"#) {
        check_arguments(&text);
    }
}

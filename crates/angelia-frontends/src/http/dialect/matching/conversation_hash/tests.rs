//! Equal conversations have equal hashes, and different ones do not.

use angelia_core::model::{RawJson, ToolId};
use proptest::{collection::vec, prelude::*};
use serde_json::{Map, json};

use super::*;

fn raw(json: &str) -> RawJson {
    serde_json::from_str(json).unwrap()
}

fn text(text: &str) -> MessagePart {
    MessagePart::Content(Content::text(text))
}

fn user(parts: Vec<MessagePart>) -> HistoryMessage {
    HistoryMessage { role: Role::User, parts }
}

fn assistant(parts: Vec<MessagePart>) -> HistoryMessage {
    HistoryMessage { role: Role::Assistant, parts }
}

fn hash(messages: &[HistoryMessage]) -> HashBytes {
    ConversationHasher::from_messages("key", messages).hash()
}

fn call(input: &str) -> MessagePart {
    MessagePart::ToolUse { id: ToolId::new("t1"), name: "f".into(), input: raw(input) }
}

fn result(content: Vec<Content>) -> MessagePart {
    MessagePart::ToolResult { id: ToolId::new("t1"), ok: true, content }
}

fn image(media_type: &str, data: &[u8]) -> MessagePart {
    MessagePart::Content(Content::Image { media_type: media_type.into(), data: data.into() })
}

#[test]
fn what_means_the_same_has_the_same_hash() {
    let plain = [
        user(vec![text("Hello there")]),
        assistant(vec![text("Hi."), call(r#"{"a":1,"b":[true,null]}"#)]),
        user(vec![result(vec![Content::text("done")]), text("go on")]),
    ];
    let rewritten = [
        user(vec![text("  Hello "), text("there\n")]),
        user(vec![text("")]),
        assistant(vec![MessagePart::Thinking { text: "hm".into(), signature: Some("s".into()) }]),
        assistant(vec![text("Hi.\n\n"), text(" ")]),
        assistant(vec![call(r#"{ "b" : [true, null], "a": 1.0 }"#)]),
        user(vec![result(vec![Content::text("do"), Content::text("ne ")])]),
        user(vec![text(" go on")]),
    ];
    assert_eq!(hash(&plain), hash(&rewritten));
    assert_eq!(hash(&[user(vec![call("null")])]), hash(&[user(vec![call("{}")])]));
    // An image is identified by its bytes alone.
    assert_eq!(
        hash(&[user(vec![image("image/png", b"1")])]),
        hash(&[user(vec![image("image/PNG", b"1")])])
    );
}

#[test]
fn what_differs_differs() {
    let all = [
        vec![],
        vec![user(vec![text("a")])],
        vec![assistant(vec![text("a")])],
        vec![user(vec![text("a")]), assistant(vec![text("b")])],
        vec![user(vec![text("a b")])],
        vec![user(vec![text("ab")])],
        vec![user(vec![call("{}")])],
        vec![user(vec![call(r#"{"a":1}"#)])],
        vec![user(vec![call(r#"{"a":"1"}"#)])],
        vec![user(vec![result(vec![])])],
        vec![user(vec![result(vec![Content::text("a")])])],
        vec![user(vec![result(vec![]), text("a")])],
        vec![user(vec![image("image/png", b"1")])],
        vec![user(vec![image("image/png", b"2")])],
        vec![user(vec![text("a")]), assistant(vec![text("a")]), user(vec![text("a")])],
    ];
    let hashes: std::collections::HashSet<_> = all.iter().map(|messages| hash(messages)).collect();
    assert_eq!(hashes.len(), all.len());
}

#[test]
fn nothing_said_is_an_empty_history() {
    let nothing = [user(vec![text(" ")]), assistant(vec![])];
    assert!(ConversationHasher::from_messages("key", &nothing).is_empty());
    assert_eq!(hash(&nothing), hash(&[]));
    assert!(!ConversationHasher::from_messages("key", &[user(vec![text("a")])]).is_empty());
}

fn json_value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i32>().prop_map(Into::into),
        "[a-z\"\\\\é]{0,4}".prop_map(Into::into),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Into::into),
            vec(("[a-z]{1,2}", inner), 0..4).prop_map(|fields| {
                serde_json::Value::Object(fields.into_iter().collect::<Map<_, _>>())
            }),
        ]
    })
}

/// Renders the value with the keys of every object in reverse order.
fn reversed(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Object(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .rev()
                .map(|(key, value)| format!("{} : {}", json!(key), reversed(value)))
                .collect();
            format!("{{ {} }}", fields.join(" , "))
        }
        serde_json::Value::Array(items) => {
            let items: Vec<String> = items.iter().map(reversed).collect();
            format!("[{}]", items.join(","))
        }
        other => other.to_string(),
    }
}

#[derive(Clone, Debug)]
enum SamplePart {
    Text(String),
    Call(String),
    Thought,
}

fn conversation() -> impl Strategy<Value = Vec<(bool, Vec<SamplePart>)>> {
    let piece = prop_oneof![
        3 => "[a-z ]{0,8}".prop_map(SamplePart::Text),
        1 => "[a-z]{1,2}".prop_map(SamplePart::Call),
        1 => Just(SamplePart::Thought),
    ];
    vec((any::<bool>(), vec(piece, 0..4)), 0..6)
}

fn built(turns: &[(bool, Vec<SamplePart>)], split: bool) -> Vec<HistoryMessage> {
    let mut messages = Vec::new();
    for (is_user, pieces) in turns {
        let of = |parts| {
            if *is_user { user(parts) } else { assistant(parts) }
        };
        let mut parts = Vec::new();
        for piece in pieces {
            match piece {
                SamplePart::Text(text_) if split => {
                    // Split one text into several, each in a message of its own.
                    let (left, right) = text_.split_at(text_.len() / 2);
                    messages.push(of(std::mem::take(&mut parts)));
                    parts.extend([text(left), text(""), text(right)]);
                }
                SamplePart::Text(text_) => parts.push(text(text_)),
                SamplePart::Call(key) => parts.push(call(&format!("{{\"{key}\":1}}"))),
                SamplePart::Thought if split => {}
                SamplePart::Thought => {
                    parts.push(MessagePart::Thinking { text: "hm".into(), signature: None });
                }
            }
        }
        messages.push(of(parts));
    }
    messages
}

proptest! {
    #[test]
    fn the_order_of_keys_means_nothing(value in json_value()) {
        assert_eq!(canonical_json(&value.to_string()), canonical_json(&reversed(&value)));
    }

    #[test]
    fn how_it_is_cut_means_nothing(turns in conversation()) {
        assert_eq!(hash(&built(&turns, false)), hash(&built(&turns, true)));
    }

    #[test]
    fn callers_never_meet(turns in conversation(), one in "[a-z]{0,4}", other in "[a-z]{0,4}") {
        prop_assume!(one != other);
        let messages = built(&turns, false);
        assert_ne!(ConversationHasher::from_messages(&one, &messages).hash(), ConversationHasher::from_messages(&other, &messages).hash());
    }

    #[test]
    fn a_conversation_grows_message_by_message(turns in conversation(), at in any::<prop::sample::Index>()) {
        let messages = built(&turns, false);
        let (before, after) = messages.split_at(at.index(messages.len() + 1));
        let mut chain = ConversationHasher::from_messages("key", before);
        let _looked_at = chain.hash();
        for message in after {
            chain.push(message);
        }
        assert_eq!(chain.hash(), hash(&messages));
    }
}

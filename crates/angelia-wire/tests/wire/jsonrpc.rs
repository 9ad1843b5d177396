//! JSON-RPC messages in both directions.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use angelia_wire::jsonrpc::{
    DecodeError, ErrorObject, RpcId, RpcMessage, VersionField, decode, encode,
};
use proptest::prelude::*;
use serde_json::{Value, json, value::RawValue};

/// A message that owns its parts.
#[derive(Debug, PartialEq)]
enum OwnedMessage {
    Request(RpcId<'static>, String, Option<Value>),
    Notification(String, Option<Value>),
    Result(Option<RpcId<'static>>, Value),
    Error(Option<RpcId<'static>>, i64, String, Option<Value>),
}

fn value(raw: &RawValue) -> Value {
    serde_json::from_str(raw.get()).unwrap()
}

fn decode_owned(line: &[u8]) -> Result<OwnedMessage, DecodeError> {
    Ok(match decode(line)? {
        RpcMessage::Request { id, method, params } => {
            OwnedMessage::Request(id.into_owned(), method.into(), params.map(value))
        }
        RpcMessage::Notification { method, params } => {
            OwnedMessage::Notification(method.into(), params.map(value))
        }
        RpcMessage::Response { id, result } => {
            let id = id.map(RpcId::into_owned);
            match result {
                Ok(result) => OwnedMessage::Result(id, value(result)),
                Err(error) => OwnedMessage::Error(
                    id,
                    error.code,
                    error.message.into(),
                    error.data.as_deref().map(value),
                ),
            }
        }
    })
}

#[test]
fn what_peers_say() {
    let table = [
        (
            r#"{"id":0,"method":"item/tool/call","params":{"a":1}}"#,
            OwnedMessage::Request(0.into(), "item/tool/call".into(), Some(json!({"a": 1}))),
        ),
        (
            r#"{"jsonrpc":"2.0","method":"initialized"}"#,
            OwnedMessage::Notification("initialized".into(), None),
        ),
        (
            r#"{"emittedAtMs":17,"params":null,"method":"x","id":null}"#,
            OwnedMessage::Notification("x".into(), Some(Value::Null)),
        ),
        (r#"{"id":"s-1","result":null}"#, OwnedMessage::Result(Some("s-1".into()), Value::Null)),
        (
            r#"{"id":7,"error":{"code":-32600,"message":"Not \"initialized\"","data":[1]}}"#,
            OwnedMessage::Error(
                Some(7.into()),
                -32600,
                "Not \"initialized\"".into(),
                Some(json!([1])),
            ),
        ),
        (
            r#"{"id":null,"error":{"code":-32700,"message":"?"}}"#,
            OwnedMessage::Error(None, -32700, "?".into(), None),
        ),
        (
            r#"{"id":7,"error":"it broke","result":{}}"#,
            OwnedMessage::Error(Some(7.into()), 0, "\"it broke\"".into(), None),
        ),
        (r#"{"id":7,"error":null,"result":{}}"#, OwnedMessage::Result(Some(7.into()), json!({}))),
    ];
    for (line, expected) in table {
        assert_eq!(decode_owned(line.as_bytes()), Ok(expected), "{line}");
    }
}

#[test]
fn what_is_no_message() {
    let table = [
        ("", DecodeError::NotJson),
        ("nonsense", DecodeError::NotJson),
        ("{\"id\":1,\"result\":", DecodeError::NotJson),
        ("[]", DecodeError::NotAMessage),
        ("7", DecodeError::NotAMessage),
        ("{}", DecodeError::NotAMessage),
        ("{\"id\":1}", DecodeError::NotAMessage),
        ("{\"result\":1}", DecodeError::NotAMessage),
        ("{\"method\":7}", DecodeError::NotAMessage),
        ("{\"id\":1.5,\"method\":\"x\"}", DecodeError::BadId),
        ("{\"id\":{},\"method\":\"x\"}", DecodeError::BadId),
    ];
    for (line, expected) in table {
        assert_eq!(decode_owned(line.as_bytes()), Err(expected), "{line}");
    }
    assert_eq!(decode_owned(b"{\"method\":\"\xff\"}"), Err(DecodeError::NotJson));
}

#[test]
fn raw_json_of_several_lines_is_still_one_line() {
    let raw = RawValue::from_string("{\n  \"a\": 1\n}".into()).unwrap();
    let line = encode::request(VersionField::Include, &1.into(), "m", &*raw).unwrap();
    let end = line.iter().position(|byte| *byte == b'\n');
    assert_eq!(end, Some(line.len() - 1), "{line:?}");
}

fn id() -> impl Strategy<Value = RpcId<'static>> {
    prop_oneof![
        any::<i64>().prop_map(RpcId::Number),
        any::<String>().prop_map(|text| RpcId::Text(text.into())),
    ]
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(any::<String>(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn checked_line(written: serde_json::Result<Vec<u8>>, dialect: VersionField) -> Vec<u8> {
    let mut line = written.unwrap();
    assert_eq!(line.pop(), Some(b'\n'));
    assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
    let says = serde_json::from_slice::<Value>(&line).unwrap()["jsonrpc"] == "2.0";
    assert_eq!(says, dialect == VersionField::Include);
    line
}

proptest! {
    #[test]
    fn whatever_is_written_is_read_back(
        id in id(),
        method in any::<String>(),
        params in json_value(),
        code in any::<i64>(),
        v2 in any::<bool>(),
    ) {
        let dialect = if v2 { VersionField::Include } else { VersionField::Omit };
        let line = checked_line(encode::request(dialect, &id, &method, &params), dialect);
        let request = OwnedMessage::Request(id.clone(), method.clone(), Some(params.clone()));
        prop_assert_eq!(decode_owned(&line), Ok(request));

        let line = checked_line(encode::notification(dialect, &method, Some(&params)), dialect);
        let notification = OwnedMessage::Notification(method.clone(), Some(params.clone()));
        prop_assert_eq!(decode_owned(&line), Ok(notification));

        let line = checked_line(encode::result(dialect, &id, &params), dialect);
        prop_assert_eq!(decode_owned(&line), Ok(OwnedMessage::Result(Some(id.clone()), params)));

        let error = ErrorObject::new(code, method.as_str());
        let line = checked_line(encode::error(dialect, &id, &error), dialect);
        prop_assert_eq!(decode_owned(&line), Ok(OwnedMessage::Error(Some(id), code, method, None)));
    }

    #[test]
    fn no_bytes_are_too_odd(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes);
    }

    #[test]
    fn no_json_is_too_odd(value in json_value(), key in "(id|method|params|result|error)") {
        let _ = decode(value.to_string().as_bytes());
        let _ = decode(json!({key: value, "method": "m"}).to_string().as_bytes());
    }
}

//! One line of the app-server's output.
//!
//! There is no `jsonrpc` field. Requests of the server and responses to us both carry an `id`, each
//! counted by its own side from 0; what has a `method` is not a response.

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::lenient::{Soft, Text};

/// What no method, or no answer, is there for.
pub const METHOD_NOT_FOUND: i64 = -32601;

/// The server's name for one of its requests: a number or a string, kept as it is spelled.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(Box<str>);

impl RequestId {
    /// `None`: neither a number nor a string, so nothing can be answered.
    pub fn of(raw: &RawValue) -> Option<Self> {
        let text = raw.get();
        let first = text.bytes().next()?;
        (first == b'"' || first == b'-' || first.is_ascii_digit()).then(|| Self(text.into()))
    }
}

/// As JSON, so that `1` and `"1"` stay apart.
impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for RequestId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match serde_json::from_str::<&RawValue>(&self.0) {
            Ok(raw) => raw.serialize(serializer),
            Err(_) => serializer.serialize_none(),
        }
    }
}

/// An error of JSON-RPC, in either direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{message}")]
pub struct RpcError {
    pub code: i64,
    pub message: String,
}

/// One line, borrowed.
#[derive(Debug)]
pub enum Message<'a> {
    /// To a request of ours; our ids are numbers.
    Response {
        id: u64,
        result: Result<&'a RawValue, RpcError>,
    },
    Request {
        id: RequestId,
        method: Cow<'a, str>,
        params: &'a RawValue,
    },
    Notification {
        method: Cow<'a, str>,
        params: &'a RawValue,
    },
    /// JSON that is none of these; nothing waits for it.
    Unknown(&'a RawValue),
}

impl<'a> Message<'a> {
    /// `None`: not JSON.
    pub fn parse(line: &'a str) -> Option<Self> {
        let raw: &RawValue = serde_json::from_str(line).ok()?;
        let Ok(head) = serde_json::from_str::<Head<'a>>(line) else {
            return Some(Self::Unknown(raw));
        };
        let params = head.params.unwrap_or(RawValue::NULL);
        let id = head.id;
        Some(match (head.method.0, id, head.result, head.error) {
            (Some(Text(method)), None, ..) => Self::Notification { method, params },
            (Some(Text(method)), Some(id), ..) => match RequestId::of(id) {
                Some(id) => Self::Request { id, method, params },
                None => Self::Notification { method, params },
            },
            (None, Some(id), result, error) => {
                let Ok(id) = id.get().parse() else {
                    return Some(Self::Unknown(raw));
                };
                let result = match error {
                    Some(error) => Err(error.into()),
                    None => Ok(result.unwrap_or(RawValue::NULL)),
                };
                Self::Response { id, result }
            }
            _ => Self::Unknown(raw),
        })
    }
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, default)]
    method: Soft<Text<'a>>,
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<ErrorBody<'a>>,
}

#[derive(Deserialize)]
struct ErrorBody<'a> {
    #[serde(default)]
    code: Soft<i64>,
    #[serde(borrow, default)]
    message: Soft<Text<'a>>,
}

impl From<ErrorBody<'_>> for RpcError {
    fn from(body: ErrorBody<'_>) -> Self {
        let message = body.message.as_str().unwrap_or("refused without a reason");
        Self {
            code: body.code.get().unwrap_or(0),
            message: message.to_owned(),
        }
    }
}

/// Whose a message is.
#[derive(Debug, Default)]
pub struct Route<'a> {
    /// `None`: it is for everybody.
    pub thread: Option<Cow<'a, str>>,
    /// The thread that started this one as its sub-agent.
    pub parent: Option<Cow<'a, str>>,
}

impl<'a> Route<'a> {
    pub fn of(params: &'a RawValue) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Params<'a> {
            #[serde(borrow, default)]
            thread_id: Soft<Text<'a>>,
            /// In requests of an older kind.
            #[serde(borrow, default)]
            conversation_id: Soft<Text<'a>>,
            #[serde(borrow, default)]
            thread: Soft<Thread<'a>>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Thread<'a> {
            #[serde(borrow, default)]
            id: Soft<Text<'a>>,
            #[serde(borrow, default)]
            parent_thread_id: Soft<Text<'a>>,
        }
        let params: Params<'a> = serde_json::from_str(params.get()).unwrap_or_default();
        let (of_thread, parent) = match params.thread.0 {
            Some(thread) => (thread.id.0, thread.parent_thread_id.0),
            None => (None, None),
        };
        let thread = (params.thread_id.0)
            .or(params.conversation_id.0)
            .or(of_thread);
        Self {
            thread: thread.map(|text| text.0),
            parent: parent.map(|text| text.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_requests_and_notifications_are_told_apart() {
        let parse = |line| format!("{:?}", Message::parse(line));
        assert!(parse(r#"{"id":7,"result":{}}"#).contains("Response { id: 7, result: Ok"));
        assert!(parse(r#"{"id":7,"error":{"code":-1,"message":"m"}}"#).contains("code: -1"));
        assert!(parse(r#"{"id":0,"method":"a/b","params":{}}"#).contains("Request"));
        assert!(parse(r#"{"method":"a/b","emittedAtMs":1}"#).contains("Notification"));
        for odd in [
            "{}",
            "[1]",
            r#"{"id":"x","result":1}"#,
            r#"{"method":[],"id":{}}"#,
        ] {
            assert!(parse(odd).contains("Unknown"), "{odd}");
        }
        assert_eq!(parse("{"), "None");
    }

    #[test]
    fn ids_come_back_as_they_were_spelled() {
        for id in ["0", "-3", "\"0\"", "\"a\\\"b\""] {
            let line = format!(r#"{{"id":{id},"method":"m"}}"#);
            let Some(Message::Request { id: parsed, .. }) = Message::parse(&line) else {
                unreachable!("{line}");
            };
            assert_eq!(serde_json::to_string(&parsed).unwrap(), id);
        }
    }

    #[test]
    fn threads_are_found_in_every_shape() {
        let raw = |json: &str| RawValue::from_string(json.to_owned()).unwrap();
        let thread = |json| Route::of(&raw(json)).thread.map(Cow::into_owned);
        assert_eq!(thread(r#"{"threadId":"t"}"#).as_deref(), Some("t"));
        assert_eq!(thread(r#"{"conversationId":"t"}"#).as_deref(), Some("t"));
        assert_eq!(thread(r#"{"thread":{"id":"t"}}"#).as_deref(), Some("t"));
        assert_eq!(thread(r#"{"threadId":null}"#), None);
        assert_eq!(thread("[]"), None);
        let child = raw(r#"{"thread":{"id":"c","parentThreadId":"t"}}"#);
        assert_eq!(Route::of(&child).parent.as_deref(), Some("t"));
    }
}

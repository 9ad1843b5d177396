//! One line of the app-server's output.
//!
//! There is no `jsonrpc` field. Requests of the app-server and responses to us both carry an `id`,
//! which each side counts on its own, from 0. A line with a `method` is not a response.

use std::{borrow::Cow, fmt};

pub use angelia_wire::jsonrpc::METHOD_NOT_FOUND;
use angelia_wire::jsonrpc::{DecodeError, ErrorObject, RpcId, RpcMessage, decode};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::lenient::{BorrowedStr, Lenient};

/// The app-server's id of one of its requests: a number or a string.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct RequestId(RpcId<'static>);

impl RequestId {
    /// Returns `None` if the id is neither a number nor a string; such a request cannot be
    /// answered.
    pub fn of(raw: &RawValue) -> Option<Self> {
        let id: RpcId<'_> = serde_json::from_str(raw.get()).ok()?;
        Some(Self(id.into_owned()))
    }
}

/// Writes the id as JSON, so that `1` and `"1"` stay distinct.
impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            RpcId::Number(number) => number.fmt(f),
            RpcId::Text(text) => fmt::Debug::fmt(text, f),
        }
    }
}

/// A JSON-RPC error, in either direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{message}")]
pub struct RpcError {
    pub code: i64,
    pub message: String,
}

impl From<ErrorObject<'_>> for RpcError {
    fn from(error: ErrorObject<'_>) -> Self {
        Self { code: error.code, message: error.message.into_owned() }
    }
}

/// One line, borrowed.
#[derive(Debug)]
pub enum AppServerMessage<'a> {
    /// A response to one of our requests; our ids are numbers.
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
    /// JSON that is none of these; nobody waits for it.
    Unknown(&'a RawValue),
}

impl<'a> AppServerMessage<'a> {
    /// Returns `None` if the line is not JSON.
    pub fn parse(line: &'a str) -> Option<Self> {
        let unknown = || serde_json::from_str(line).ok().map(Self::Unknown);
        let incoming = match decode(line.as_bytes()) {
            Ok(incoming) => incoming,
            Err(DecodeError::NotJson) => return None,
            Err(DecodeError::NotAMessage | DecodeError::BadId) => return unknown(),
        };
        Some(match incoming {
            RpcMessage::Request { id, method, params } => Self::Request {
                id: RequestId(id.into_owned()),
                method,
                params: params.unwrap_or(RawValue::NULL),
            },
            RpcMessage::Notification { method, params } => {
                Self::Notification { method, params: params.unwrap_or(RawValue::NULL) }
            }
            RpcMessage::Response { id, result } => {
                let Some(id) = id.as_ref().and_then(numeric_id) else {
                    return unknown();
                };
                let result = result.map_err(Into::into);
                Self::Response { id, result }
            }
        })
    }
}

fn numeric_id(id: &RpcId<'_>) -> Option<u64> {
    match id {
        RpcId::Number(number) => (*number).try_into().ok(),
        RpcId::Text(_) => None,
    }
}

/// The thread that a message belongs to.
#[derive(Debug, Default)]
pub struct Route<'a> {
    /// `None` if the message is for all threads.
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
            thread_id: Lenient<BorrowedStr<'a>>,
            /// The spelling of older requests.
            #[serde(borrow, default)]
            conversation_id: Lenient<BorrowedStr<'a>>,
            #[serde(borrow, default)]
            thread: Lenient<Thread<'a>>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Thread<'a> {
            #[serde(borrow, default)]
            id: Lenient<BorrowedStr<'a>>,
            #[serde(borrow, default)]
            parent_thread_id: Lenient<BorrowedStr<'a>>,
        }
        let params: Params<'a> = serde_json::from_str(params.get()).unwrap_or_default();
        let (of_thread, parent) = match params.thread.0 {
            Some(thread) => (thread.id.0, thread.parent_thread_id.0),
            None => (None, None),
        };
        let thread = (params.thread_id.0).or(params.conversation_id.0).or(of_thread);
        Self { thread: thread.map(|text| text.0), parent: parent.map(|text| text.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_requests_and_notifications_are_told_apart() {
        let parse = |line| format!("{:?}", AppServerMessage::parse(line));
        assert!(parse(r#"{"id":7,"result":{}}"#).contains("Response { id: 7, result: Ok"));
        assert!(parse(r#"{"id":7,"error":{"code":-1,"message":"m"}}"#).contains("code: -1"));
        assert!(parse(r#"{"id":0,"method":"a/b","params":{}}"#).contains("Request"));
        assert!(parse(r#"{"method":"a/b","emittedAtMs":1}"#).contains("Notification"));
        for odd in ["{}", "[1]", r#"{"id":"x","result":1}"#, r#"{"method":[],"id":{}}"#] {
            assert!(parse(odd).contains("Unknown"), "{odd}");
        }
        assert_eq!(parse("{"), "None");
    }

    #[test]
    fn ids_come_back_as_they_were_spelled() {
        for id in ["0", "-3", "\"0\"", "\"a\\\"b\""] {
            let line = format!(r#"{{"id":{id},"method":"m"}}"#);
            let Some(AppServerMessage::Request { id: parsed, .. }) = AppServerMessage::parse(&line)
            else {
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

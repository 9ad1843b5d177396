//! The ids of the app-server's requests, and the thread that a message belongs to. The messages
//! themselves are plain JSON-RPC without a `jsonrpc` field.

use std::{borrow::Cow, fmt};

use angelia_wire::jsonrpc::RpcId;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::lenient::{BorrowedStr, Lenient};

/// The app-server's id for one of its requests: a number or a string.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct RequestId(RpcId<'static>);

impl RequestId {
    /// Parses an id. Returns `None` if it is neither a number nor a string; such a request cannot
    /// be answered.
    pub fn of(raw: &RawValue) -> Option<Self> {
        serde_json::from_str::<RpcId<'_>>(raw.get()).ok().map(Self::from)
    }

    pub fn as_rpc_id(&self) -> &RpcId<'static> {
        &self.0
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

impl From<RpcId<'_>> for RequestId {
    fn from(id: RpcId<'_>) -> Self {
        Self(id.into_owned())
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
        #[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
        struct Params<'a> {
            thread_id: Lenient<BorrowedStr<'a>>,
            /// The name in older requests.
            conversation_id: Lenient<BorrowedStr<'a>>,
            thread: Lenient<Thread<'a>>,
        }
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
        struct Thread<'a> {
            id: Lenient<BorrowedStr<'a>>,
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
    fn ids_come_back_as_they_were_spelled() {
        for id in ["0", "-3", "\"0\"", "\"a\\\"b\""] {
            let parsed = RequestId::of(&RawValue::from_string(id.to_owned()).unwrap()).unwrap();
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

//! JSON-RPC messages.

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Id of a request and its response. Each side numbers its own requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RpcId<'a> {
    Number(i64),
    Text(#[serde(borrow)] Cow<'a, str>),
}

impl RpcId<'_> {
    pub fn into_owned(self) -> RpcId<'static> {
        match self {
            Self::Number(number) => RpcId::Number(number),
            Self::Text(text) => RpcId::Text(text.into_owned().into()),
        }
    }
}

impl From<i64> for RpcId<'_> {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl<'a> From<&'a str> for RpcId<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text.into())
    }
}

impl fmt::Display for RpcId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

/// A message from the peer.
#[derive(Clone, Debug)]
pub enum RpcMessage<'a> {
    Request {
        id: RpcId<'a>,
        method: Cow<'a, str>,
        params: Option<&'a RawValue>,
    },
    Notification {
        method: Cow<'a, str>,
        params: Option<&'a RawValue>,
    },
    /// A response to one of our requests.
    Response {
        /// `None` if the peer could not parse the request.
        id: Option<RpcId<'a>>,
        result: Result<&'a RawValue, ErrorObject>,
    },
}

/// The error of a failed request.
#[derive(Clone, Debug, Serialize)]
pub struct ErrorObject {
    pub code: i64,
    pub message: Box<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<RawValue>>,
}

impl ErrorObject {
    pub fn new(code: i64, message: impl Into<Box<str>>) -> Self {
        Self { code, message: message.into(), data: None }
    }
}

impl fmt::Display for ErrorObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

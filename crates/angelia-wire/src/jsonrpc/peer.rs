//! One side of a JSON-RPC connection: encodes our messages as lines, and matches the other side's
//! responses to our requests. It does no I/O and does not interpret methods.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;

use super::{
    decode::{DecodeError, decode},
    encode::{self, VersionField},
    message::{ErrorObject, RpcId, RpcMessage},
    pending::{PendingRequests, ResponseMatch},
};

/// Our side of a connection. A `T` is kept for each pending request and returned with its response.
#[derive(Debug)]
pub struct Peer<T> {
    version: VersionField,
    pending: PendingRequests<T>,
}

/// A decoded line from the other side.
#[derive(Debug)]
pub enum Received<'a, T> {
    /// The other side expects a response with this id.
    Request {
        id: RpcId<'a>,
        method: Cow<'a, str>,
        params: Option<&'a RawValue>,
    },
    Notification {
        method: Cow<'a, str>,
        params: Option<&'a RawValue>,
    },
    /// The response to a pending request, with its waiter.
    Response {
        waiter: T,
        result: Result<&'a RawValue, ErrorObject>,
    },
    /// A response to a request that was cancelled or never sent.
    UnexpectedResponse,
    /// Not a message, or an error without an id: the other side could not parse our message.
    Invalid(DecodeError),
}

impl<T> Peer<T> {
    pub fn new(version: VersionField) -> Self {
        Self { version, pending: PendingRequests::default() }
    }

    /// Encodes a request and remembers its waiter. Gives the waiter back if the parameters cannot
    /// be serialized or the connection is closed.
    pub fn request<P: Serialize + ?Sized>(
        &mut self,
        method: &str,
        params: &P,
        waiter: T,
    ) -> Result<(RpcId<'static>, Vec<u8>), T> {
        let id = self.pending.register(waiter)?;
        match encode::request(self.version, &id, method, params) {
            Ok(line) => Ok((id, line)),
            Err(_) => match self.pending.cancel(&id) {
                Some(waiter) => Err(waiter),
                // Unreachable: the waiter was registered above. Every peer ignores an empty line.
                None => Ok((id, Vec::new())),
            },
        }
    }

    /// Encodes a notification. The line is empty if the parameters cannot be serialized.
    pub fn notification<P: Serialize + ?Sized>(&self, method: &str, params: Option<&P>) -> Vec<u8> {
        encode::notification(self.version, method, params).unwrap_or_default()
    }

    /// Encodes the response to a request from the other side.
    pub fn response<R: Serialize + ?Sized>(
        &self,
        id: &RpcId<'_>,
        result: Result<&R, &ErrorObject>,
    ) -> Vec<u8> {
        let line = match result {
            Ok(result) => encode::result(self.version, id, result),
            Err(error) => encode::error(self.version, id, error),
        };
        line.unwrap_or_default()
    }

    /// Decodes a line. A response removes its request from the pending ones.
    pub fn receive<'a>(&mut self, line: &'a [u8]) -> Received<'a, T> {
        match decode(line) {
            Ok(RpcMessage::Request { id, method, params }) => {
                Received::Request { id, method, params }
            }
            Ok(RpcMessage::Notification { method, params }) => {
                Received::Notification { method, params }
            }
            Ok(RpcMessage::Response { id: Some(id), result }) => {
                match self.pending.match_response(&id) {
                    ResponseMatch::Waiter(waiter) => Received::Response { waiter, result },
                    ResponseMatch::Late | ResponseMatch::Unknown => Received::UnexpectedResponse,
                }
            }
            Ok(RpcMessage::Response { id: None, .. }) => Received::Invalid(DecodeError::BadId),
            Err(error) => Received::Invalid(error),
        }
    }

    /// Stops waiting for a response. If it still arrives, it is [`Received::UnexpectedResponse`].
    pub fn cancel(&mut self, id: &RpcId<'_>) -> Option<T> {
        self.pending.cancel(id)
    }

    /// Stops waiting for the responses for which `keep` returns `false`.
    pub fn retain(&mut self, keep: impl FnMut(&T) -> bool) {
        self.pending.retain(keep);
    }

    /// Reports whether no request awaits a response.
    pub fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }
}

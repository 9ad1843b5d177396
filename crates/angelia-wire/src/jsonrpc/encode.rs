//! Encodes messages as lines, each with its line break.
//!
//! Fails only if the caller's value cannot be serialized to JSON (a map with keys that are not
//! strings); such a message is not sent.

use bytes::BytesMut;
use serde::Serialize;

use super::message::{ErrorObject, Id};
use crate::ndjson;

/// Whether messages have a `jsonrpc` field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Without `"jsonrpc":"2.0"`.
    Bare,
    /// With it.
    V2,
}

#[derive(Serialize)]
struct Envelope<'a, P, R> {
    #[serde(skip_serializing_if = "Option::is_none")]
    jsonrpc: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a Id<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<P>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<R>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a ErrorObject<'a>>,
}

/// Type of absent parameters or results.
type Nothing = ();

impl<P, R> Envelope<'_, P, R> {
    fn new(dialect: Dialect) -> Self {
        Self {
            jsonrpc: (dialect == Dialect::V2).then_some("2.0"),
            id: None,
            method: None,
            params: None,
            result: None,
            error: None,
        }
    }
}

impl<P: Serialize, R: Serialize> Envelope<'_, P, R> {
    fn line(&self) -> serde_json::Result<Vec<u8>> {
        let json = serde_json::to_vec(self)?;
        // Raw JSON from elsewhere may contain line breaks.
        let mut line = BytesMut::new();
        ndjson::encode(&mut line, &json);
        Ok(line.into())
    }
}

/// Encodes a request; the response will have the same `id`.
pub fn request<P: Serialize + ?Sized>(
    dialect: Dialect,
    id: &Id<'_>,
    method: &str,
    params: &P,
) -> serde_json::Result<Vec<u8>> {
    Envelope::<&P, Nothing> {
        id: Some(id),
        method: Some(method),
        params: Some(params),
        ..Envelope::new(dialect)
    }
    .line()
}

/// Encodes a notification, which has no response.
pub fn notification<P: Serialize + ?Sized>(
    dialect: Dialect,
    method: &str,
    params: Option<&P>,
) -> serde_json::Result<Vec<u8>> {
    Envelope::<&P, Nothing> { method: Some(method), params, ..Envelope::new(dialect) }.line()
}

/// Encodes a successful response.
pub fn result<R: Serialize + ?Sized>(
    dialect: Dialect,
    id: &Id<'_>,
    result: &R,
) -> serde_json::Result<Vec<u8>> {
    Envelope::<Nothing, &R> { id: Some(id), result: Some(result), ..Envelope::new(dialect) }.line()
}

/// Encodes an error response.
pub fn error(
    dialect: Dialect,
    id: &Id<'_>,
    error: &ErrorObject<'_>,
) -> serde_json::Result<Vec<u8>> {
    Envelope::<Nothing, Nothing> { id: Some(id), error: Some(error), ..Envelope::new(dialect) }
        .line()
}

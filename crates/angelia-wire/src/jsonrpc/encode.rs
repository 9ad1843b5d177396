//! Encodes messages as lines, each with its line break.
//!
//! Fails only if the caller's value cannot be serialized to JSON (a map with keys that are not
//! strings); such a message is not sent.

use bytes::BytesMut;
use serde::Serialize;

use super::message::{ErrorObject, RpcId};
use crate::ndjson;

/// Whether messages have a `jsonrpc` field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionField {
    /// Without `"jsonrpc":"2.0"`.
    Omit,
    /// With it.
    Include,
}

#[derive(Serialize)]
struct OutgoingEnvelope<'a, P, R> {
    #[serde(skip_serializing_if = "Option::is_none")]
    jsonrpc: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a RpcId<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<P>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<R>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a ErrorObject>,
}

/// Type of absent parameters or results.
type NoValue = ();

impl<P, R> OutgoingEnvelope<'_, P, R> {
    fn new(version: VersionField) -> Self {
        Self {
            jsonrpc: (version == VersionField::Include).then_some("2.0"),
            id: None,
            method: None,
            params: None,
            result: None,
            error: None,
        }
    }
}

impl<P: Serialize, R: Serialize> OutgoingEnvelope<'_, P, R> {
    fn to_line(&self) -> serde_json::Result<Vec<u8>> {
        let json = serde_json::to_vec(self)?;
        // Raw JSON from elsewhere may contain line breaks.
        let mut line = BytesMut::new();
        ndjson::encode(&mut line, &json);
        Ok(line.into())
    }
}

/// Encodes a request; the response will have the same `id`.
pub fn request<P: Serialize + ?Sized>(
    version: VersionField,
    id: &RpcId<'_>,
    method: &str,
    params: &P,
) -> serde_json::Result<Vec<u8>> {
    OutgoingEnvelope::<&P, NoValue> {
        id: Some(id),
        method: Some(method),
        params: Some(params),
        ..OutgoingEnvelope::new(version)
    }
    .to_line()
}

/// Encodes a notification, which has no response.
pub fn notification<P: Serialize + ?Sized>(
    version: VersionField,
    method: &str,
    params: Option<&P>,
) -> serde_json::Result<Vec<u8>> {
    OutgoingEnvelope::<&P, NoValue> {
        method: Some(method),
        params,
        ..OutgoingEnvelope::new(version)
    }
    .to_line()
}

/// Encodes a successful response.
pub fn result<R: Serialize + ?Sized>(
    version: VersionField,
    id: &RpcId<'_>,
    result: &R,
) -> serde_json::Result<Vec<u8>> {
    OutgoingEnvelope::<NoValue, &R> {
        id: Some(id),
        result: Some(result),
        ..OutgoingEnvelope::new(version)
    }
    .to_line()
}

/// Encodes an error response.
pub fn error(
    version: VersionField,
    id: &RpcId<'_>,
    error: &ErrorObject,
) -> serde_json::Result<Vec<u8>> {
    OutgoingEnvelope::<NoValue, NoValue> {
        id: Some(id),
        error: Some(error),
        ..OutgoingEnvelope::new(version)
    }
    .to_line()
}

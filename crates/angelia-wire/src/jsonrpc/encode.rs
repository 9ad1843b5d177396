//! Encodes messages as lines, including the line break.
//!
//! Encoding fails only if the caller's value has no JSON form (a map whose keys are not strings);
//! such a message is never sent.

use bytes::BytesMut;
use serde::Serialize;

use super::message::{ErrorObject, RpcId};
use crate::ndjson;

/// Whether messages carry `"jsonrpc":"2.0"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionField {
    Omit,
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

/// Stands in for absent parameters or an absent result.
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
        // Raw JSON that the caller passes through may contain line breaks.
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

/// Encodes a notification, which gets no response.
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

//! Decodes a line into a message. Accepts arbitrary bytes: it never panics and never guesses.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::message::{ErrorObject, RpcId, RpcMessage};

/// Why a line is not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("the line is not JSON")]
    NotJson,
    #[error("the line is JSON, but not a message: it has neither a method nor a response")]
    NotAMessage,
    #[error("the id of the message is neither a string nor an integer")]
    BadId,
}

/// The fields of any message. A `null` field is `Some`; only an absent field is `None`.
#[derive(Deserialize)]
struct IncomingEnvelope<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

/// Decodes one line, without its line break.
pub fn decode(line: &[u8]) -> Result<RpcMessage<'_>, DecodeError> {
    let envelope: IncomingEnvelope<'_> = match serde_json::from_slice(line) {
        Ok(envelope) => envelope,
        Err(error) if error.is_data() => return Err(DecodeError::NotAMessage),
        Err(_) => return Err(DecodeError::NotJson),
    };
    let id = envelope.id.filter(|id| id.get() != "null");
    let id: Option<RpcId<'_>> =
        id.map(|id| serde_json::from_str(id.get())).transpose().map_err(|_| DecodeError::BadId)?;
    if let Some(method) = envelope.method {
        let method: MethodName<'_> =
            serde_json::from_str(method.get()).map_err(|_| DecodeError::NotAMessage)?;
        let (method, params) = (method.0, envelope.params);
        return Ok(match id {
            Some(id) => RpcMessage::Request { id, method, params },
            None => RpcMessage::Notification { method, params },
        });
    }
    // A response that has both an error and a result is a failure.
    let error = envelope.error.filter(|error| error.get() != "null");
    let result = match (error, envelope.result) {
        (Some(error), _) => Err(error_object(error)),
        (None, Some(result)) if id.is_some() => Ok(result),
        _ => return Err(DecodeError::NotAMessage),
    };
    Ok(RpcMessage::Response { id, result })
}

/// A method's name, borrowed unless it contains escapes.
#[derive(Deserialize)]
struct MethodName<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
struct LooseError {
    #[serde(default)]
    code: Option<i64>,
    message: Box<str>,
    #[serde(default)]
    data: Option<Box<RawValue>>,
}

/// Decodes an error. One of another shape is still an error; its JSON text becomes the message.
fn error_object(error: &RawValue) -> ErrorObject {
    match serde_json::from_str(error.get()) {
        Ok(LooseError { code, message, data }) => {
            ErrorObject { code: code.unwrap_or_default(), message, data }
        }
        Err(_) => ErrorObject::new(0, error.get()),
    }
}

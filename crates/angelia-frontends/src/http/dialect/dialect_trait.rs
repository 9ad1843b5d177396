//! The traits that a dialect implements to encode answers and errors. Implementations are pure: all
//! decisions are made elsewhere.
//!
//! A handler is thin: the dialect's own `decode` turns the body into a [`ModelRequest`] and a value
//! that implements [`Dialect`], and `dialect::serve` does the rest.

use std::{fmt, time::Duration};

use angelia_core::model::{Failure, FailureKind};
use axum::http::StatusCode;

use super::{AnswerChunk, AnswerHeader, CompleteAnswer, InvalidRequest, ModelRequest};

/// The encoding of the answer to one request. The value keeps the options of the request that
/// affect only the encoding, for example whether a stream ends with its usage.
pub trait Dialect: Send + Sync + 'static {
    /// The state of one stream.
    type Encoder: AnswerEncoder;

    /// Creates the encoder of a stream. It is then given every chunk, `Start` first.
    fn encoder(&self, ask: &ModelRequest, begin: &AnswerHeader) -> Self::Encoder;

    /// Returns the JSON body of an answer that is not streamed.
    fn encode_complete(&self, ask: &ModelRequest, whole: &CompleteAnswer) -> Vec<u8>;

    /// Returns the JSON body of an error and its status: [`DialectError::status`], unless the
    /// clients of the dialect expect another. Headers (`retry-after`, `www-authenticate`) are set
    /// elsewhere.
    fn encode_error(error: &DialectError) -> (StatusCode, Vec<u8>);

    /// A complete frame without content, sent while the turn is idle.
    fn keep_alive() -> &'static [u8];
}

/// Encodes the chunks of one stream. `encode` appends complete frames to `out`; none if a chunk has
/// no event in this dialect.
pub trait AnswerEncoder: Send + 'static {
    fn encode(&mut self, piece: &AnswerChunk, out: &mut Vec<u8>);
}

/// The reason why a request has no answer. Nothing of an answer has been sent.
#[derive(Clone, Debug)]
pub struct DialectError {
    pub kind: ErrorKind,
    pub message: String,
    /// The advice for the user. Dialects without a field for it append it to the message.
    pub hint: Option<String>,
    /// The path of the offending field, as the caller would write it.
    pub field: Option<String>,
    /// Sent as the `retry-after` header.
    pub retry_after: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The turn failed.
    Failed(FailureKind),
    /// The request cannot be served as it stands.
    Refused,
    /// The request has no valid key.
    NoKey,
    /// The key does not allow the request, or the owner's configuration does not.
    NotGranted,
    UnknownModel,
    /// No such path, turn or session.
    NotFound,
    WrongMethod,
    /// The body did not arrive in time.
    TooSlow,
    /// The idempotency key belongs to another request, or the request comes too late.
    Conflict,
    TooLarge,
    /// The `Host` header does not name this daemon.
    Misdirected,
    /// The model violated a constraint of the request: a schema, or a required tool call.
    Unmet,
    /// The queue is full, or the key has reached its spend limit.
    Busy,
    /// The turn was interrupted before anything was sent.
    Interrupted,
    /// The daemon is shutting down.
    Stopping,
}

impl ErrorKind {
    pub const ALL: [Self; 22] = [
        Self::Failed(FailureKind::Auth),
        Self::Failed(FailureKind::RateLimited),
        Self::Failed(FailureKind::Unavailable),
        Self::Failed(FailureKind::Invalid),
        Self::Failed(FailureKind::Refused),
        Self::Failed(FailureKind::Timeout),
        Self::Failed(FailureKind::Agent),
        Self::Failed(FailureKind::Internal),
        Self::Refused,
        Self::NoKey,
        Self::NotGranted,
        Self::UnknownModel,
        Self::NotFound,
        Self::WrongMethod,
        Self::TooSlow,
        Self::Conflict,
        Self::TooLarge,
        Self::Misdirected,
        Self::Unmet,
        Self::Busy,
        Self::Interrupted,
        Self::Stopping,
    ];

    /// Returns the default HTTP status of the kind; a dialect may override it.
    pub const fn status(self) -> StatusCode {
        match self {
            // Not 401, which is about our own keys: here the agent lacks its login.
            Self::Failed(FailureKind::Auth) => StatusCode::FAILED_DEPENDENCY,
            Self::Failed(FailureKind::RateLimited) | Self::Busy => StatusCode::TOO_MANY_REQUESTS,
            Self::Failed(FailureKind::Unavailable) | Self::Stopping => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::Failed(FailureKind::Invalid) | Self::Refused => StatusCode::BAD_REQUEST,
            Self::Failed(FailureKind::Refused) | Self::NotGranted => StatusCode::FORBIDDEN,
            Self::Failed(FailureKind::Timeout) => StatusCode::GATEWAY_TIMEOUT,
            Self::Failed(FailureKind::Agent) => StatusCode::BAD_GATEWAY,
            Self::Failed(FailureKind::Internal) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::NoKey => StatusCode::UNAUTHORIZED,
            Self::UnknownModel | Self::NotFound => StatusCode::NOT_FOUND,
            Self::WrongMethod => StatusCode::METHOD_NOT_ALLOWED,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Conflict | Self::Interrupted => StatusCode::CONFLICT,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Misdirected => StatusCode::MISDIRECTED_REQUEST,
            Self::Unmet => StatusCode::UNPROCESSABLE_ENTITY,
        }
    }
}

impl DialectError {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None, field: None, retry_after: None }
    }

    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub const fn status(&self) -> StatusCode {
        self.kind.status()
    }
}

impl From<InvalidRequest> for DialectError {
    fn from(refused: InvalidRequest) -> Self {
        Self { field: refused.field, ..Self::new(ErrorKind::Refused, refused.message) }
    }
}

impl From<Failure> for DialectError {
    fn from(failure: Failure) -> Self {
        Self {
            kind: ErrorKind::Failed(failure.kind),
            message: failure.message.to_string(),
            hint: failure.hint.map(|hint| hint.to_string()),
            field: None,
            retry_after: failure.retry_after,
        }
    }
}

/// Writes the message, then the hint.
impl fmt::Display for DialectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for DialectError {}

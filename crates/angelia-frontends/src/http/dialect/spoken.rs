//! How a dialect spells answers. Everything here is pure: what is decided is decided elsewhere.
//!
//! A handler is thin: `dialect::read` gives the body, the dialect's own `decode` gives an
//! [`Ask`] and a value that implements [`Dialect`], and `dialect::serve` does the rest.

use std::{fmt, time::Duration};

use angelia_core::model::{Failure, FailureKind};
use axum::http::StatusCode;

use super::{Ask, Begin, Piece, Refused, Whole};

/// One request's way to spell its answer; what the caller asked of the spelling alone (whether
/// usage is wanted at the end of a stream, …) is kept in the value.
pub trait Dialect: Send + Sync + 'static {
    /// The state of one stream.
    type Encoder: Encoder;

    /// The encoder is then given every piece, `Begin` first.
    fn encoder(&self, ask: &Ask, begin: &Begin) -> Self::Encoder;

    /// The JSON body of an answer that is not streamed.
    fn whole(&self, ask: &Ask, whole: &Whole) -> Vec<u8>;

    /// The JSON body of an error, and its status: [`DialectError::status`] unless the dialect's
    /// clients expect another. Headers (`retry-after`, `www-authenticate`) are not its concern.
    fn error(error: &DialectError) -> (StatusCode, Vec<u8>);

    /// A complete frame that says nothing, sent while nothing happens.
    fn keep_alive() -> &'static [u8];
}

/// Appends complete frames of an event stream to `out`; none, where a piece has no event.
pub trait Encoder: Send + 'static {
    fn piece(&mut self, piece: &Piece, out: &mut Vec<u8>);
}

/// Why there is no answer. Nothing of one was shown.
#[derive(Clone, Debug)]
pub struct DialectError {
    pub kind: ErrorKind,
    /// What failed.
    pub message: String,
    /// What to do about it; dialects without a place for it add it to the message.
    pub hint: Option<String>,
    /// The field of the request that is meant, in the caller's words.
    pub field: Option<String>,
    /// Becomes the header `retry-after`.
    pub retry_after: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The turn failed.
    Failed(FailureKind),
    /// The request cannot be served as it stands.
    Refused,
    /// No key, or a wrong one.
    NoKey,
    /// The key does not allow it, or the owner has not.
    NotGranted,
    UnknownModel,
    /// No such path, turn or session.
    NotFound,
    WrongMethod,
    /// The body did not arrive in time.
    TooSlow,
    /// The key of the request was used for another one, or it comes too late.
    Conflict,
    TooLarge,
    /// The host name is not ours.
    Misdirected,
    /// The model did not give what was demanded: a schema, a call of a tool.
    Unmet,
    /// Too many requests wait already, or a ceiling of the key is reached.
    Busy,
    /// Somebody stopped the turn before anything was shown.
    Interrupted,
    /// Angelia is stopping.
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

    /// The table: how it is answered, where the dialect has no wish of its own.
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

impl From<Refused> for DialectError {
    fn from(refused: Refused) -> Self {
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

/// What failed, then what to do about it.
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

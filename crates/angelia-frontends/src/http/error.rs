//! The error type of all paths. `/api` writes it in Angelia's own format; each dialect of `/v1`
//! writes it in the format of its clients, from a table over [`ErrorKind`].

use std::{borrow::Cow, fmt, time::Duration};

use angelia_core::{
    engine::EngineError,
    model::{Failure, FailureKind},
    ports::StoreError,
};
use axum::{
    extract::Request,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::early_errors;
use crate::event_json::ceil_seconds;

/// How long a caller should wait before it tries again after a shutdown: a restart takes a few
/// seconds.
const RESTART_TIME: Duration = Duration::from_secs(5);

/// `{"error":{"kind","message","hint"}}`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorBody {
    pub error: ErrorDetail,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorDetail {
    /// A [`FailureKind`], or one of `not_found`, `conflict` (too late), `busy` (try again later),
    /// `too_large`.
    pub kind: Cow<'static, str>,
    /// A description of the failure.
    pub message: String,
    /// Advice on how to solve it.
    pub hint: Option<String>,
}

/// Why a request has no answer. No part of an answer was sent.
#[derive(Clone, Debug)]
pub struct HttpError {
    pub kind: ErrorKind,
    /// The code that `/api` reports if [`ErrorKind::code`] is not specific enough.
    pub code: Option<&'static str>,
    pub message: String,
    /// Advice for the user. Formats without a field for it append it to the message.
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
    /// The agent cannot be started on this machine because it is not installed or too old. Waiting
    /// does not help.
    NotStarted,
    /// The request cannot be served as it is.
    Refused,
    /// The request has no valid key.
    NoKey,
    /// The key or the owner's configuration does not allow the request.
    NotGranted,
    UnknownModel,
    /// No such path, turn or session.
    NotFound,
    WrongMethod,
    /// The body did not arrive in time.
    TooSlow,
    /// The idempotency key belongs to another request, or the request comes too late.
    Conflict,
    /// Another process owns the session, or has changed its record meanwhile. The same request may
    /// succeed later.
    SessionHeld,
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
    pub const ALL: [Self; 24] = [
        Self::Failed(FailureKind::Auth),
        Self::Failed(FailureKind::RateLimited),
        Self::Failed(FailureKind::Unavailable),
        Self::Failed(FailureKind::Invalid),
        Self::Failed(FailureKind::Refused),
        Self::Failed(FailureKind::Timeout),
        Self::Failed(FailureKind::Agent),
        Self::Failed(FailureKind::Internal),
        Self::NotStarted,
        Self::Refused,
        Self::NoKey,
        Self::NotGranted,
        Self::UnknownModel,
        Self::NotFound,
        Self::WrongMethod,
        Self::TooSlow,
        Self::Conflict,
        Self::SessionHeld,
        Self::TooLarge,
        Self::Misdirected,
        Self::Unmet,
        Self::Busy,
        Self::Interrupted,
        Self::Stopping,
    ];

    /// Returns the HTTP status of the kind, which is the same in every format.
    pub const fn status(self) -> StatusCode {
        match self {
            // Not 401, which is about our own keys: here, the agent lacks its login. Not 503, which
            // clients retry for minutes, although a missing agent stays missing.
            Self::Failed(FailureKind::Auth) | Self::NotStarted => StatusCode::FAILED_DEPENDENCY,
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
            Self::Conflict | Self::SessionHeld | Self::Interrupted => StatusCode::CONFLICT,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Misdirected => StatusCode::MISDIRECTED_REQUEST,
            Self::Unmet => StatusCode::UNPROCESSABLE_ENTITY,
        }
    }

    /// Returns the `kind` that `/api` reports.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Failed(kind) => kind.as_str(),
            Self::NotStarted => FailureKind::Unavailable.as_str(),
            Self::Refused | Self::WrongMethod | Self::Unmet => "invalid",
            Self::NoKey => "auth",
            Self::NotGranted | Self::Misdirected => "refused",
            Self::UnknownModel | Self::NotFound => "not_found",
            Self::TooSlow => "timeout",
            Self::Conflict | Self::Interrupted => "conflict",
            Self::TooLarge => "too_large",
            Self::Busy => "rate_limited",
            Self::SessionHeld | Self::Stopping => "busy",
        }
    }
}

impl HttpError {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            code: None,
            message: message.into(),
            hint: None,
            field: None,
            retry_after: None,
        }
    }

    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    #[must_use]
    pub const fn with_code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    pub const fn status(&self) -> StatusCode {
        self.kind.status()
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Refused, message)
    }

    pub(super) fn not_found(what: &str) -> Self {
        Self::new(ErrorKind::NotFound, format!("no such {what}"))
            .with_hint(format!("`angelia {what}s list` lists them"))
    }

    pub(super) fn no_key(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NoKey, message)
    }

    pub(super) fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Failed(FailureKind::Internal), message)
    }

    /// Returns the response with this body. The headers are the same in every format.
    pub(super) fn response(&self, body: Vec<u8>) -> Response {
        let content_type = [(header::CONTENT_TYPE, "application/json")];
        let mut response = (self.status(), content_type, body).into_response();
        let headers = response.headers_mut();
        if self.kind == ErrorKind::NoKey {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(wait) = self.retry_after {
            headers.insert(header::RETRY_AFTER, ceil_seconds(wait).into());
        }
        response
    }
}

impl HttpError {
    /// Creates the error for a model that the vendor does not have.
    pub(super) fn unknown_model(failure: Failure) -> Self {
        Self { kind: ErrorKind::UnknownModel, ..failure.into() }
    }

    /// Creates the error for a turn whose agent was not started. A temporary reason keeps its own
    /// kind.
    pub(super) fn not_started(failure: Failure) -> Self {
        let is_lasting = failure.kind == FailureKind::Unavailable;
        let error = Self::from(failure);
        if is_lasting { Self { kind: ErrorKind::NotStarted, ..error } } else { error }
    }
}

impl From<Failure> for HttpError {
    fn from(failure: Failure) -> Self {
        Self {
            hint: failure.hint.map(|hint| hint.to_string()),
            retry_after: failure.retry_after,
            ..Self::new(ErrorKind::Failed(failure.kind), failure.message.to_string())
        }
    }
}

impl From<EngineError> for HttpError {
    fn from(error: EngineError) -> Self {
        let message = error.to_string();
        let kind = match error {
            EngineError::NotFound(what) | EngineError::Store(StoreError::NotFound(what)) => {
                return Self::not_found(what);
            }
            EngineError::Failed(failure) => return failure.into(),
            EngineError::Store(
                StoreError::Held(_) | StoreError::LeaseLost | StoreError::Conflict,
            ) => ErrorKind::SessionHeld,
            EngineError::TurnRunning
            | EngineError::NotRunning
            | EngineError::KeyReused(_)
            | EngineError::NotPending
            | EngineError::Store(StoreError::TurnFinished) => ErrorKind::Conflict,
            EngineError::NotOffered(_) => ErrorKind::Refused,
            EngineError::QueueFull { .. } => ErrorKind::Busy,
            EngineError::ShuttingDown => {
                return Self {
                    retry_after: Some(RESTART_TIME),
                    ..Self::new(ErrorKind::Stopping, message)
                };
            }
            EngineError::Store(
                StoreError::DuplicateEvent { .. }
                | StoreError::MissingEvent { .. }
                | StoreError::TooLarge { .. }
                | StoreError::Failed { .. },
            ) => ErrorKind::Failed(FailureKind::Internal),
        };
        Self::new(kind, message)
    }
}

impl From<StoreError> for HttpError {
    fn from(error: StoreError) -> Self {
        EngineError::from(error).into()
    }
}

/// Writes the format of `/api`.
impl IntoResponse for HttpError {
    fn into_response(self) -> Response {
        let kind = self.code.unwrap_or(self.kind.code()).into();
        let (message, hint) = (self.message.clone(), self.hint.clone());
        let body = ErrorBody { error: ErrorDetail { kind, message, hint } };
        // Writing to memory cannot fail.
        self.response(serde_json::to_vec(&body).unwrap_or_default())
    }
}

/// Writes the message, then the hint.
impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for HttpError {}

pub(super) fn no_such_path(request: &Request) -> Response {
    let message = format!("there is nothing at {}", request.uri().path());
    early_errors::error_response(request, HttpError::new(ErrorKind::NotFound, message))
}

pub(super) async fn wrong_method(request: Request) -> Response {
    let (method, path) = (request.method(), request.uri().path());
    let message = format!("{method} is not possible at {path}");
    early_errors::error_response(&request, HttpError::new(ErrorKind::WrongMethod, message))
}

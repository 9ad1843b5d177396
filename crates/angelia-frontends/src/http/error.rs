//! Error responses of `/api`: one shape, and one table of statuses.

use std::{borrow::Cow, fmt, time::Duration};

use angelia_core::{
    engine::EngineError,
    model::{Failure, FailureKind},
    ports::StoreError,
};
use axum::{
    Json,
    extract::Request,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    dialect::{DialectError, ErrorKind},
    early_errors,
};
use crate::event_json::ceil_seconds;

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
    /// What failed.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

#[derive(Debug)]
pub struct ApiError {
    status: StatusCode,
    detail: ErrorDetail,
    retry_after: Option<Duration>,
}

impl ApiError {
    pub(super) fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            detail: ErrorDetail { kind: kind.into(), message: message.into(), hint: None },
            retry_after: None,
        }
    }

    #[must_use]
    pub(super) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.detail.hint = Some(hint.into());
        self
    }

    pub fn status(&self) -> StatusCode {
        self.status
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid", message)
    }

    pub(super) fn not_found(what: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", format!("no such {what}"))
            .with_hint(format!("`angelia {what}s list` shows which there are"))
    }

    pub(super) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
    }

    pub(super) fn too_large(limit: usize) -> Self {
        let message = format!("the body is larger than {} MiB", limit >> 20);
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
            .with_hint("send less at once; let the agent read large material from files")
    }

    pub(super) fn too_slow() -> Self {
        let message = "the body did not arrive in time";
        Self::new(StatusCode::REQUEST_TIMEOUT, "timeout", message)
    }

    pub(super) fn no_token() -> Self {
        let message = "this needs the owner's token or a key";
        Self::new(StatusCode::UNAUTHORIZED, "auth", message).with_hint(
            "send the content of $ANGELIA_HOME/token, or a key made by `angelia keys add`, as \
             `Authorization: Bearer …` or `x-api-key`",
        )
    }

    pub(super) fn owners_only() -> Self {
        let message = "this key is for the model APIs (/v1)";
        Self::new(StatusCode::FORBIDDEN, "auth", message)
            .with_hint("/api needs the owner's token, which is in $ANGELIA_HOME/token")
    }

    pub(super) fn other_user() -> Self {
        let message = "this socket serves only the user it belongs to";
        Self::new(StatusCode::FORBIDDEN, "auth", message)
    }

    pub(super) fn agent_cannot_decide() -> Self {
        let message = "an agent's process cannot decide";
        Self::new(StatusCode::FORBIDDEN, "refused", message)
            .with_hint("decide it yourself, in a terminal that no agent has started")
    }

    pub(super) fn wrong_host() -> Self {
        let message = "this host name is not ours";
        Self::new(StatusCode::MISDIRECTED_REQUEST, "refused", message).with_hint(
            "use localhost or 127.0.0.1 with the right port, or add the name to http.allowed_hosts",
        )
    }

    pub(super) fn foreign_origin() -> Self {
        let message = "pages of this origin may not call angelia";
        Self::new(StatusCode::FORBIDDEN, "refused", message)
            .with_hint("add the origin to http.allowed_origins if it is yours")
    }
}

/// Translates an error of `/api` for the dialects.
impl From<ApiError> for DialectError {
    fn from(error: ApiError) -> Self {
        let ApiError { status, detail, retry_after } = error;
        let kind = match status {
            StatusCode::UNAUTHORIZED => ErrorKind::NoKey,
            StatusCode::FORBIDDEN => ErrorKind::NotGranted,
            StatusCode::NOT_FOUND => ErrorKind::NotFound,
            StatusCode::METHOD_NOT_ALLOWED => ErrorKind::WrongMethod,
            StatusCode::REQUEST_TIMEOUT => ErrorKind::TooSlow,
            StatusCode::CONFLICT => ErrorKind::Conflict,
            StatusCode::PAYLOAD_TOO_LARGE => ErrorKind::TooLarge,
            StatusCode::MISDIRECTED_REQUEST => ErrorKind::Misdirected,
            StatusCode::TOO_MANY_REQUESTS => ErrorKind::Busy,
            StatusCode::SERVICE_UNAVAILABLE => ErrorKind::Stopping,
            StatusCode::BAD_REQUEST => ErrorKind::Refused,
            _ => {
                ErrorKind::Failed(FailureKind::parse(&detail.kind).unwrap_or(FailureKind::Internal))
            }
        };
        Self { kind, message: detail.message, hint: detail.hint, field: None, retry_after }
    }
}

/// Returns the HTTP status of a failure.
const fn failure_status(kind: FailureKind) -> StatusCode {
    match kind {
        // Not 401, which is about our own token: here the agent lacks its login.
        FailureKind::Auth => StatusCode::FAILED_DEPENDENCY,
        FailureKind::RateLimited => StatusCode::TOO_MANY_REQUESTS,
        FailureKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        FailureKind::Invalid => StatusCode::BAD_REQUEST,
        FailureKind::Refused => StatusCode::FORBIDDEN,
        FailureKind::Timeout => StatusCode::GATEWAY_TIMEOUT,
        FailureKind::Agent => StatusCode::BAD_GATEWAY,
        FailureKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl From<Failure> for ApiError {
    fn from(failure: Failure) -> Self {
        Self {
            status: failure_status(failure.kind),
            detail: ErrorDetail {
                kind: failure.kind.as_str().into(),
                message: failure.message.to_string(),
                hint: failure.hint.map(|hint| hint.to_string()),
            },
            retry_after: failure.retry_after,
        }
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        let message = error.to_string();
        match error {
            EngineError::NotFound(what) | EngineError::Store(StoreError::NotFound(what)) => {
                Self::not_found(what)
            }
            EngineError::QueueFull { .. } => {
                Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", message)
            }
            EngineError::NotRunning
            | EngineError::KeyReused(_)
            | EngineError::NotPending
            | EngineError::Store(StoreError::TurnFinished) => {
                Self::new(StatusCode::CONFLICT, "conflict", message)
            }
            EngineError::Store(
                StoreError::Held(_) | StoreError::LeaseLost | StoreError::Conflict,
            ) => Self::new(StatusCode::CONFLICT, "busy", message),
            EngineError::ShuttingDown => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message)
            }
            EngineError::Store(StoreError::DuplicateEvent { .. } | StoreError::Failed { .. }) => {
                Self::internal(message)
            }
            EngineError::Failed(failure) => failure.into(),
        }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        EngineError::from(error).into()
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let Self { status, detail, retry_after } = self;
        let mut response = (status, Json(ErrorBody { error: detail })).into_response();
        let headers = response.headers_mut();
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(wait) = retry_after {
            headers.insert(header::RETRY_AFTER, ceil_seconds(wait).into());
        }
        response
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.status.as_u16(), self.detail.message)
    }
}

impl std::error::Error for ApiError {}

pub(super) async fn no_such_path(request: Request) -> Response {
    let message = format!("there is nothing at {}", request.uri().path());
    let error = ApiError::new(StatusCode::NOT_FOUND, "not_found", message);
    early_errors::error_response(&request, error)
}

pub(super) async fn wrong_method(request: Request) -> Response {
    let (method, path) = (request.method(), request.uri().path());
    let message = format!("{method} is not possible at {path}");
    let error = ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "invalid", message);
    early_errors::error_response(&request, error)
}

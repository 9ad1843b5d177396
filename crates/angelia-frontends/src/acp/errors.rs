//! Failures as JSON-RPC errors: one table from our kinds to the protocol's codes. The message
//! includes the hint, because most editors show nothing else; programs read `data`.

use std::{fmt::Display, path::Path};

use agent_client_protocol_schema::v1;
use angelia_core::{
    engine::EngineError,
    model::{Failure, FailureKind, Usage},
    ports::StoreError,
};
use angelia_wire::jsonrpc::{ErrorObject, INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::prompt_response::turn_tokens;
use crate::event_json::FailureJson;

pub(super) const PARSE_ERROR: i64 = -32700;
pub(super) const INVALID_REQUEST: i64 = -32600;
/// The agent is not logged in.
pub(super) const AUTH_REQUIRED: i64 = -32000;
/// There is no such session.
const RESOURCE_NOT_FOUND: i64 = -32002;

/// The error that answers a failed request.
#[derive(Debug)]
pub(super) struct AcpError {
    pub(super) code: i64,
    pub(super) message: String,
    data: Option<Box<RawValue>>,
}

impl AcpError {
    pub(super) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    pub(super) fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(INVALID_PARAMS, message)
    }

    pub(super) fn unknown_method(method: &str) -> Self {
        Self::new(METHOD_NOT_FOUND, format!("there is no method `{method}` here"))
    }

    pub(super) fn malformed_params(method: &str, error: impl Display) -> Self {
        Self::invalid_params(format!("the parameters of `{method}` are invalid: {error}"))
    }

    pub(super) fn session_not_found(id: &str) -> Self {
        let message = format!(
            "there is no session `{id}` here; begin one with session/new, or open it with \
             session/load or session/resume"
        );
        Self::new(RESOURCE_NOT_FOUND, message)
    }

    pub(super) fn wrong_directory(cwd: &Path) -> Self {
        let message = format!(
            "the session was started in {} and stays there; open it from that directory",
            cwd.display()
        );
        Self::invalid_params(message)
    }

    /// Returns the error for a failed turn, including the turn's usage.
    pub(super) fn turn_failed(failure: &Failure, usage: &Usage) -> Self {
        let used = (*usage != Usage::default()).then(|| turn_tokens(usage));
        Self::from_failure(failure, used, usage.cost_usd)
    }

    fn from_failure(failure: &Failure, usage: Option<v1::Usage>, cost_usd: Option<f64>) -> Self {
        #[derive(Serialize)]
        struct Data {
            failure: FailureJson,
            #[serde(skip_serializing_if = "Option::is_none")]
            usage: Option<v1::Usage>,
            #[serde(rename = "costUsd", skip_serializing_if = "Option::is_none")]
            cost_usd: Option<f64>,
        }
        let code = match failure.kind {
            FailureKind::Auth => AUTH_REQUIRED,
            FailureKind::Invalid => INVALID_PARAMS,
            FailureKind::RateLimited
            | FailureKind::Unavailable
            | FailureKind::Refused
            | FailureKind::Timeout
            | FailureKind::Agent
            | FailureKind::Internal => INTERNAL_ERROR,
        };
        let data = Data { failure: FailureJson(failure.clone()), usage, cost_usd };
        Self { code, message: failure.to_string(), data: to_raw_value(&data).ok() }
    }

    pub(super) fn to_error_object(&self) -> ErrorObject {
        ErrorObject {
            code: self.code,
            message: self.message.as_str().into(),
            data: self.data.clone(),
        }
    }
}

impl From<&Failure> for AcpError {
    fn from(failure: &Failure) -> Self {
        Self::from_failure(failure, None, None)
    }
}

impl From<Failure> for AcpError {
    fn from(failure: Failure) -> Self {
        Self::from(&failure)
    }
}

impl From<EngineError> for AcpError {
    fn from(error: EngineError) -> Self {
        let code = match &error {
            EngineError::Failed(failure) => return failure.into(),
            EngineError::NotFound(_) | EngineError::Store(StoreError::NotFound(_)) => {
                RESOURCE_NOT_FOUND
            }
            EngineError::QueueFull { .. }
            | EngineError::TurnRunning
            | EngineError::KeyReused(_)
            | EngineError::NotOffered(_) => INVALID_REQUEST,
            EngineError::Store(_)
            | EngineError::NotRunning
            | EngineError::NotPending
            | EngineError::ShuttingDown => INTERNAL_ERROR,
        };
        Self::new(code, error.to_string())
    }
}

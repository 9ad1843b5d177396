//! `GET /healthz` reports that the daemon is alive, and its version. Over the Unix socket, it also
//! reports what a command needs to decide whether to use this daemon or to do the work itself.
//! `GET /readyz` reports whether the daemon can do its work.

use angelia_core::{engine::EngineError, model::FailureKind};
use axum::{Extension, Json, extract::State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ConnectionSource, ErrorKind, HttpError, state::SharedState};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Hello")]
pub struct HealthStatus {
    /// `ok`, or `draining`: it takes no new turns.
    pub status: String,
    pub version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_sha256: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
}

const DRAINING: &str = "draining";

impl HealthStatus {
    pub fn is_draining(&self) -> bool {
        self.status == DRAINING
    }
}

pub(super) async fn healthz(
    State(state): SharedState,
    Extension(source): Extension<ConnectionSource>,
) -> Json<HealthStatus> {
    let owner = matches!(source, ConnectionSource::Unix(_));
    Json(HealthStatus {
        status: if state.engine.is_draining() { DRAINING } else { "ok" }.to_owned(),
        version: state.version.to_string(),
        config_sha256: owner.then(|| state.config_sha256.to_string()),
        pid: owner.then(std::process::id),
    })
}

/// Reports whether the daemon accepts turns and can record them.
pub(super) async fn readyz(
    State(state): SharedState,
) -> Result<Json<serde_json::Value>, HttpError> {
    if state.engine.is_draining() {
        return Err(EngineError::ShuttingDown.into());
    }
    state.engine.check_writable().await.map_err(|error| {
        let hint = "free space on the disk, or check $ANGELIA_HOME/state.db";
        let message = format!("turns cannot be recorded: {error}");
        HttpError::new(ErrorKind::Failed(FailureKind::Unavailable), message).with_hint(hint)
    })?;
    Ok(Json(serde_json::json!({"status": "ready"})))
}

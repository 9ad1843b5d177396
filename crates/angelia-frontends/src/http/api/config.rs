//! `/api/config`: the configuration in force, and its reload by the owner.

use angelia_core::model::AuditAction;
use axum::{Extension, Json, extract::State};

use super::super::{ConfigReload, ConfigResource, ConnectionSource, HttpError, state::SharedState};

pub(super) async fn show(State(state): SharedState) -> Json<ConfigResource> {
    let config = &state.config;
    Json(ConfigResource {
        state: config.state(),
        settings: config.settings(),
        origins: config.origins(),
    })
}

pub(super) async fn reload(
    State(state): SharedState,
    Extension(caller): Extension<ConnectionSource>,
) -> Result<Json<ConfigReload>, HttpError> {
    let reload = state.config.reload().await.map_err(|error| {
        let hint = "nothing was changed: the last good configuration stays in force";
        HttpError::invalid(error).with_hint(hint)
    })?;
    let subject = match reload.applied.as_slice() {
        [] => "reload: nothing changed".to_owned(),
        applied => format!("reload: {} took effect", applied.join(", ")),
    };
    let actor = caller.audit_actor().await;
    state.engine.record_audit(actor, AuditAction::Configuration, subject).await;
    Ok(Json(reload))
}

//! `/api/profiles` and `/api/executors`: the profiles and executors of this machine.

use std::{sync::Arc, time::Duration};

use angelia_core::{
    model::{Failure, FailureKind, SessionSpec},
    ports::{ExecutorHealth, LoginState, ProfileRequest},
};
use axum::{Json, extract::State};
use futures_util::future::join_all;

use super::super::{
    ApiState,
    resources::{ExecutorResource, ProfileResource, ResourceList},
    state::SharedState,
};

/// An executor whose program does not report its version within this time is not ready.
const PROBE_TIMEOUT: Duration = Duration::from_secs(20);

pub(super) async fn profiles(State(state): SharedState) -> Json<ResourceList<ProfileResource>> {
    let profiles = state.profiles.list();
    Json(ResourceList::whole(profiles.iter().map(ProfileResource::from).collect()))
}

/// Probes the program of each executor, which takes as long as the slowest one.
pub(super) async fn executors(State(state): SharedState) -> Json<ResourceList<ExecutorResource>> {
    let probes = state.engine.executors().iter().map(|executor| async {
        let spec = first_profile_spec(&state, executor.name()).await;
        let health = tokio::time::timeout(PROBE_TIMEOUT, executor.probe(&spec)).await;
        let health = health.unwrap_or_else(|_elapsed| probe_timed_out());
        ExecutorResource::new(executor.name(), health)
    });
    Json(ResourceList::whole(join_all(probes).await))
}

/// Returns the specification of an executor's first profile, because that profile may name another
/// binary.
async fn first_profile_spec(state: &ApiState, executor: &'static str) -> SessionSpec {
    let profiles = state.profiles.list();
    let first = profiles.iter().find(|one| *one.executor == *executor);
    let plain = || SessionSpec::new(executor, "/");
    let Some(profile) = first else { return plain() };
    let wanted = ProfileRequest {
        profile: Some(Arc::clone(&profile.name)),
        cwd: Some("/".into()),
        ..ProfileRequest::default()
    };
    let spec = state.profiles.resolve(wanted).await;
    spec.unwrap_or_else(|_unusable| plain())
}

fn probe_timed_out() -> ExecutorHealth {
    let message = "the executor's program did not answer in time";
    let failure = Failure::new(FailureKind::Timeout, message);
    ExecutorHealth {
        installation: None,
        login: LoginState::Unknown,
        problem: Some(failure.with_hint("`angelia doctor` shows what it does")),
    }
}

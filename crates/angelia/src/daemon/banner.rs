//! The startup messages of `angelia serve` for a person: its addresses, and the agents that are
//! ready.

use std::{net::SocketAddr, sync::Arc};

use angelia_core::{
    model::SessionSpec,
    ports::{Executor, LoginState, ProfileRequest, ProfileSummary, Profiles as _},
};

use crate::{
    assemble::{App, LocalEngine},
    cli::print,
    log::FILE_ONLY,
    profiles::ConfiguredProfiles,
};

/// Prints the addresses of the daemon.
pub(super) fn print_places(app: &App, address: SocketAddr, is_detached: bool) {
    let home = &app.home;
    let version = env!("CARGO_PKG_VERSION");
    let socket = home.socket();
    tracing::info!(
        target: FILE_ONLY,
        "angelia {version} listens on http://{address} and {}", socket.display()
    );
    if is_detached {
        return;
    }
    print::note(&format!(
        "angelia {version} listens on http://{address} and {}\n  token   {}\n  log     {}",
        socket.display(),
        home.token_file().display(),
        home.daemon_log().display(),
    ));
}

/// Starts agents in advance for profiles that have a `cwd`; for the others, the pool learns from
/// their use. Then prints which agents are ready, and what to do next.
pub(super) fn spawn_warm_up(app: &Arc<App>, local: &LocalEngine, is_detached: bool) {
    let app = Arc::clone(app);
    let profiles = Arc::clone(&local.profiles);
    let engine = local.engine.clone();
    local.tasks.spawn_until_stopped(async move {
        let mut agents = Vec::new();
        for profile in profiles.list() {
            agents.push(warm_up(&app, &profiles, engine.executors(), profile).await);
        }
        tracing::info!(target: FILE_ONLY, "agents: {}", agents.join(" · "));
        if !is_detached {
            print::note(&format!(
                "  agents  {}\n  next    angelia run \"hello\" · angelia dashboard · angelia status · angelia logs -f",
                agents.join(" · ")
            ));
        }
    });
}

/// Starts the agents of a profile, and describes them.
async fn warm_up(
    app: &App,
    profiles: &ConfiguredProfiles,
    executors: &[Arc<dyn Executor>],
    profile: ProfileSummary,
) -> String {
    let wanted =
        ProfileRequest { profile: Some(profile.name.clone()), ..ProfileRequest::default() };
    // Without a working directory, nothing can be started in advance.
    let elsewhere = ProfileRequest { caller_cwd: Some(app.home.work_dir()), ..wanted.clone() };
    let (spec, is_warm) = match profiles.resolve(wanted).await {
        Ok(spec) => (Ok(spec), true),
        Err(_) => (profiles.resolve(elsewhere).await, false),
    };
    let spec = match spec {
        Ok(spec) => spec,
        Err(failure) => return format!("✗ {}: {}", profile.name, failure.message),
    };
    if spec.executor != profile.executor {
        // The executor that `auto` resolved to, or the demo if there are no agents on this machine.
        tracing::info!(target: FILE_ONLY, "profile `{}` uses `{}`", spec.profile, spec.executor);
    }
    let Some(executor) = executors.iter().find(|one| one.name() == &*spec.executor) else {
        return format!("✗ {}: there is no `{}`", profile.name, spec.executor);
    };
    if is_warm {
        executor.warm_up(&spec);
    }
    describe(&**executor, &spec, if is_warm { spec.warm } else { 0 }).await
}

async fn describe(executor: &dyn Executor, spec: &SessionSpec, warm: u32) -> String {
    let health = executor.probe(spec).await;
    let problem = match &health.problem {
        _ if health.login == LoginState::LoggedOut => Some("not logged in".to_owned()),
        Some(failure) if !health.is_ready() => Some(failure.message.to_string()),
        None if !health.is_ready() => Some("not ready".to_owned()),
        _ => None,
    };
    let (profile, agent) = (&spec.profile, &spec.executor);
    match problem {
        Some(problem) => format!("✗ {profile}: {agent}, {problem}"),
        None if warm > 0 => format!("✓ {profile}: {agent} ({warm} warm)"),
        None => format!("✓ {profile}: {agent}"),
    }
}

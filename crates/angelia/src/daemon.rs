//! `angelia serve`: builds the engine, opens the listeners, waits for a signal, drains.

use std::{net::SocketAddr, os::unix::fs::PermissionsExt as _, sync::Arc, time::Duration};

use angelia_core::{
    model::{AuditAction, AuditActor},
    ports::{ProfileRequest, Profiles as _},
    task::TaskGroup,
};
use angelia_executors::process::{mark, release};
use angelia_frontends::{
    http::{self, AgentAccess, ApiState, Metrics, OwnerToken, dialect::RecentRequests},
    socket::LocalCaller,
};
use jiff::Timestamp;
use tokio::{
    net::{TcpListener, UnixListener},
    signal::unix::{Signal, SignalKind, signal},
    time::{MissedTickBehavior, interval},
};

use crate::{
    assemble::{App, LocalEngine},
    bus::{
        open::{self, OpenBus},
        pid_file::{self, PidFile, PidFileState},
    },
    cli::error::{CommandError, Exit},
    delegation::{HomeAgents, HomeDelegation},
    exposure, hosting, key_reload, model_apis,
};

/// How often sessions older than `sessions.keep` are looked for.
const RETENTION_INTERVAL: Duration = Duration::from_hours(1);
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) async fn serve(app: &Arc<App>) -> Result<Exit, CommandError> {
    restart_outside_agent(app)?;
    // From here on a signal causes an orderly shutdown.
    let mut signals = ShutdownSignals::listen().map_err(CommandError::internal)?;
    app.home.prepare()?;
    app.home.check_socket()?;
    let _only_one = acquire_pid_file(app)?;
    exposure::check(app, app.config.listen())?;
    let tcp = listen_tcp(app.config.listen()).await?;
    let address = tcp.local_addr().map_err(CommandError::internal)?;
    let unix = listen_unix(app)?;
    let token = app.home.load_or_create_token()?;
    let local = LocalEngine::start(app, "serve", true).await?;
    let parked = local.engine.resume_parked().await?;
    if parked > 0 {
        tracing::info!(turns = parked, "parked turns wait for their quotas");
    }
    let doors = TaskGroup::new();
    let bus = open::open_for_serve(app, &doors).await;
    let models = model_apis::model_settings(&app.config);
    key_reload::spawn_reload(app, models.keys.clone(), local.engine.clone(), &doors);
    let state = Arc::new(ApiState {
        engine: local.engine.clone(),
        profiles: Arc::clone(&local.profiles) as _,
        token: OwnerToken::new(token.reveal()),
        agents: Arc::new(AgentAccess::new(
            Arc::new(HomeAgents::new(app)),
            Arc::new(HomeDelegation::new(app, &local.store)),
        )),
        version: env!("CARGO_PKG_VERSION").into(),
        config_sha256: app.config.sha256().into(),
        allowed_hosts: app.config.http().allowed_hosts.clone(),
        allowed_origins: app.config.http().allowed_origins.clone(),
        models,
        recent_requests: RecentRequests::default(),
        caller_limits: app.config.caller_limits(),
        metrics: Metrics::default(),
        tasks: doors.clone(),
        bus: bus.as_ref().map(OpenBus::api),
    });
    http::serve_tcp(tcp, Arc::clone(&state), &doors);
    http::serve_unix(unix, state, &doors);
    for exposed in announce(app, address)? {
        let terminal = AuditActor::Terminal;
        local.engine.record_audit(terminal, AuditAction::Exposure, exposed).await;
    }
    let bus = match bus {
        Some(bus) => {
            hosting::spawn_hooks(
                &app.environment,
                Arc::clone(&local.commands),
                &bus.context.message_feed,
                &doors,
            );
            hosting::host_endpoint(app, &local, &bus.bus, &doors).await?;
            Some(bus.serve())
        }
        None => None,
    };
    spawn_warm_up(&local);
    spawn_retention(app, &local);

    signals.wait().await;
    tracing::info!("shutting down");
    // Running turns may end, and new ones are refused with a reason; a second signal ends the wait.
    tokio::select! {
        () = local.engine.drain(app.config.drain()) => {}
        () = signals.wait() => {}
    }
    // No new callers are accepted; then every turn ends, and callers that follow one see its end.
    doors.stop_token().cancel();
    remove_runtime_files(app);
    local.stop().await;
    if !doors.shutdown(DRAIN_TIMEOUT).await {
        tracing::warn!("some callers did not disconnect in time");
    }
    if let Some(bus) = bus {
        bus.close().await;
    }
    Ok(Exit::Done)
}

/// Restarts this program without an agent's mark if an agent started it: a daemon must outlive that
/// agent, and processes with the mark are ended with it.
pub(crate) fn restart_outside_agent(app: &App) -> Result<(), CommandError> {
    let is_outside = match app.environment.non_empty(mark::MARK_VARIABLE) {
        Some(mark) => mark == mark::RELEASED_MARK,
        None => LocalCaller::this_process(None) == LocalCaller::Owner,
    };
    if is_outside {
        return Ok(());
    }
    let program = std::env::current_exe().map_err(CommandError::internal)?;
    let args = std::env::args_os().skip(1);
    let error = release::reexec_released(&program, args, app.environment.iter());
    Err(CommandError::internal(format!("cannot start again outside the agent: {error}")))
}

/// Takes the daemon's pid file. There is one daemon per home; the file stays locked for as long as
/// the daemon lives.
fn acquire_pid_file(app: &App) -> Result<PidFile, CommandError> {
    let path = app.home.pid_file();
    match pid_file::acquire(&path) {
        Ok(PidFileState::Acquired(file)) => Ok(file),
        Ok(PidFileState::HeldBy(pid)) => {
            let pid = pid.map_or_else(String::new, |pid| pid.to_string());
            let message = format!("angelia is already serving this home (process {pid})");
            let hint = "use the running one, stop it, or choose another home with ANGELIA_HOME";
            Err(CommandError::new(Exit::TryLater, message).with_hint(hint))
        }
        Err(error) => {
            Err(CommandError::internal(format!("cannot write {}: {error}", path.display())))
        }
    }
}

async fn listen_tcp(address: SocketAddr) -> Result<TcpListener, CommandError> {
    TcpListener::bind(address).await.map_err(|error| {
        CommandError::new(Exit::Unavailable, format!("cannot listen on {address}: {error}"))
            .with_hint("choose another address with --listen, or port 0 for any free one")
    })
}

/// Listens on the daemon's socket. This process holds the pid file, so a socket file that is still
/// there was left by a dead daemon and is removed.
fn listen_unix(app: &App) -> Result<UnixListener, CommandError> {
    let path = app.home.socket();
    let failed = |error: std::io::Error| {
        CommandError::new(
            Exit::Unavailable,
            format!("cannot listen on {}: {error}", path.display()),
        )
        .with_hint("check the folder, or choose another home with ANGELIA_HOME")
    };
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let listener = UnixListener::bind(&path).map_err(failed)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    Ok(listener)
}

/// Writes the address to `http.addr`, for programs, and to the log, for people.
fn announce(app: &App, address: SocketAddr) -> Result<Vec<String>, CommandError> {
    // Renamed into place, so that a reader never sees a half-written file.
    let draft = app.home.http_addr_file().with_extension("draft");
    let written = std::fs::write(&draft, format!("{address}\n"));
    let written = written.and_then(|()| std::fs::rename(&draft, app.home.http_addr_file()));
    written.map_err(|error| {
        CommandError::internal(format!(
            "cannot write {}: {error}",
            app.home.http_addr_file().display()
        ))
    })?;
    tracing::info!("listening on http://{address} and {}", app.home.socket().display());
    tracing::info!("the owner's token is in {}", app.home.token_file().display());
    for warning in app.config.warnings() {
        tracing::warn!("{warning}");
    }
    Ok(exposure::announce(app, address))
}

/// Starts agents in advance for profiles that have a `cwd`; for the others the pool learns from
/// their use.
fn spawn_warm_up(local: &LocalEngine) {
    let profiles = Arc::clone(&local.profiles);
    let engine = local.engine.clone();
    local.tasks.spawn_until_stopped(async move {
        for profile in profiles.list() {
            let wanted =
                ProfileRequest { profile: Some(profile.name), ..ProfileRequest::default() };
            let Ok(spec) = profiles.resolve(wanted).await else {
                continue;
            };
            if spec.executor != profile.executor {
                // The executor that `auto` resolved to; without agents on this machine, the demo.
                tracing::info!("profile `{}` uses `{}`", spec.profile, spec.executor);
            }
            let executors = engine.executors();
            if let Some(executor) = executors.iter().find(|one| one.name() == &*spec.executor) {
                executor.warm_up(&spec);
            }
        }
    });
}

/// Removes sessions older than `sessions.keep` from time to time.
fn spawn_retention(app: &Arc<App>, local: &LocalEngine) {
    let keep = app.config.sessions().keep;
    let engine = local.engine.clone();
    local.tasks.spawn_until_stopped(async move {
        let mut ticks = interval(RETENTION_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let Ok(before) = Timestamp::now().checked_sub(keep.duration()) else {
                continue;
            };
            match engine.delete_stale_sessions(before).await {
                Ok(0) => {}
                Ok(removed) => tracing::info!(removed, "removed sessions older than sessions.keep"),
                Err(error) => tracing::warn!(%error, "old sessions could not be removed"),
            }
        }
    });
}

/// The signals that end a daemon.
pub(crate) struct ShutdownSignals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl ShutdownSignals {
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    pub(crate) async fn wait(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}

/// Removes the files that others would take for those of a running daemon.
fn remove_runtime_files(app: &App) {
    for path in [app.home.socket(), app.home.http_addr_file()] {
        if let Err(error) = std::fs::remove_file(&path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::debug!(%error, "could not remove {}", path.display());
        }
    }
}

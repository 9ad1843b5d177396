//! `angelia serve`: builds the engine, opens the listeners, waits for a signal, and drains.
//!
//! - [`banner`]: the startup messages for a person.
//! - [`restart`]: waits for turns, and replaces the program in this process.

mod banner;
mod restart;

use std::{net::SocketAddr, os::unix::fs::PermissionsExt as _, sync::Arc, time::Duration};

use angelia_core::{
    model::{AuditAction, AuditActor},
    task::TaskGroup,
};
use angelia_executors::process::{detached, mark, release};
use angelia_frontends::{
    chat::DeliveryQueue,
    http::{
        self, AgentAccess, ApiState, BrowserLogins, ChangeFeed, DaemonInfo, Metrics, OwnerToken,
        RestartRequests,
        dialect::{LiveModels, RecentRequests},
    },
    socket::LocalCaller,
};
use jiff::Timestamp;
use tokio::{
    net::{TcpListener, UnixListener},
    signal::unix::{Signal, SignalKind, signal},
    time::{Instant, MissedTickBehavior, interval, sleep},
};

use self::restart::{ServeEnd, Successor};
use crate::{
    assemble::{App, LocalEngine},
    background::READY_WORD,
    bus::{
        open::{self, OpenBus, RunningBus},
        pid_file::{self, PidFile, PidFileState},
    },
    chat_hosting::ChatDoors,
    cli::error::{CommandError, Exit},
    config_watch::{self, DaemonConfig},
    daemon_process::DaemonProcess,
    delegation::{HomeAgents, HomeDelegation},
    exposure, hosting, log, model_apis,
};

/// The interval at which sessions older than `sessions.keep` are removed.
const RETENTION_INTERVAL: Duration = Duration::from_hours(1);
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a second daemon waits for one that is starting or ending.
const HOLDER_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

pub(crate) async fn serve(app: &Arc<App>, is_detached: bool) -> Result<Exit, CommandError> {
    let inherited = restart::inherited_listener(app);
    if is_detached {
        detached::detach_from_terminal();
    } else {
        restart_outside_agent(app)?;
    }
    // From here on, a signal causes an orderly shutdown.
    let mut signals = ShutdownSignals::listen().map_err(CommandError::internal)?;
    app.home.prepare()?;
    app.home.check_socket()?;
    app.live_config.check_trusted().map_err(|error| {
        CommandError::new(Exit::Config, format!("the configuration is not used: {error}"))
    })?;
    let only_one = acquire_pid_file(app).await?;
    open_log(app, is_detached)?;
    exposure::check(app, app.config.listen())?;
    let tcp = match inherited {
        Some(listener) => listener,
        None => listen_tcp(app.config.listen()).await?,
    };
    let address = tcp.local_addr().map_err(CommandError::internal)?;
    let successor = Successor::prepare(app, &tcp)?;
    let unix = listen_unix(app)?;
    let token = app.home.load_or_create_token()?;
    let local = LocalEngine::start(app, "serve", true).await?;
    let resumed = local.engine.resume_turns().await?;
    if resumed > 0 {
        tracing::info!(turns = resumed, "turns that were queued or parked continue");
    }
    let doors = TaskGroup::new();
    let bus = open::open_for_serve(app, &doors).await;
    let shared_bus = bus.as_ref().map(|bus| Arc::clone(&bus.bus));
    let ChatDoors { delivery_queue, chats, hooks } =
        ChatDoors::open(app, &local, shared_bus.clone(), &doors).await?;
    let models = LiveModels::from(model_apis::model_settings(&app.config));
    config_watch::spawn_watch(&app.live_config, &models, address, &local, &doors);
    let (restarts, mut restart_requests) = RestartRequests::new();
    let state = Arc::new(ApiState {
        engine: local.engine.clone(),
        profiles: Arc::clone(&local.profiles) as _,
        token: OwnerToken::new(token.reveal()),
        logins: BrowserLogins::new(local.engine.clone()),
        feed: ChangeFeed::default(),
        agents: Arc::new(AgentAccess::new(
            Arc::new(HomeAgents::new(app)),
            Arc::new(HomeDelegation::new(app, &local.store)),
        )),
        agent_processes: Arc::new(HomeAgents::new(app)),
        daemon: DaemonInfo { started_at: Timestamp::now(), address: address.to_string() },
        version: env!("CARGO_PKG_VERSION").into(),
        config_sha256: app.config_source_sha256().into(),
        config: Arc::new(DaemonConfig(Arc::clone(&app.live_config))),
        allowed_hosts: app.config.http().allowed_hosts.clone(),
        allowed_origins: app.config.http().allowed_origins.clone(),
        models,
        recent_requests: RecentRequests::default(),
        caller_limits: app.config.caller_limits(),
        metrics: Metrics::default(),
        tasks: doors.clone(),
        restarts,
        bus: bus.as_ref().map(OpenBus::api),
        delivery_queue: Some(delivery_queue.clone()),
        hooks,
        chats,
    });
    http::serve_tcp(tcp, Arc::clone(&state), &doors);
    http::serve_unix(unix, state, &doors);
    for exposed in announce(app, address, is_detached)? {
        let terminal = AuditActor::Terminal;
        local.engine.record_audit(terminal, AuditAction::Exposure, exposed).await;
    }
    let bus = bus.map(|bus| serve_bus(app, &local, bus, delivery_queue.clone(), &doors));
    hosting::spawn_scheduler(app, &local, shared_bus, delivery_queue, &doors);
    banner::spawn_warm_up(app, &local, is_detached);
    spawn_retention(app, &local);
    spawn_search_upkeep(&local);
    if is_detached {
        detached::report_ready(READY_WORD).map_err(CommandError::internal)?;
    }

    let drain = || app.live_config.current().drain();
    let end =
        restart::wait_for_end(&local.engine, &drain, &mut signals, &mut restart_requests).await;
    let successor = (end == ServeEnd::Restart).then_some(successor);
    // Accept no new callers; then end every turn, so that callers that follow a turn see its end.
    doors.stop_token().cancel();
    remove_runtime_files(app);
    local.stop().await;
    if !doors.shutdown(DRAIN_TIMEOUT).await {
        tracing::warn!("some callers did not disconnect in time");
    }
    if let Some(bus) = bus {
        bus.close().await;
    }
    let Some(successor) = successor else { return Ok(Exit::Done) };
    local.dismiss_watcher();
    drop(only_one);
    Err(successor.start(app))
}

/// Hosts the daemon's own endpoint, and lets others connect to the bus.
fn serve_bus(
    app: &Arc<App>,
    local: &LocalEngine,
    bus: OpenBus,
    delivery_queue: DeliveryQueue,
    doors: &TaskGroup,
) -> RunningBus {
    let commands = Arc::clone(&local.commands);
    hosting::spawn_hooks(&app.environment, commands, &bus.context.message_feed, doors);
    hosting::host_endpoint(app, local, &bus.bus, delivery_queue, doors);
    bus.serve()
}

/// Also logs to the log file, or only there if the daemon runs in the background.
fn open_log(app: &App, is_detached: bool) -> Result<(), CommandError> {
    let (path, settings) = (app.home.daemon_log(), app.config.log());
    log::open_file(&path, settings.max_size.0, settings.keep.0, is_detached).map_err(|error| {
        let message = format!("cannot write {}: {error}", path.display());
        CommandError::new(Exit::Unavailable, message)
    })
}

/// If an agent started this program, restarts it without the agent's mark. A daemon must outlive
/// that agent, and processes with the mark are ended with it.
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

/// Takes the daemon's pid file, which stays locked for as long as the daemon lives: there is one
/// daemon per home. Waits for a while if another daemon is starting or ending.
async fn acquire_pid_file(app: &App) -> Result<PidFile, CommandError> {
    let path = app.home.pid_file();
    let deadline = Instant::now() + HOLDER_TIMEOUT;
    let mut is_noted = false;
    loop {
        let holder = match pid_file::acquire(&path) {
            Ok(PidFileState::Acquired(file)) => return Ok(file),
            Ok(PidFileState::HeldBy(pid)) => pid,
            Err(error) => {
                let message = format!("cannot write {}: {error}", path.display());
                return Err(CommandError::internal(message));
            }
        };
        let pid = holder.map_or_else(String::new, |pid| pid.to_string());
        let is_serving =
            matches!(DaemonProcess::find(&app.home).await, DaemonProcess::Serving { .. });
        if is_serving || Instant::now() >= deadline {
            let message = format!("angelia is already serving this home (process {pid})");
            let hint = "use the running one, stop it with `angelia stop`, or choose another home \
                        with ANGELIA_HOME";
            return Err(CommandError::new(Exit::TryLater, message).with_hint(hint));
        }
        if !is_noted {
            is_noted = true;
            tracing::info!("waiting for process {pid}, which is starting or ending");
        }
        sleep(POLL_INTERVAL).await;
    }
}

async fn listen_tcp(address: SocketAddr) -> Result<TcpListener, CommandError> {
    TcpListener::bind(address).await.map_err(|error| {
        CommandError::new(Exit::Unavailable, format!("cannot listen on {address}: {error}"))
            .with_hint("choose another address with --listen, or port 0 for any free one")
    })
}

/// Listens on the daemon's socket. This process holds the pid file, so an existing socket file was
/// left behind by a dead daemon and is removed.
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

/// Writes the address to `http.addr` for programs, and to the log for people.
fn announce(
    app: &App,
    address: SocketAddr,
    is_detached: bool,
) -> Result<Vec<String>, CommandError> {
    // Rename the file into place, so that a reader never sees a half-written file.
    let draft = app.home.http_addr_file().with_extension("draft");
    let written = std::fs::write(&draft, format!("{address}\n"));
    let written = written.and_then(|()| std::fs::rename(&draft, app.home.http_addr_file()));
    written.map_err(|error| {
        CommandError::internal(format!(
            "cannot write {}: {error}",
            app.home.http_addr_file().display()
        ))
    })?;
    banner::print_places(app, address, is_detached);
    for warning in app.config.warnings() {
        tracing::warn!("{warning}");
    }
    Ok(exposure::announce(app, address))
}

/// Completes the search index while no turn runs.
fn spawn_search_upkeep(local: &LocalEngine) {
    let engine = local.engine.clone();
    local.tasks.spawn_until_stopped(async move { engine.keep_search_complete().await });
}

/// Periodically removes sessions older than `sessions.keep`.
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

/// Removes the files that would make it look as if a daemon were running.
fn remove_runtime_files(app: &App) {
    for path in [app.home.socket(), app.home.http_addr_file()] {
        if let Err(error) = std::fs::remove_file(&path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::debug!(%error, "could not remove {}", path.display());
        }
    }
}

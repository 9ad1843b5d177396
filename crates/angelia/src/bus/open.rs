//! Opens the bus of this home: its log, its sockets and its pid files. The process that holds them
//! is the daemon; only `angelia serve` takes them over from another process.

use std::{path::Path, sync::Arc};

use angelia_backends::bus::{BusLimits, LocalBus, OpenBusError};
use angelia_core::{
    ports::{Bus, Clock},
    task::TaskGroup,
};
use angelia_frontends::bus::{
    ListenerContext, ListenerLimits,
    listener::{self, BindError, BoundSocket},
};
use angelia_frontends::http::BusApi;
use tokio::sync::broadcast;

use super::{
    hermes_socket::{self, OpenHermesSocket},
    pid_file::{self, PidFile, PidFileState},
    sockets::BusSockets,
    takeover::{BoundSockets, take_over},
};
use crate::{
    assemble::App,
    cli::error::{CommandError, Exit},
    clock::SystemClock,
    delegation::HomeAgents,
};

/// Number of messages by which a watcher in this process may lag.
const MAX_WATCHER_LAG: usize = 1024;

/// An open bus that does not accept connections yet.
pub(crate) struct OpenBus {
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) context: ListenerContext,
    own_socket: BoundSocket,
    hermes: HermesAccess,
    /// Held by a standalone bus.
    pid_file: Option<PidFile>,
}

/// How hermes-bus clients reach this bus.
enum HermesAccess {
    NotOffered,
    Open(OpenHermesSocket),
    /// Another daemon has the socket. It is served here when that daemon stops.
    Taken(std::path::PathBuf),
}

/// Returns the error for a bus that another process runs.
fn already_running_error(pid: Option<u32>) -> CommandError {
    let who = pid.map_or(String::new(), |pid| format!(" (process {pid})"));
    let what = format!("the bus is already running{who}");
    CommandError::new(Exit::TryLater, what)
        .with_hint("use the running one, or stop it with `angelia bus stop`")
}

/// Opens the bus for a standalone process.
pub(crate) async fn open_alone(app: &App, tasks: &TaskGroup) -> Result<OpenBus, CommandError> {
    app.home.prepare()?;
    raise_open_file_limit();
    let sockets = BusSockets::of_app(app);
    let pid_file = acquire_pid_file(&app.home.bus_pid_file())?;
    // Check this after taking the pid file: a daemon that starts now finds this process and takes
    // over from it.
    if let Some(pid) = pid_file::holder(&app.home.pid_file()) {
        let what = format!("`angelia serve` (process {pid}) runs the bus of this home");
        return Err(CommandError::new(Exit::TryLater, what).with_hint("use that one"));
    }
    let hermes = match &sockets.hermes {
        Some(socket) => HermesAccess::Open(hermes_socket::open(socket, None).await?),
        None => HermesAccess::NotOffered,
    };
    let bus = open_log(app).await?;
    let own_socket = listener::bind(&sockets.own).await.map_err(|error| bind_error(&error))?;
    let context = listener_context(app, &bus, tasks);
    Ok(OpenBus { bus, context, own_socket, hermes, pid_file: Some(pid_file) })
}

/// Opens the bus inside `angelia serve`, which already holds the daemon's pid file.
async fn open_in_daemon(app: &App, tasks: &TaskGroup) -> Result<OpenBus, CommandError> {
    app.home.prepare()?;
    raise_open_file_limit();
    let sockets = BusSockets::of_app(app);
    let bound = take_over(app, &sockets).await?;
    let BoundSockets { own, hermes } = bound;
    let bus = open_log(app).await?;
    let own_socket = match own {
        Some(own) => own,
        None => listener::bind(&sockets.own).await.map_err(|error| bind_error(&error))?,
    };
    let hermes = match sockets.hermes {
        None => HermesAccess::NotOffered,
        Some(socket) => match hermes_socket::open(&socket, hermes).await {
            Ok(opened) => HermesAccess::Open(opened),
            Err(error) => {
                tracing::warn!("{error}; clients of Hermes reach this bus when it is free");
                HermesAccess::Taken(socket)
            }
        },
    };
    let context = listener_context(app, &bus, tasks);
    Ok(OpenBus { bus, context, own_socket, hermes, pid_file: None })
}

fn listener_context(app: &App, bus: &Arc<dyn Bus>, tasks: &TaskGroup) -> ListenerContext {
    ListenerContext {
        bus: Arc::clone(bus),
        clock: Arc::new(SystemClock),
        tasks: tasks.clone(),
        message_feed: broadcast::channel(MAX_WATCHER_LAG).0,
        limits: ListenerLimits::default(),
        agents: Arc::new(HomeAgents::new(app)),
        version: env!("CARGO_PKG_VERSION").into(),
    }
}

pub(super) fn acquire_pid_file(path: &Path) -> Result<PidFile, CommandError> {
    match pid_file::acquire(path) {
        Ok(PidFileState::Acquired(file)) => Ok(file),
        Ok(PidFileState::HeldBy(pid)) => Err(already_running_error(pid)),
        Err(error) => {
            let what = format!("cannot write {}: {error}", path.display());
            Err(CommandError::internal(what))
        }
    }
}

pub(super) fn bind_error(error: &BindError) -> CommandError {
    let (exit, hint) = match error {
        // This also happens when `angelia serve` takes over a bus that is just starting, because
        // `serve` binds the socket first.
        BindError::InUse(_) => {
            (Exit::TryLater, "stop the process that listens there, then try again")
        }
        BindError::Failed { .. } => {
            (Exit::Unavailable, "check the folder, or choose another home with ANGELIA_HOME")
        }
    };
    CommandError::new(exit, error.to_string()).with_hint(hint)
}

async fn open_log(app: &App) -> Result<Arc<dyn Bus>, CommandError> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let settings = app.config.bus();
    let limits = BusLimits {
        message_ttl: settings.message_ttl.duration(),
        max_queued: settings.max_queued.0 as usize,
        dedupe_window: settings.dedupe_window.duration(),
    };
    let folder = app.home.bus_dir();
    let opened = tokio::task::spawn_blocking(move || LocalBus::open(&folder, limits, clock));
    let opened = opened.await.map_err(CommandError::internal)?;
    opened.map_err(|error| match error {
        OpenBusError::Held(_) => CommandError::new(Exit::TryLater, error.to_string()),
        OpenBusError::Failed { .. } => CommandError::new(Exit::Internal, error.to_string()),
    })
}

/// Raises the limit on open files to its maximum, because every endpoint is a connection.
fn raise_open_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(%error, "cannot raise the limit on open files");
    }
}

/// Opens the bus for `angelia serve`. A failure is logged, and `serve` continues without the bus.
pub(crate) async fn open_for_serve(app: &App, tasks: &TaskGroup) -> Option<OpenBus> {
    match open_in_daemon(app, tasks).await {
        Ok(bus) => Some(bus),
        Err(error) => {
            tracing::warn!("continuing without the bus: {error}");
            None
        }
    }
}

impl OpenBus {
    /// Returns the part of the bus available to HTTP callers.
    pub(crate) fn api(&self) -> BusApi {
        BusApi {
            bus: Arc::clone(&self.bus),
            incoming: self.context.message_feed.clone(),
            clock: Arc::clone(&self.context.clock),
        }
    }

    /// Starts accepting connections. The pid file is held until the returned value is dropped.
    #[must_use]
    pub(crate) fn serve(self) -> RunningBus {
        tracing::info!("the bus listens on {}", self.own_socket.path().display());
        match self.hermes {
            HermesAccess::NotOffered => {}
            HermesAccess::Open(hermes) => hermes.serve(self.context.clone()),
            HermesAccess::Taken(socket) => {
                hermes_socket::serve_when_free(socket, self.context.clone());
            }
        }
        listener::serve(self.own_socket, self.context);
        RunningBus { bus: self.bus, _pid_file: self.pid_file }
    }
}

pub(crate) struct RunningBus {
    bus: Arc<dyn Bus>,
    _pid_file: Option<PidFile>,
}

impl RunningBus {
    /// Closes the log. Call this after the connection tasks have ended.
    pub(crate) async fn close(self) {
        self.bus.close().await;
    }
}

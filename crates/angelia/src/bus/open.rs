//! Opens the bus of this home: its log, its socket and its pid files. The process that holds them
//! is the daemon; another process never displaces it.

use std::{
    fs,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

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

use super::pid_file::{self, PidFile, PidFileState};
use crate::{
    assemble::App,
    cli::error::{CommandError, Exit},
    clock::SystemClock,
    delegation::HomeAgents,
};

/// How many messages a watcher in this process may lag behind.
const MAX_WATCHER_LAG: usize = 1024;

/// A bus that is open and does not accept connections yet.
pub(crate) struct OpenBus {
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) context: ListenerContext,
    listener: Option<BoundSocket>,
    pid_files: Vec<PidFile>,
}

/// Returns the path of the socket that clients of hermes-bus use.
pub(crate) fn socket_path(app: &App) -> Result<PathBuf, CommandError> {
    app.environment.hermes_bus_socket().ok_or_else(|| {
        let what =
            "cannot find a folder for the bus's socket: neither HERMES_BUS_ROOT nor HOME is set";
        CommandError::new(Exit::Config, what)
    })
}

/// The error when another process runs the bus.
pub(crate) fn already_running_error(pid: Option<u32>) -> CommandError {
    let who = pid.map_or(String::new(), |pid| format!(" (process {pid})"));
    let what = format!("the bus is already running{who}");
    CommandError::new(Exit::TryLater, what)
        .with_hint("use the running one, or stop it with `angelia bus stop`")
}

/// Opens the bus without accepting connections. `alone` means outside of `angelia serve`.
pub(crate) async fn open(
    app: &App,
    tasks: &TaskGroup,
    alone: bool,
) -> Result<OpenBus, CommandError> {
    app.home.prepare()?;
    raise_open_file_limit();
    let mut pid_files = Vec::new();
    if alone {
        // Inside `angelia serve` the daemon's own pid file does this.
        pid_files.push(acquire_pid_file(&app.home.bus_pid_file())?);
    }
    let settings = app.config.bus();
    let socket = if settings.hermes_socket {
        let socket = socket_path(app)?;
        let run = socket.with_file_name("run");
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&run);
        made.map_err(|error| {
            CommandError::internal(format!("cannot make {}: {error}", run.display()))
        })?;
        pid_files.push(acquire_pid_file(&run.join("busd.pid"))?);
        Some(socket)
    } else {
        None
    };
    let bound = match &socket {
        Some(socket) => Some(bind(socket).await?),
        None => None,
    };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let bus = open_log(app, Arc::clone(&clock)).await?;
    let door = ListenerContext {
        bus: Arc::clone(&bus),
        clock,
        tasks: tasks.clone(),
        message_feed: broadcast::channel(MAX_WATCHER_LAG).0,
        limits: ListenerLimits::default(),
        agents: Arc::new(HomeAgents::new(app)),
        version: env!("CARGO_PKG_VERSION").into(),
    };
    Ok(OpenBus { bus, context: door, listener: bound, pid_files })
}

fn acquire_pid_file(path: &Path) -> Result<PidFile, CommandError> {
    match pid_file::acquire(path) {
        Ok(PidFileState::Acquired(file)) => Ok(file),
        Ok(PidFileState::HeldBy(pid)) => Err(already_running_error(pid)),
        Err(error) => {
            let what = format!("cannot write {}: {error}", path.display());
            Err(CommandError::internal(what))
        }
    }
}

async fn bind(socket: &Path) -> Result<BoundSocket, CommandError> {
    listener::bind(socket).await.map_err(|error| match error {
        BindError::InUse(_) => CommandError::new(Exit::TryLater, error.to_string())
            .with_hint("it is not ours: stop it with its own `hermes-busd stop`"),
        BindError::Failed { .. } => CommandError::new(Exit::Unavailable, error.to_string())
            .with_hint(
                "choose another folder with HERMES_BUS_ROOT, or set bus.hermes_socket: false",
            ),
    })
}

async fn open_log(app: &App, clock: Arc<dyn Clock>) -> Result<Arc<dyn Bus>, CommandError> {
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

/// Raises the limit of open files to its maximum, because every endpoint is a connection.
fn raise_open_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(%error, "cannot raise the limit of open files");
    }
}

/// Opens the bus inside `angelia serve`, which logs a failure and continues without the bus.
pub(crate) async fn open_for_serve(app: &App, tasks: &TaskGroup) -> Option<OpenBus> {
    match open(app, tasks, false).await {
        Ok(bus) => Some(bus),
        Err(error) => {
            tracing::warn!("continuing without the bus: {error}");
            None
        }
    }
}

impl OpenBus {
    /// Returns the part of the bus that callers over HTTP use.
    pub(crate) fn api(&self) -> BusApi {
        BusApi {
            bus: Arc::clone(&self.bus),
            incoming: self.context.message_feed.clone(),
            clock: Arc::clone(&self.context.clock),
        }
    }

    /// Starts to accept connections. The pid files are held until the returned value is dropped.
    #[must_use]
    pub(crate) fn serve(self) -> RunningBus {
        if let Some(bound) = self.listener {
            tracing::info!("the bus listens on {}", bound.path().display());
            listener::serve(bound, self.context);
        }
        RunningBus { bus: self.bus, _pid_files: self.pid_files }
    }
}

pub(crate) struct RunningBus {
    bus: Arc<dyn Bus>,
    _pid_files: Vec<PidFile>,
}

impl RunningBus {
    /// Closes the log. To be called after the tasks of the connections have ended.
    pub(crate) async fn close(self) {
        self.bus.close().await;
    }
}

//! The socket and the pid file in the place where hermes-bus clients expect them.

use std::{
    fs,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use angelia_frontends::bus::{
    ListenerContext,
    listener::{self, BindError, BoundSocket},
};
use tokio::time::sleep;

use super::{open::acquire_pid_file, pid_file::PidFile};
use crate::cli::error::{CommandError, Exit};

/// Interval at which to retry a socket that another daemon holds.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Hermes' socket and its pid file, which is held for as long as the socket is served.
pub(crate) struct OpenHermesSocket {
    bound: BoundSocket,
    pid_file: PidFile,
}

/// Returns the path of the pid file that Hermes' tools read.
pub(crate) fn pid_file_path(socket: &Path) -> PathBuf {
    socket.with_file_name("run").join("busd.pid")
}

/// Binds the socket, unless it is already `bound`. Does not displace a running daemon.
pub(crate) async fn open(
    socket: &Path,
    bound: Option<BoundSocket>,
) -> Result<OpenHermesSocket, CommandError> {
    let pid_path = pid_file_path(socket);
    let run = pid_path.parent().unwrap_or(socket);
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(run);
    made.map_err(|error| {
        CommandError::internal(format!("cannot make {}: {error}", run.display()))
    })?;
    let pid_file = acquire_pid_file(&pid_path)?;
    let bound = match bound {
        Some(bound) => bound,
        None => listener::bind(socket).await.map_err(|error| match error {
            BindError::InUse(_) => CommandError::new(Exit::TryLater, error.to_string())
                .with_hint("it is not ours: stop it with its own `hermes-busd stop`"),
            BindError::Failed { .. } => CommandError::new(Exit::Unavailable, error.to_string())
                .with_hint(
                    "choose another folder with HERMES_BUS_ROOT, or set bus.hermes_socket: off",
                ),
        })?,
    };
    Ok(OpenHermesSocket { bound, pid_file })
}

impl OpenHermesSocket {
    /// Serves until the tasks of `context` stop.
    pub(crate) fn serve(self, context: ListenerContext) {
        let Self { bound, pid_file } = self;
        tracing::info!("the bus also listens on {}, for Hermes", bound.path().display());
        let tasks = context.tasks.clone();
        listener::serve(bound, context);
        let stop = tasks.stop_token().clone();
        tasks.spawn(async move {
            stop.cancelled().await;
            drop(pid_file);
        });
    }
}

/// Serves the socket as soon as the daemon that holds it has stopped.
pub(crate) fn serve_when_free(socket: PathBuf, context: ListenerContext) {
    let tasks = context.tasks.clone();
    tasks.spawn_until_stopped(async move {
        loop {
            sleep(RETRY_INTERVAL).await;
            if let Ok(opened) = open(&socket, None).await {
                opened.serve(context);
                return;
            }
        }
    });
}

//! The bus socket in the file system. We own it for as long as its path leads to our file. If the
//! path is removed, we bind the socket again; if another running daemon has taken the path, we
//! leave it alone until that daemon stops. At the end, clients that are already connected are still
//! served.

use std::{
    fs, io,
    os::{
        fd::AsFd as _,
        unix::{
            fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _},
            net::UnixListener as StdUnixListener,
        },
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rustix::net::{Shutdown, shutdown};
use tokio::{
    net::{UnixListener, UnixStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{MissedTickBehavior, interval, timeout},
};

use super::{ListenerContext, connection::BusConnection};
use crate::socket::{AcceptErrors, Peer};

/// The limit on open connections. Further clients wait to be accepted.
const MAX_CONNECTIONS: usize = 20_000;

/// How often to check that the path still leads to our socket.
const PATH_CHECK_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error("{} is in use by a running daemon", .0.display())]
    InUse(PathBuf),
    #[error("cannot listen on {}: {source}", .path.display())]
    Failed { path: PathBuf, source: io::Error },
}

/// A bound socket; dropping it removes its path.
#[derive(Debug)]
pub struct BoundSocket {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode, to tell our file from another one at the same path.
    file_id: (u64, u64),
}

/// Binds the socket, unless a running process already listens there.
pub async fn bind(path: &Path) -> Result<BoundSocket, BindError> {
    if is_listening(path).await {
        return Err(BindError::InUse(path.to_path_buf()));
    }
    replace(path)
}

/// Binds the socket in place of any other one. From now on clients connect here; clients of the
/// other socket keep their connections.
pub fn replace(path: &Path) -> Result<BoundSocket, BindError> {
    bind_new(path).map_err(|source| BindError::Failed { path: path.to_path_buf(), source })
}

/// Returns whether a running process listens at the path.
pub async fn is_listening(path: &Path) -> bool {
    let connected = timeout(Duration::from_secs(5), UnixStream::connect(path)).await;
    // A timeout counts as yes: a process that is too busy to accept is still running.
    !matches!(connected, Ok(Err(_)))
}

/// Binds under a temporary name and renames: the path appears with its final mode, atomically, in
/// place of any file that was there.
fn bind_new(path: &Path) -> io::Result<BoundSocket> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made?;
    // No longer than the final name, because the path of a socket is limited to about 100 bytes.
    let new = folder.join(format!(".bus{}", std::process::id()));
    let _leftover = fs::remove_file(&new);
    let listener = UnixListener::bind(&new)?;
    let named = || -> io::Result<_> {
        fs::set_permissions(&new, fs::Permissions::from_mode(0o600))?;
        let file = file_identity(&new)?;
        fs::rename(&new, path)?;
        Ok(file)
    };
    let file = named().inspect_err(|_| drop(fs::remove_file(&new)))?;
    Ok(BoundSocket { listener, path: path.to_path_buf(), file_id: file })
}

fn file_identity(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

impl BoundSocket {
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn is_ours(&self) -> bool {
        file_identity(&self.path).is_ok_and(|file| file == self.file_id)
    }
}

impl Drop for BoundSocket {
    fn drop(&mut self) {
        if self.is_ours() {
            let _gone = fs::remove_file(&self.path);
        }
    }
}

/// Serves in the background until the tasks of `context` stop.
pub fn serve(bound: BoundSocket, door: ListenerContext) {
    let tasks = door.tasks.clone();
    tasks.spawn(run(bound, door));
}

async fn run(mut bound: BoundSocket, door: ListenerContext) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut looks = interval(PATH_CHECK_INTERVAL);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_displaced = false;
    let mut errors = AcceptErrors::default();
    let stop = door.tasks.stop_token().clone();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            () = accept(&bound.listener, &places, &door, &mut errors) => {}
            _ = looks.tick() => {
                if !bound.is_ours() {
                    is_displaced = rebind(&mut bound, is_displaced).await;
                }
            }
        }
    }
    if let Err(error) = accept_waiting(&bound.listener, &door) {
        tracing::debug!(%error, "cannot serve the clients that have just connected");
    }
}

/// Refuses new connections, and serves those that were made but not accepted yet.
fn accept_waiting(listener: &UnixListener, door: &ListenerContext) -> io::Result<()> {
    shutdown(listener, Shutdown::Read)?;
    let listener = StdUnixListener::from(listener.as_fd().try_clone_to_owned()?);
    // Fails when no more clients are waiting.
    while let Ok((stream, _)) = listener.accept() {
        stream.set_nonblocking(true)?;
        serve_client(UnixStream::from_std(stream)?, door, None);
    }
    Ok(())
}

/// Binds the path again. Returns whether another daemon has taken it.
async fn rebind(bound: &mut BoundSocket, was_displaced: bool) -> bool {
    let path = bound.path.clone();
    match bind(&path).await {
        Ok(new) => {
            tracing::warn!("{} was removed and has been bound again", path.display());
            // The old socket has lost its path, but its connections stay open.
            *bound = new;
            false
        }
        Err(BindError::InUse(_)) => {
            if !was_displaced {
                tracing::error!(
                    "another daemon has taken {}; new clients reach that one until it stops",
                    path.display()
                );
            }
            true
        }
        Err(error) => {
            tracing::error!(%error, "cannot bind the bus socket again");
            was_displaced
        }
    }
}

async fn accept(
    listener: &UnixListener,
    places: &Arc<Semaphore>,
    door: &ListenerContext,
    errors: &mut AcceptErrors,
) {
    // The semaphore is never closed, so this cannot fail.
    let Ok(place) = Arc::clone(places).acquire_owned().await else {
        return;
    };
    let stream = match listener.accept().await {
        Ok((stream, _)) => stream,
        Err(error) => {
            errors.wait_after(&error).await;
            return;
        }
    };
    serve_client(stream, door, Some(place));
}

/// Serves a client of our own user in a separate task.
fn serve_client(stream: UnixStream, door: &ListenerContext, place: Option<OwnedSemaphorePermit>) {
    let peer = match Peer::from_stream(&stream) {
        Ok(peer) if peer.is_owner() => peer,
        Ok(_) => {
            tracing::warn!("refused a connection from another user");
            return;
        }
        Err(error) => {
            tracing::debug!(%error, "a client disconnected before it was served");
            return;
        }
    };
    let connection = BusConnection::new(stream, peer, door.clone());
    door.tasks.spawn(async move {
        connection.run().await;
        drop(place);
    });
}

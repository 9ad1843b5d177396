//! The socket in the file system. It is ours as long as its name leads to it: if somebody removes
//! the name, it is bound again; if a living daemon has taken the name, it is left alone until that
//! one is gone.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::{
    net::{UnixListener, UnixStream},
    sync::Semaphore,
    time::{MissedTickBehavior, interval, timeout},
};

use super::{Door, connection::Connection};
use crate::socket::Peer;

/// Who comes beyond that waits to be accepted.
const CONNECTIONS: usize = 20_000;

/// After a refused `accept`, which is nearly always a lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// How often it is seen to that the name leads to us.
const LOOK: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error("{} is the socket of a daemon that is running", .0.display())]
    Taken(PathBuf),
    #[error("cannot listen on {}: {source}", .path.display())]
    Failed { path: PathBuf, source: io::Error },
}

/// A bound socket.
#[derive(Debug)]
pub struct Bound {
    listener: UnixListener,
    path: PathBuf,
    /// The file, to tell ours from another's of the same name.
    file: (u64, u64),
}

/// Binds, unless somebody answers there already.
pub async fn bind(path: &Path) -> Result<Bound, BindError> {
    if is_answered(path).await {
        return Err(BindError::Taken(path.to_path_buf()));
    }
    bind_new(path).map_err(|source| BindError::Failed { path: path.to_path_buf(), source })
}

/// Does a living process listen there?
pub async fn is_answered(path: &Path) -> bool {
    let connected = timeout(Duration::from_secs(5), UnixStream::connect(path)).await;
    // One that is too busy to be connected to is alive.
    !matches!(connected, Ok(Err(_)))
}

/// The name appears at once with its mode, in place of whatever was there.
fn bind_new(path: &Path) -> io::Result<Bound> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made?;
    // Not longer than the name itself: what a socket can be called is short.
    let new = folder.join(format!(".bus{}", std::process::id()));
    let _leftover = fs::remove_file(&new);
    let listener = UnixListener::bind(&new)?;
    let named = || -> io::Result<_> {
        fs::set_permissions(&new, fs::Permissions::from_mode(0o600))?;
        let file = identity(&new)?;
        fs::rename(&new, path)?;
        Ok(file)
    };
    let file = named().inspect_err(|_| drop(fs::remove_file(&new)))?;
    Ok(Bound { listener, path: path.to_path_buf(), file })
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

impl Bound {
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn is_ours(&self) -> bool {
        identity(&self.path).is_ok_and(|file| file == self.file)
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        if self.is_ours() {
            let _gone = fs::remove_file(&self.path);
        }
    }
}

/// Serves until the door's tasks stop. Returns at once.
pub fn serve(bound: Bound, door: Door) {
    let tasks = door.tasks.clone();
    tasks.spawn_until_stopped(run(bound, door));
}

async fn run(mut bound: Bound, door: Door) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_displaced = false;
    loop {
        tokio::select! {
            () = accept(&bound.listener, &places, &door) => {}
            _ = looks.tick() => {
                if !bound.is_ours() {
                    is_displaced = rebind(&mut bound, is_displaced).await;
                }
            }
        }
    }
}

/// Returns whether somebody else has the name.
async fn rebind(bound: &mut Bound, was_displaced: bool) -> bool {
    let path = bound.path.clone();
    match bind(&path).await {
        Ok(new) => {
            tracing::warn!("{} was removed; it is there again", path.display());
            // The old one has no name any more; whoever is connected stays so.
            *bound = new;
            false
        }
        Err(BindError::Taken(_)) => {
            if !was_displaced {
                tracing::error!(
                    "another daemon has taken {}; new clients go there until it stops",
                    path.display()
                );
            }
            true
        }
        Err(error) => {
            tracing::error!(%error, "the bus cannot be reached");
            was_displaced
        }
    }
}

async fn accept(listener: &UnixListener, places: &Arc<Semaphore>, door: &Door) {
    // Never closed, so it always comes.
    let Ok(place) = Arc::clone(places).acquire_owned().await else {
        return;
    };
    let stream = match listener.accept().await {
        Ok((stream, _)) => stream,
        Err(error) => {
            tracing::warn!(%error, "a connection could not be accepted");
            tokio::time::sleep(PAUSE).await;
            return;
        }
    };
    match Peer::of(&stream) {
        Ok(peer) if peer.is_owner() => {}
        Ok(_) => {
            tracing::warn!("a connection of another user was refused");
            return;
        }
        Err(error) => {
            tracing::debug!(%error, "a connection was gone before it was served");
            return;
        }
    }
    let connection = Connection::new(stream, door.clone());
    door.tasks.spawn(async move {
        connection.run().await;
        drop(place);
    });
}

//! Angelia's own folder and the files in it, created on first use and private to the owner.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::{environment::Environment, owner_only};

/// Maximum length of a Unix socket's path on every system that we support.
const LONGEST_SOCKET: usize = 103;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Home {
    dir: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum HomeError {
    #[error(
        "there is no folder for Angelia: neither ANGELIA_HOME nor HOME is set; set one of them"
    )]
    NoHome,
    #[error(
        "{0} is too long for a socket in it (at most {LONGEST_SOCKET} bytes); set ANGELIA_HOME to a shorter path"
    )]
    SocketPathTooLong(PathBuf),
    #[error("{} is not a folder; remove it, or set ANGELIA_HOME to another path", .0.display())]
    NotAFolder(PathBuf),
    #[error("{} holds no token; remove it and the next start makes a new one", .0.display())]
    BadToken(PathBuf),
    #[error("{}: {source}; {}", path.display(), advice(source))]
    Io { path: PathBuf, source: io::Error },
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "make room on the disk, then try again"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "make it writable for you, or set ANGELIA_HOME to a folder that is"
        }
        _ => "set ANGELIA_HOME to a folder that can be used",
    }
}

/// The owner's token. It grants all of the owner's rights, so it is never printed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token(Arc<str>);

impl Token {
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(hidden)")
    }
}

impl Home {
    pub(crate) fn from_environment(environment: &Environment) -> Result<Self, HomeError> {
        let dir = environment.angelia_home().ok_or(HomeError::NoHome)?;
        let dir =
            std::path::absolute(&dir).map_err(|source| HomeError::Io { path: dir, source })?;
        Ok(Self { dir })
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn config_file(&self) -> PathBuf {
        self.dir.join("config.yaml")
    }

    /// Returns the folder for the files of sessions, with one folder per session.
    pub(crate) fn sessions_dir(&self) -> PathBuf {
        self.dir.join("sessions")
    }

    /// Returns the folder for copies of sessions, used if `sessions.snapshots` is on.
    pub(crate) fn snapshots_dir(&self) -> PathBuf {
        self.dir.join("snapshots")
    }

    pub(crate) fn state_db(&self) -> PathBuf {
        self.dir.join("state.db")
    }

    /// Returns the database of pending deliveries to channels.
    pub(crate) fn deliveries_db(&self) -> PathBuf {
        self.dir.join("deliveries.db")
    }

    /// Returns the database of events from chat platforms, and of who may talk there.
    pub(crate) fn chats_db(&self) -> PathBuf {
        self.dir.join("chats.db")
    }

    /// Returns the folder for messages that wait for their receivers.
    pub(crate) fn bus_dir(&self) -> PathBuf {
        self.dir.join("bus")
    }

    /// Returns the pid file of a standalone bus.
    pub(crate) fn bus_pid_file(&self) -> PathBuf {
        self.run_dir().join("bus.pid")
    }

    /// Returns the bus's own socket.
    pub(crate) fn bus_socket(&self) -> PathBuf {
        self.run_dir().join("bus.sock")
    }

    pub(crate) fn bus_log(&self) -> PathBuf {
        self.logs_dir().join("bus.log")
    }

    pub(crate) fn daemon_log(&self) -> PathBuf {
        self.logs_dir().join("angelia.log")
    }

    /// Returns the daemon's previous log.
    pub(crate) fn older_daemon_log(&self) -> PathBuf {
        self.logs_dir().join("angelia.log.1")
    }

    /// Returns the file with the lines typed in chats.
    pub(crate) fn chat_history(&self) -> PathBuf {
        self.dir.join("chat_history")
    }

    pub(crate) fn token_file(&self) -> PathBuf {
        self.dir.join("token")
    }

    pub(crate) fn run_dir(&self) -> PathBuf {
        self.dir.join("run")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.run_dir().join("angelia.sock")
    }

    pub(crate) fn pid_file(&self) -> PathBuf {
        self.run_dir().join("angelia.pid")
    }

    /// Returns the file with the address that the daemon actually listens on.
    pub(crate) fn http_addr_file(&self) -> PathBuf {
        self.run_dir().join("http.addr")
    }

    /// Returns the folder with one locked file per process that owns agents.
    pub(crate) fn owners_dir(&self) -> PathBuf {
        self.run_dir().join("owners")
    }

    /// Returns the folder of files that record which agent works for which session.
    pub(crate) fn bindings_dir(&self) -> PathBuf {
        self.run_dir().join("agents")
    }

    pub(crate) fn work_dir(&self) -> PathBuf {
        self.dir.join("work")
    }

    /// Returns the folder for the refresh tokens of logins to providers and MCP servers.
    pub(crate) fn logins_dir(&self) -> PathBuf {
        self.dir.join("logins")
    }

    /// Returns the folder with one folder per agent version installed by `angelia agents install`.
    pub(crate) fn installed_agents_dir(&self) -> PathBuf {
        self.dir.join("agents/npm")
    }

    pub(crate) fn logs_dir(&self) -> PathBuf {
        self.dir.join("logs")
    }

    /// Creates the missing folders, and narrows the permissions of those that others can access.
    pub(crate) fn prepare(&self) -> Result<(), HomeError> {
        let folders =
            [self.dir.clone(), self.run_dir(), self.owners_dir(), self.work_dir(), self.logs_dir()];
        folders.iter().try_for_each(|path| make_folder(path))
    }

    /// Returns the empty working folder of a profile in model mode.
    pub(crate) fn profile_work_dir(&self, profile: &str) -> Result<PathBuf, HomeError> {
        let path = self.work_dir().join(profile);
        make_folder(&self.work_dir())?;
        make_folder(&path)?;
        Ok(path)
    }

    /// Returns the owner's token, created on first use.
    pub(crate) fn load_or_create_token(&self) -> Result<Token, HomeError> {
        let path = self.token_file();
        let failed = |source| HomeError::Io { path: path.clone(), source };
        if !path.try_exists().map_err(failed)? {
            owner_only::create_file(&path, new_token().as_bytes()).map_err(failed)?;
        }
        owner_only::narrow_file(&path).map_err(failed)?;
        let text = fs::read_to_string(&path).map_err(failed)?;
        match text.trim() {
            "" => Err(HomeError::BadToken(path)),
            token => Ok(Token(token.into())),
        }
    }

    /// Returns the id of this machine in a record that is elsewhere, created on first use.
    pub(crate) fn load_or_create_machine_id(&self) -> Result<String, HomeError> {
        self.prepare()?;
        let path = self.run_dir().join("machine");
        let failed = |source| HomeError::Io { path: path.clone(), source };
        if !path.try_exists().map_err(failed)? {
            let id = Uuid::new_v4().simple().to_string();
            owner_only::create_file(&path, id.as_bytes()).map_err(failed)?;
        }
        Ok(fs::read_to_string(&path).map_err(failed)?.trim().to_owned())
    }

    /// Checks that a daemon can listen here. Everything else works with a path of any length.
    pub(crate) fn check_socket(&self) -> Result<(), HomeError> {
        if self.socket().as_os_str().len() > LONGEST_SOCKET {
            return Err(HomeError::SocketPathTooLong(self.dir.clone()));
        }
        Ok(())
    }

    /// Returns an id that distinguishes this home's processes from those of another home. It is the
    /// same for every spelling of the home's path.
    pub(crate) fn id(&self) -> String {
        let path = fs::canonicalize(&self.dir).unwrap_or_else(|_| self.dir.clone());
        let mut id = format!("{:x}", Sha256::digest(path.as_os_str().as_encoded_bytes()));
        id.truncate(16);
        id
    }
}

fn make_folder(path: &Path) -> Result<(), HomeError> {
    let failed = |source| HomeError::Io { path: path.to_path_buf(), source };
    match fs::metadata(path) {
        Ok(found) if !found.is_dir() => Err(HomeError::NotAFolder(path.to_path_buf())),
        Ok(_) => owner_only::narrow_folder(path).map_err(failed),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            owner_only::create_folder(path).map_err(failed)
        }
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            let parent = path.parent().unwrap_or(path);
            Err(HomeError::NotAFolder(parent.to_path_buf()))
        }
        Err(error) => Err(failed(error)),
    }
}

/// Returns 32 unguessable bytes in hexadecimal: two random UUIDs contain 244 random bits, and the
/// hash spreads them.
pub(crate) fn new_token() -> String {
    let mut hash = Sha256::new();
    hash.update(Uuid::new_v4());
    hash.update(Uuid::new_v4());
    format!("{:x}", hash.finalize())
}

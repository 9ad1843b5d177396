//! The file with the refresh token of a login, which only the owner can read. A refresh token can
//! often be used only once, so the file stays locked from reading the token until its successor is
//! written.

use std::{
    fmt,
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, sleep};

use super::{OAuthSettings, login_hint};

/// The time that another process has to renew the login: one request, and a little more.
const LOCK_TIMEOUT: Duration = Duration::from_secs(40);
const LOCK_PAUSE: Duration = Duration::from_millis(25);

const VERSION: u32 = 1;

/// The number of digits of the settings' hash in the file's name.
const HASH_DIGITS: usize = 8;

/// A stored login.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The address where tokens are renewed.
    pub token_url: String,
    pub refresh_token: String,
    /// The recipient of the tokens, if the issuer was given one.
    pub resource: Option<String>,
}

/// Omits the token.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("token_url", &self.token_url).finish_non_exhaustive()
    }
}

#[derive(Serialize, Deserialize)]
struct LoginBody {
    version: u32,
    token_url: String,
    refresh_token: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resource: Option<String>,
}

/// The file of a login, which need not exist.
#[derive(Clone, Debug)]
pub struct LoginFile {
    path: PathBuf,
    hint: String,
}

/// A login that no other process with this home can use at the same time.
#[derive(Debug)]
pub struct LockedLogin {
    file: LoginFile,
    _lock: File,
}

impl LoginFile {
    /// Returns the file for these settings. Its name depends on them, so that a token is never sent
    /// to a server that did not issue it.
    pub fn of(settings: &OAuthSettings, folder: &Path) -> Self {
        let mut hash = format!("{:x}", Sha256::digest(format!("{settings:?}")));
        hash.truncate(HASH_DIGITS);
        let path = folder.join(format!("{}-{hash}.json", settings.target.file_stem()));
        Self { path, hint: login_hint(settings) }
    }

    pub fn exists(&self) -> bool {
        self.path.is_file()
    }

    /// Waits until no other process uses the login.
    pub async fn lock(&self) -> Result<LockedLogin, String> {
        let failed =
            |error: io::Error| format!("{} cannot be locked: {error}", self.path.display());
        if let Some(folder) = self.path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        }
        // The lock is a separate file, because the login file is replaced.
        let path = self.path.with_extension("lock");
        let lock = private().truncate(false).open(&path).map_err(failed)?;
        let until = Instant::now() + LOCK_TIMEOUT;
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(LockedLogin { file: self.clone(), _lock: lock }),
                Err(TryLockError::Error(error)) => return Err(failed(error)),
                Err(TryLockError::WouldBlock) if Instant::now() < until => sleep(LOCK_PAUSE).await,
                Err(TryLockError::WouldBlock) => {
                    return Err(format!(
                        "another process has been using {} for too long",
                        self.path.display()
                    ));
                }
            }
        }
    }
}

impl LockedLogin {
    /// Reads the login; if there is none, the error says what to do.
    pub fn read(&self) -> Result<Login, String> {
        let LoginFile { path, hint } = &self.file;
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(format!("nobody is logged in; {hint}"));
            }
            Err(error) => return Err(format!("{} cannot be read: {error}", path.display())),
        };
        let unreadable = || format!("{} is not readable as a login; {hint}", path.display());
        let body: LoginBody = serde_json::from_str(&text).map_err(|_| unreadable())?;
        let LoginBody { version, token_url, refresh_token, resource } = body;
        if version != VERSION {
            return Err(unreadable());
        }
        Ok(Login { token_url, refresh_token, resource })
    }

    /// Replaces the login durably, because the previous token may no longer be valid.
    pub fn write(&self, login: &Login) -> Result<(), String> {
        let path = &self.file.path;
        let failed = |error: io::Error| format!("{} cannot be written: {error}", path.display());
        let body = LoginBody {
            version: VERSION,
            token_url: login.token_url.clone(),
            refresh_token: login.refresh_token.clone(),
            resource: login.resource.clone(),
        };
        let text = serde_json::to_vec(&body).map_err(io::Error::other).map_err(failed)?;
        let draft = path.with_extension("new");
        // A draft that a killed process left behind may be in the way.
        let _absent = fs::remove_file(&draft);
        let mut file = private().create_new(true).open(&draft).map_err(failed)?;
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(failed)?;
        fs::rename(&draft, path).map_err(failed)?;
        let folder = path.parent().map_or_else(|| Ok(()), |folder| File::open(folder)?.sync_all());
        folder.map_err(failed)
    }

    /// Removes the login. Returns whether there was one.
    pub fn remove(&self) -> Result<bool, String> {
        let path = &self.file.path;
        match fs::remove_file(path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(format!("{} cannot be removed: {error}", path.display())),
        }
    }
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(0o600);
    options
}

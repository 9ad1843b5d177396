//! The effective configuration, which a daemon changes when its file changes
//! (`docs/design/0018-live-configuration.md`). Every other command keeps the configuration that it
//! has loaded.

use std::{
    fmt, fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock},
    time::{Duration, SystemTime},
};

use angelia_frontends::{
    bus_rules::check_trusted,
    http::{ConfigReload, ConfigState},
};
use jiff::Timestamp;
use tokio::time::sleep;

use crate::config::{Config, ConfigErrors, Confirmation, Environment, Home};

/// A file that changed more recently may still be in the process of being written.
const SETTLE_TIME: Duration = Duration::from_millis(50);

/// Number of checks of a file that keeps changing, or that is missing, before it is used as it is.
const SETTLE_ATTEMPTS: u32 = 20;

/// The sources of this process's settings.
#[derive(Clone, Debug)]
pub(crate) struct ConfigSource {
    pub(crate) environment: Environment,
    pub(crate) home: Home,
    /// The file named by `--config`.
    pub(crate) file: Option<PathBuf>,
    /// Keys that flags set, with their values.
    pub(crate) flags: Vec<(String, String)>,
}

impl ConfigSource {
    /// Returns the path of the file.
    pub(crate) fn path(&self) -> PathBuf {
        self.file.clone().unwrap_or_else(|| self.home.config_file())
    }

    fn load(&self) -> Result<Config, ConfigErrors> {
        let flags: Vec<(&str, &str)> =
            self.flags.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        Config::load(&self.environment, &self.home, self.file.as_deref(), &flags)
    }
}

/// Called with each new effective configuration.
type ConfigListener = Box<dyn Fn(&Config) + Send + Sync>;

pub(crate) struct LiveConfig {
    source: ConfigSource,
    in_force: RwLock<Arc<Config>>,
    file: Mutex<FileState>,
    /// Set if this process follows its file.
    listener: OnceLock<ConfigListener>,
    /// Held while the file is read.
    reading: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct FileState {
    /// The file's stamp when it was last read.
    stamp: Option<FileStamp>,
    /// Whether the effective configuration comes from a file that existed.
    existed: bool,
    loaded_at: Timestamp,
    waiting: Vec<String>,
    error: Option<String>,
    /// Changes that are not recorded in the audit log yet.
    unrecorded: Vec<String>,
}

/// Metadata that changes when a file is written, replaced or given other permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileStamp {
    inode: u64,
    size: u64,
    mode: u32,
    modified: SystemTime,
    changed: (i64, i64),
}

impl FileStamp {
    fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        Some(Self {
            inode: metadata.ino(),
            size: metadata.len(),
            mode: metadata.mode(),
            modified: metadata.modified().ok()?,
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }

    /// Returns whether the file has not been written for a while.
    fn is_settled(&self) -> bool {
        // A time in the future comes from another clock and says nothing.
        self.modified.elapsed().map_or(true, |age| age >= SETTLE_TIME)
    }
}

impl LiveConfig {
    pub(crate) fn load(source: ConfigSource) -> Result<Self, ConfigErrors> {
        // Take the stamp before reading the file, so that a later change differs from it.
        let stamp = FileStamp::of(&source.path());
        let config = source.load()?;
        Ok(Self::new(source, config, stamp))
    }

    /// Returns the defaults, for a command that does not need a configuration.
    pub(crate) fn defaults(source: ConfigSource) -> Self {
        Self::new(source, Config::defaults(), None)
    }

    fn new(source: ConfigSource, config: Config, stamp: Option<FileStamp>) -> Self {
        let file = FileState {
            stamp,
            existed: stamp.is_some(),
            loaded_at: Timestamp::now(),
            waiting: Vec::new(),
            error: None,
            unrecorded: Vec::new(),
        };
        Self {
            source,
            in_force: RwLock::new(Arc::new(config)),
            file: Mutex::new(file),
            listener: OnceLock::new(),
            reading: tokio::sync::Mutex::default(),
        }
    }

    /// Returns the effective configuration.
    pub(crate) fn current(&self) -> Arc<Config> {
        Arc::clone(&self.in_force.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn source(&self) -> &ConfigSource {
        &self.source
    }

    pub(crate) fn state(&self) -> ConfigState {
        let file = self.file();
        ConfigState {
            path: self.source.path().display().to_string(),
            loaded_at: file.loaded_at,
            waiting: file.waiting.clone(),
            error: file.error.clone(),
        }
    }

    /// Returns when the file was last written.
    pub(crate) fn file_time(&self) -> Option<Timestamp> {
        self.file().stamp.and_then(|stamp| Timestamp::try_from(stamp.modified).ok())
    }

    /// Checks that only the owner can write the file, if there is one.
    pub(crate) fn check_trusted(&self) -> Result<(), String> {
        let path = self.source.path();
        if !path.exists() {
            return Ok(());
        }
        check_trusted(&path).map_err(|error| error.to_string())
    }

    /// Starts following the file: from now on [`Self::refresh`] reads it when it has changed, and
    /// `listener` gets each configuration that takes effect.
    pub(crate) fn follow(&self, listener: impl Fn(&Config) + Send + Sync + 'static) {
        let _followed_before = self.listener.set(Box::new(listener));
    }

    /// Reads the file if it is followed and has changed.
    pub(crate) async fn refresh(&self) {
        if self.listener.get().is_none() || !self.has_changed() {
            return;
        }
        let _reading = self.reading.lock().await;
        self.settle().await;
        if self.has_changed() {
            // The problem with the file is kept in the state.
            let _reported = self.read_file(Confirmation::None);
        }
    }

    /// Reads the file on behalf of the owner.
    pub(crate) async fn reload(&self) -> Result<ConfigReload, String> {
        let _reading = self.reading.lock().await;
        self.settle().await;
        self.read_file(Confirmation::Owner)
    }

    /// Returns the changes to record in the audit log.
    pub(crate) fn take_unrecorded(&self) -> Vec<String> {
        std::mem::take(&mut self.file().unrecorded)
    }

    fn file(&self) -> MutexGuard<'_, FileState> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_changed(&self) -> bool {
        FileStamp::of(&self.source.path()) != self.file().stamp
    }

    /// Waits until no program is writing the file, because editors truncate or remove it before
    /// they write it.
    async fn settle(&self) {
        let path = self.source.path();
        let existed = self.file().existed;
        for _ in 0..SETTLE_ATTEMPTS {
            match FileStamp::of(&path) {
                Some(stamp) if stamp.is_settled() => return,
                None if !existed => return,
                _ => sleep(SETTLE_TIME / 2).await,
            }
        }
    }

    /// Reads the file, and applies the settings that may take effect now.
    fn read_file(&self, confirmation: Confirmation) -> Result<ConfigReload, String> {
        let path = self.source.path();
        let stamp = FileStamp::of(&path);
        let loaded = self.load_trusted(stamp.is_some());
        let mut file = self.file();
        file.stamp = stamp;
        let config = match loaded {
            Ok(config) => config,
            Err(error) => {
                tracing::warn!(
                    "the last good configuration stays in force, and the keys stay as they are: {error}"
                );
                file.error = Some(error.clone());
                return Err(error);
            }
        };
        let home = self.source.environment.home();
        let change = self.current().with_changes(&config, confirmation, home.as_deref());
        file.existed = stamp.is_some();
        file.error = None;
        file.loaded_at = Timestamp::now();
        let is_news = !change.applied.is_empty() || file.waiting != change.waiting;
        file.waiting.clone_from(&change.waiting);
        if is_news {
            let (applied, waiting) = (join(&change.applied), join(&change.waiting));
            tracing::info!(
                "the configuration was changed; in force: {applied}; waiting: {waiting}"
            );
            if confirmation == Confirmation::None {
                let path = path.display();
                file.unrecorded
                    .push(format!("{path} was changed; in force: {applied}; waiting: {waiting}"));
            }
        }
        let config = Arc::new(change.config);
        *self.in_force.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&config);
        if let Some(listener) = self.listener.get() {
            listener(&config);
        }
        Ok(ConfigReload { applied: change.applied, waiting: change.waiting })
    }

    fn load_trusted(&self, exists: bool) -> Result<Config, String> {
        if !exists && self.file().existed {
            let path = self.source.path();
            return Err(format!(
                "{} is gone; write it again, or restart the daemon to continue without it",
                path.display()
            ));
        }
        self.check_trusted()?;
        self.source.load().map_err(|errors| errors.to_string())
    }
}

fn join(names: &[String]) -> String {
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

impl fmt::Debug for LiveConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveConfig").field("in_force", &self.current()).finish_non_exhaustive()
    }
}

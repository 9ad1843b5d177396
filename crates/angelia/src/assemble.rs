//! Builds a running engine from a home and its configuration.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use angelia_backends::{
    edit_diff::FileDiffs,
    owners::{OwnerLock, OwnerRegistry},
    paths::RealPaths,
    session_files::SessionFolders,
};
use angelia_core::{
    engine::{Engine, EngineLimits, EngineParts},
    model::{AuditAction, AuditActor, AuditEntry},
    ports::{Clock, CommandRunner, Executor, Store, WorkDelegation},
    redact::Redactor,
    task::TaskGroup,
};
use angelia_executors::{
    DelegationSlot, ExecutorHost,
    native::providers::ProviderCatalog,
    process::{
        HomeId, OwnerId, ShellCommands, owner_watch::OwnerWatch, session_binding,
        sweep::sweep_dead_owners,
    },
    selftest::PrivateFolders,
    wire_log::WireLog,
};
use angelia_frontends::turn_service::{EngineTurns, SpecOverrides, TurnService};
use jiff::Timestamp;

use crate::{
    cli::{
        error::{CommandError, Exit},
        print,
    },
    clock::SystemClock,
    config::{Config, ConfigErrors, Environment, Home, HomeError},
    delegation::EngineDelegation,
    live_agents,
    live_config::{ConfigSource, LiveConfig},
    profiles::ConfiguredProfiles,
    record_location::RecordLocation,
};

/// How long leftover processes of a dead angelia may take to exit on their own.
const SWEEP_GRACE: Duration = Duration::from_millis(500);

/// The context of every command: its environment, its home, and the effective configuration.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) environment: Environment,
    pub(crate) home: Home,
    /// The configuration that this process was started with.
    pub(crate) config: Arc<Config>,
    /// The effective configuration, which changes only in a daemon.
    pub(crate) live_config: Arc<LiveConfig>,
    /// The file that the configuration was read from, if it is not the one in the home.
    pub(crate) config_file: Option<PathBuf>,
    /// The error of an unusable file, in a command that continues without it.
    pub(crate) config_error: Option<ConfigErrors>,
}

impl App {
    pub(crate) fn load(
        environment: Environment,
        config_file: Option<&Path>,
        flags: &[(&str, &str)],
    ) -> Result<Self, CommandError> {
        let app = Self::load_for_daemon(environment, config_file, flags)?;
        app.ensure_valid_config()?;
        Ok(app)
    }

    /// Loads the context of a command that asks the daemon, which has its own configuration. An unusable file
    /// is then an error only if there is no daemon.
    pub(crate) fn load_for_daemon(
        environment: Environment,
        config_file: Option<&Path>,
        flags: &[(&str, &str)],
    ) -> Result<Self, CommandError> {
        let home = Home::from_environment(&environment)?;
        let config_file = config_file.and_then(|path| std::path::absolute(path).ok());
        let flags = flags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let source = ConfigSource {
            environment: environment.clone(),
            home: home.clone(),
            file: config_file.clone(),
            flags: flags.collect(),
        };
        let (live_config, config_error) = match LiveConfig::load(source.clone()) {
            Ok(config) => (config, None),
            Err(error) => (LiveConfig::defaults(source), Some(error)),
        };
        let config = live_config.current();
        let live_config = Arc::new(live_config);
        Ok(Self { environment, home, config, live_config, config_file, config_error })
    }

    /// Fails if the configuration file is unusable.
    pub(crate) fn ensure_valid_config(&self) -> Result<(), CommandError> {
        match &self.config_error {
            Some(error) => Err(error.clone().into()),
            None => Ok(()),
        }
    }

    /// Returns where the record is.
    pub(crate) fn record_location(&self) -> Result<RecordLocation, CommandError> {
        RecordLocation::new(&self.environment, &self.home, &self.config)
    }

    /// Returns a hash of the configuration's sources: the path of its file, and its variables.
    pub(crate) fn config_source_sha256(&self) -> String {
        self.config.source_sha256(&self.live_config.source().path())
    }

    /// Returns whether flags of this command set anything that the daemon does not know.
    pub(crate) fn has_flags(&self) -> bool {
        !self.live_config.source().flags.is_empty()
    }

    /// Returns whether this command has settings of its own, from a file or from variables.
    pub(crate) fn has_own_settings(&self) -> bool {
        self.config_file.is_some() || self.config.has_variables()
    }
}

impl From<HomeError> for CommandError {
    fn from(error: HomeError) -> Self {
        Self::new(Exit::Config, error.to_string())
    }
}

impl From<ConfigErrors> for CommandError {
    fn from(errors: ConfigErrors) -> Self {
        Self::new(Exit::Config, errors.to_string())
    }
}

/// The store of a home, opened by this process without an engine.
#[derive(Clone)]
pub(crate) struct HomeStore {
    owner: Arc<OwnerLock>,
    pub(crate) store: Arc<dyn Store>,
}

impl HomeStore {
    /// Opens the store. `command` names this process to other processes that wait for one of its
    /// sessions.
    pub(crate) fn open(app: &App, command: &'static str) -> Result<Self, CommandError> {
        Self::open_in(&app.home, app.record_location()?, command)
    }

    fn open_in(
        home: &Home,
        place: RecordLocation,
        command: &'static str,
    ) -> Result<Self, CommandError> {
        home.prepare()?;
        let owners = OwnerRegistry::new(home.owners_dir());
        let owner = Arc::new(owners.register(command).map_err(CommandError::internal)?);
        let store = place.open(Arc::clone(&owner))?;
        Ok(Self { owner, store })
    }

    /// Opens the store for a command that reads, and only occasionally writes.
    pub(crate) fn open_for_reading(
        app: &App,
        command: &'static str,
    ) -> Result<Arc<dyn Store>, CommandError> {
        app.home.prepare()?;
        let owners = OwnerRegistry::new(app.home.owners_dir());
        app.record_location()?.open_for_reading(&owners, command)
    }

    /// Adds a row to the audit log for an action that the owner took with a command. A failed write
    /// is only reported, because the action cannot be undone.
    pub(crate) async fn record_audit(
        home: &Home,
        place: Result<RecordLocation, CommandError>,
        action: AuditAction,
        subject: String,
    ) {
        let entry = AuditEntry {
            at: Timestamp::now(),
            actor: AuditActor::Terminal,
            action,
            subject: subject.into(),
        };
        let recorded = async {
            let opened = Self::open_in(home, place?, "show")?;
            opened.store.record_audit(entry).await?;
            opened.store.close().await;
            Ok::<_, CommandError>(())
        };
        if let Err(error) = recorded.await {
            print::note(&format!("this is missing from the audit log: {error}"));
        }
    }
}

/// An engine in this process.
pub(crate) struct LocalEngine {
    pub(crate) engine: Engine,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) profiles: Arc<ConfiguredProfiles>,
    pub(crate) tasks: TaskGroup,
    /// Runs the programs named by hooks and bus rules.
    pub(crate) commands: Arc<dyn CommandRunner>,
    /// Masks secrets in the output of agents and commands. Executors have clones of it.
    pub(crate) redactor: Redactor,
    /// The model providers, shared by the executors.
    pub(crate) providers: Arc<ProviderCatalog>,
    /// Delegates work of the built-in loop to other profiles. Kept alive for its executor.
    _delegation: Arc<dyn WorkDelegation>,
    /// The tasks that write the files for `sessions.snapshots`.
    snapshots: TaskGroup,
    /// Ends the agents if this process is killed.
    watch: Option<OwnerWatch>,
}

impl LocalEngine {
    /// Opens the store like [`HomeStore::open`], and starts the engine on it.
    pub(crate) async fn start(
        app: &Arc<App>,
        command: &'static str,
        keep_warm: bool,
    ) -> Result<Self, CommandError> {
        Self::start_on(HomeStore::open(app, command)?, app, keep_warm).await
    }

    /// Starts the engine, ends processes left behind by dead owners, and closes their turns.
    pub(crate) async fn start_on(
        opened: HomeStore,
        app: &Arc<App>,
        keep_warm: bool,
    ) -> Result<Self, CommandError> {
        app.ensure_valid_config()?;
        let HomeStore { owner, store } = opened;
        let owners = owner.registry().clone();
        let host = executor_host(app, owner.id(), keep_warm)?;
        let watch = watch_owner(&host);
        let tasks = host.tasks.clone();
        let home_id = host.home_id.clone();
        let ledger = host.ledger.clone();
        let redactor = host.redactor.clone();
        let providers = Arc::clone(&host.providers);
        let executors = build_executors(&host);
        let delegation_slot = host.delegation.clone();
        let commands = Arc::new(ShellCommands::new(host));
        let engine = Engine::new(EngineParts {
            store: Arc::clone(&store),
            clock: Arc::new(SystemClock),
            paths: Arc::new(RealPaths::new(
                &user_home(app),
                app.home.dir(),
                angelia_executors::agent_files(),
            )),
            edits: Arc::new(FileDiffs),
            session_files: Arc::new(SessionFolders::new(&app.home.sessions_dir())),
            executors: executors.clone(),
            limits: EngineLimits { reviews: keep_warm, ..engine_limits(app) },
            // A separate group, because turns must end before the processes that they use.
            tasks: TaskGroup::new(),
        });
        // End the leftover processes before closing their turns: no process may still be working on a turn
        // that is closed here.
        let alive = move |owner: &OwnerId| owners.is_alive(owner.as_str());
        session_binding::remove_stale_bindings(&app.home.bindings_dir(), &alive);
        let swept = sweep_dead_owners(&home_id, &ledger, SWEEP_GRACE, alive).await;
        if !swept.is_empty() {
            tracing::info!(processes = swept.len(), "ended processes left by a killed angelia");
        }
        let closed = engine.recover_lost_turns().await?;
        if closed > 0 {
            tracing::info!(turns = closed, "closed turns of an angelia that was killed");
        }
        let snapshots = TaskGroup::new();
        if app.config.sessions().snapshots {
            crate::snapshots::spawn_writer(&engine, app.home.snapshots_dir(), &snapshots);
        }
        let profiles = Arc::new(ConfiguredProfiles::new(Arc::clone(app), executors));
        let delegation = EngineDelegation::start((app, &engine, &store), &profiles, keep_warm);
        delegation_slot.fill(&delegation);
        Ok(Self {
            engine,
            store,
            profiles,
            tasks,
            commands,
            redactor,
            providers,
            _delegation: delegation,
            snapshots,
            watch,
        })
    }

    /// Returns the turn service of this engine. `overrides` change the specification of new sessions.
    pub(crate) fn turns(&self, overrides: SpecOverrides) -> Arc<dyn TurnService> {
        let profiles = Arc::clone(&self.profiles) as _;
        Arc::new(EngineTurns::new(self.engine.clone(), profiles, overrides))
    }

    pub(crate) async fn stop(&self) {
        self.engine.end_turns().await;
        // Stop this after the turns have ended, because the snapshots contain them.
        self.snapshots.shutdown(Duration::from_secs(5)).await;
        self.engine.close().await;
        self.tasks.shutdown(Duration::from_secs(5)).await;
    }

    /// Dismisses the watcher of this process, after [`LocalEngine::stop`] and before this process executes
    /// another program.
    pub(crate) fn dismiss_watcher(self) {
        if let Some(watch) = self.watch {
            watch.dismiss();
        }
    }
}

/// Registers a command without a store as an owner of agents, and prepares the host for its executors.
fn register_host(
    app: &App,
    command: &'static str,
) -> Result<(OwnerLock, ExecutorHost), CommandError> {
    app.home.prepare()?;
    let owner = OwnerRegistry::new(app.home.owners_dir())
        .register(command)
        .map_err(CommandError::internal)?;
    let host = executor_host(app, owner.id(), false)?;
    Ok((owner, host))
}

/// Executors without an engine, for a command that only inspects agents.
pub(crate) struct StandaloneExecutors {
    all: Vec<Arc<dyn Executor>>,
    pub(crate) host: ExecutorHost,
    /// Without this lock, another angelia would kill the probes as leftovers of a dead process.
    _owner: OwnerLock,
}

impl StandaloneExecutors {
    pub(crate) fn start(app: &App, command: &'static str) -> Result<Self, CommandError> {
        let (owner, host) = register_host(app, command)?;
        Ok(Self { all: build_executors(&host), host, _owner: owner })
    }

    pub(crate) fn all(&self) -> &[Arc<dyn Executor>] {
        &self.all
    }

    pub(crate) async fn stop(self) {
        for executor in &self.all {
            executor.close().await;
        }
        self.host.tasks.shutdown(Duration::from_secs(5)).await;
    }
}

/// The host of executors in a process without an engine.
pub(crate) struct StandaloneHost {
    host: ExecutorHost,
    /// Without this lock, another angelia would kill the agents as leftovers of a dead process.
    _owner: OwnerLock,
    /// Ends the agents if this process is killed.
    _watch: Option<OwnerWatch>,
}

impl StandaloneHost {
    pub(crate) fn start(app: &App, command: &'static str) -> Result<Self, CommandError> {
        let (owner, host) = register_host(app, command)?;
        let watch = watch_owner(&host);
        Ok(Self { host, _owner: owner, _watch: watch })
    }

    pub(crate) const fn host(&self) -> &ExecutorHost {
        &self.host
    }

    /// Returns a host for a self-test, whose agents have their home in these folders. Keeps only the program
    /// search path of the owner's environment.
    pub(crate) fn host_in(
        &self,
        folders: &PrivateFolders,
        search_path: OsString,
        tasks: TaskGroup,
        wire_log: Option<Arc<WireLog>>,
    ) -> ExecutorHost {
        ExecutorHost {
            environment: Arc::new(folders.environment(search_path).into_iter().collect()),
            user_home: folders.home(),
            work_dir: folders.root().join("angelia/work"),
            tasks,
            wire_log,
            ..self.host.clone()
        }
    }
}

/// Starts the watcher of this process. Without a watcher, the agents of a killed process live on until the
/// next start.
fn watch_owner(host: &ExecutorHost) -> Option<OwnerWatch> {
    OwnerWatch::start(&host.current_exe, &host.home_id, &host.owner_id, &host.ledger)
        .inspect_err(|error| tracing::warn!(%error, "the watcher of this process did not start"))
        .ok()
}

fn build_executors(host: &ExecutorHost) -> Vec<Arc<dyn Executor>> {
    angelia_executors::EXECUTORS.iter().map(|kind| (kind.build)(host.clone())).collect()
}

fn engine_limits(app: &App) -> EngineLimits {
    let sessions = app.config.sessions();
    EngineLimits {
        idle_ttl: sessions.idle_ttl.duration(),
        one_off_idle_ttl: sessions.one_off_idle_ttl.duration(),
        max_live_agents: live_agents::limit(sessions.max_live),
        max_queued_turns: sessions.max_queued_turns.0 as usize,
        output_bytes: app.config.output_bytes(),
        ..EngineLimits::default()
    }
}

fn user_home(app: &App) -> PathBuf {
    app.environment.home().unwrap_or_else(|| app.home.dir().to_path_buf())
}

fn executor_host(app: &App, owner: &str, keep_warm: bool) -> Result<ExecutorHost, CommandError> {
    let current_exe = std::env::current_exe()
        .map_err(|error| CommandError::internal(format!("cannot find my own program: {error}")))?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let environment = app.environment.variables();
    let providers = app.config.providers(app.environment.home().as_deref());
    Ok(ExecutorHost {
        environment: Arc::new(environment.clone()),
        user_home: user_home(app),
        home_id: HomeId::new(&app.home.id()).map_err(CommandError::internal)?,
        owner_id: OwnerId::new(owner).map_err(CommandError::internal)?,
        work_dir: app.home.work_dir(),
        ledger: app.home.run_dir().join("ledger"),
        redactor: redactor(app),
        tasks: TaskGroup::new(),
        clock,
        current_exe,
        prices: Arc::new(app.config.prices()),
        providers: Arc::new(ProviderCatalog::new(providers, environment)),
        delegation: DelegationSlot::default(),
        keep_warm,
        wire_log: None,
    })
}

/// Returns a redactor that masks the secrets in the environment and in the configuration.
pub(crate) fn redactor(app: &App) -> Redactor {
    Redactor::new(secret_values(&app.environment).into_iter().chain(app.config.secrets()))
}

/// Returns the values in our environment that must never be printed: those of variables whose name suggests a
/// secret.
fn secret_values(environment: &Environment) -> Vec<String> {
    const SECRET_NAME_PARTS: [&str; 6] =
        ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL"];
    let named_so =
        |name: &str| SECRET_NAME_PARTS.iter().any(|word| name.to_ascii_uppercase().contains(word));
    environment
        .iter()
        .filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)))
        .filter(|(name, _)| named_so(name))
        .map(|(_, value)| value.to_owned())
        .collect()
}

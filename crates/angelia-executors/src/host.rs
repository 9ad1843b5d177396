//! The services and identities that the binary gives to an executor. There are no globals: two
//! hosts in one process are independent of each other.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fmt,
    path::PathBuf,
    sync::Arc,
};

use angelia_core::{
    model::{Failure, FailureKind, SessionId, SessionSpec, TokenPrice},
    ports::Clock,
    redact::Redactor,
    task::TaskGroup,
};

use crate::{
    delegation_slot::DelegationSlot,
    native::providers::ProviderCatalog,
    process::{
        AgentId, HomeId, OwnerId, ProcessMark,
        environment::{self, EnvPattern, EnvironmentAdditions, EnvironmentError},
        mark::COMMAND_PREFIX,
        session_binding::SessionBinding,
    },
    wire_log::WireLog,
};

#[derive(Clone)]
pub struct ExecutorHost {
    /// Our own environment, read once by the binary.
    pub environment: Arc<BTreeMap<OsString, OsString>>,
    /// `HOME` for child processes if our own environment has none.
    pub user_home: PathBuf,
    pub home_id: HomeId,
    pub owner_id: OwnerId,
    /// `$ANGELIA_HOME/work`: empty working directories, and files needed only during a start.
    pub work_dir: PathBuf,
    /// The directory of the pid ledger, on systems that need one (macOS).
    pub ledger: PathBuf,
    pub redactor: Redactor,
    pub tasks: TaskGroup,
    pub clock: Arc<dyn Clock>,
    /// The path of our own program, which runs the built-in agents and confines the others.
    pub current_exe: PathBuf,
    /// The owner's prices by model id; they override an executor's built-in prices.
    pub prices: Arc<BTreeMap<Arc<str>, TokenPrice>>,
    /// The model providers of our own loop.
    pub providers: Arc<ProviderCatalog>,
    /// Lets our own loop delegate work to other profiles.
    pub delegation: DelegationSlot,
    /// Whether to keep warm processes: true for a daemon, false for a single command.
    pub keep_warm: bool,
    /// Receives every line between us and the agents when a self-test is recorded.
    pub wire_log: Option<Arc<WireLog>>,
}

/// Omits the environment because it holds secrets.
impl fmt::Debug for ExecutorHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecutorHost")
            .field("home_id", &self.home_id)
            .field("owner_id", &self.owner_id)
            .field("work_dir", &self.work_dir)
            .field("keep_warm", &self.keep_warm)
            .finish_non_exhaustive()
    }
}

impl ExecutorHost {
    /// Returns a new mark for an agent's process.
    pub fn fresh_mark(&self) -> Result<ProcessMark, Failure> {
        self.mark_with_prefix("")
    }

    /// Returns a new mark for one of the owner's programs. Such a program ends with us but belongs
    /// to no agent.
    pub(crate) fn fresh_command_mark(&self) -> Result<ProcessMark, Failure> {
        self.mark_with_prefix(COMMAND_PREFIX)
    }

    fn mark_with_prefix(&self, prefix: &str) -> Result<ProcessMark, Failure> {
        let id = format!("{prefix}{}", self.clock.fresh_uuid().simple());
        let agent = AgentId::new(&id)
            .map_err(|error| Failure::new(FailureKind::Internal, error.to_string()))?;
        Ok(ProcessMark { home: self.home_id.clone(), owner: self.owner_id.clone(), agent })
    }

    /// Returns the directory that holds one file per agent, naming the agent's session.
    pub fn bindings_dir(&self) -> PathBuf {
        self.ledger.with_file_name("agents")
    }

    /// Returns the directory that holds the configuration folders of agents in model mode.
    pub fn agents_dir(&self) -> PathBuf {
        self.work_dir.with_file_name("agents")
    }

    /// Returns the directory that holds the owner's provider logins.
    pub fn logins_dir(&self) -> PathBuf {
        self.work_dir.with_file_name("logins")
    }

    /// Records that the agent with this mark works for `session`, until the binding is dropped.
    pub(crate) fn bind_session(&self, mark: &ProcessMark, session: SessionId) -> SessionBinding {
        SessionBinding::new(&self.bindings_dir(), mark, session)
    }

    /// Returns the complete environment of a child: the allow-list, then the specification's
    /// `env_pass` and `env`, then the executor's own variables in `ours`. Later entries override
    /// earlier ones.
    pub fn child_environment(
        &self,
        spec: &SessionSpec,
        ours: &[(&str, &str)],
        mark: &ProcessMark,
    ) -> Result<BTreeMap<OsString, OsString>, Failure> {
        let invalid =
            |error: EnvironmentError| Failure::new(FailureKind::Invalid, error.to_string());
        let pass: Vec<EnvPattern> = spec
            .env_pass
            .iter()
            .map(|text| text.parse())
            .collect::<Result<_, _>>()
            .map_err(invalid)?;
        let mut set: BTreeMap<String, String> =
            spec.env.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        for (name, value) in ours {
            set.insert((*name).to_owned(), (*value).to_owned());
        }
        let additions = EnvironmentAdditions { pass: &pass, set: &set, home: &self.user_home };
        environment::build_environment(&self.environment, additions, mark).map_err(invalid)
    }

    /// Returns the `HOME` of the processes that a specification starts.
    pub(crate) fn home_of(&self, spec: &SessionSpec) -> PathBuf {
        let set = spec.env.get("HOME").map(|home| PathBuf::from(&**home));
        let ours = || self.environment.get(OsStr::new("HOME")).map(PathBuf::from);
        set.or_else(ours).unwrap_or_else(|| self.user_home.clone())
    }

    /// Finds a program by name in the `PATH` of the child's environment.
    pub fn find_program(
        &self,
        name: impl AsRef<OsStr>,
        environment: &BTreeMap<OsString, OsString>,
    ) -> Option<PathBuf> {
        let path = environment.get(OsStr::new("PATH"));
        which::which_in(name, path, "/").ok()
    }
}

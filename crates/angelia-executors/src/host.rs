//! What an executor gets from the binary. There are no globals: two hosts in one process do not
//! know of each other.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fmt,
    path::PathBuf,
    sync::Arc,
};

use angelia_core::{
    model::{Failure, FailureKind, SessionId, SessionSpec},
    ports::Clock,
    redact::Redactor,
    task::Tasks,
};

use crate::process::{
    AgentId, HomeId, Mark, OwnerId,
    bound::Bound,
    environment::{self, Additions, EnvPattern, EnvironmentError},
};

#[derive(Clone)]
pub struct Host {
    /// Our own environment, read once by the binary.
    pub environment: Arc<BTreeMap<OsString, OsString>>,
    /// `HOME` for children when our environment has none.
    pub user_home: PathBuf,
    pub home_id: HomeId,
    pub owner_id: OwnerId,
    /// `$ANGELIA_HOME/work`: empty working folders, and files that live for one start.
    pub work_dir: PathBuf,
    /// The folder of the pid ledger, on systems that need one.
    pub ledger: PathBuf,
    pub redactor: Redactor,
    pub tasks: Tasks,
    pub clock: Arc<dyn Clock>,
    /// Our own program, for agents that are part of it.
    pub current_exe: PathBuf,
    /// Keep processes started and waiting: for a daemon, not for a single command.
    pub keep_warm: bool,
}

/// Nothing of the environment: it holds secrets.
impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host")
            .field("home_id", &self.home_id)
            .field("owner_id", &self.owner_id)
            .field("work_dir", &self.work_dir)
            .field("keep_warm", &self.keep_warm)
            .finish_non_exhaustive()
    }
}

impl Host {
    /// The mark of a new process.
    pub fn fresh_mark(&self) -> Result<Mark, Failure> {
        let id = self.clock.fresh_uuid().simple().to_string();
        let agent = AgentId::new(&id)
            .map_err(|error| Failure::new(FailureKind::Internal, error.to_string()))?;
        Ok(Mark { home: self.home_id.clone(), owner: self.owner_id.clone(), agent })
    }

    /// Where it is written which agent works for which session.
    pub fn bindings(&self) -> PathBuf {
        self.ledger.with_file_name("agents")
    }

    /// The agent with this mark works for that session from now on.
    pub(crate) fn bind(&self, mark: &Mark, session: SessionId) -> Bound {
        Bound::new(&self.bindings(), mark, session)
    }

    /// The whole environment of a child: the allow-list, what the specification lets through and
    /// sets, and what the executor itself needs, which wins.
    pub fn child_environment(
        &self,
        spec: &SessionSpec,
        ours: &[(&str, &str)],
        mark: &Mark,
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
        let additions = Additions { pass: &pass, set: &set, home: &self.user_home };
        environment::build(&self.environment, additions, mark).map_err(invalid)
    }

    /// A program of this name in the child's search path.
    pub fn find_program(
        &self,
        name: impl AsRef<OsStr>,
        environment: &BTreeMap<OsString, OsString>,
    ) -> Option<PathBuf> {
        let path = environment.get(OsStr::new("PATH"));
        which::which_in(name, path, "/").ok()
    }
}

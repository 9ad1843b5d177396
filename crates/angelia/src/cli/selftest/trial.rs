//! One check of one program, in private folders that exist only for this check.

use std::{
    ffi::OsString,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use angelia_core::{
    model::{Failure, FailureKind},
    ports::InstalledAgent,
    task::TaskGroup,
};
use angelia_executors::{
    scripted_model::SharedRequest,
    selftest::{
        Check, CheckOutcome, CheckedAgent as _, Defect, PrivateFolders, PrivateHome,
        ScriptedFixture,
    },
    wire_log::{WireLine, WireLog},
};

use super::target::Target;
use crate::{
    assemble::{App, StandaloneHost},
    cli::{
        error::{CommandError, Exit},
        run::signals::StopSignals,
    },
};

/// Prefix of the folder names.
const FOLDER_PREFIX: &str = "angelia-selftest-";

/// Time limit for a whole check. Each step has its own limit.
const CHECK_LIMIT: Duration = Duration::from_mins(4);

/// Time limit for the executor's own tasks to end.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub(super) enum TrialEnd {
    Passed,
    NotApplicable(&'static str),
    Failed(Defect),
}

/// The result of a check.
pub(super) struct Trial {
    pub(super) end: TrialEnd,
    pub(super) took: Duration,
    pub(super) began: Instant,
    /// The agent's folders, which no longer exist.
    pub(super) folders: PrivateFolders,
    /// The messages, if they are recorded.
    pub(super) lines: Vec<WireLine>,
    pub(super) requests: Vec<SharedRequest>,
}

/// Creates the folders and executors for the trials.
pub(super) struct TrialRunner {
    executors: StandaloneHost,
    /// The folder in which they are created.
    parent: PathBuf,
    search_path: OsString,
    is_recorded: bool,
    stop: StopSignals,
}

/// A program in its folders.
struct TrialSetup {
    fixture: ScriptedFixture,
    wire_log: Option<Arc<WireLog>>,
    tasks: TaskGroup,
    home: PrivateHome,
}

impl TrialRunner {
    pub(super) fn new(app: &App, is_recorded: bool) -> Result<Self, CommandError> {
        let environment = &app.environment;
        let parent = environment.non_empty("TMPDIR").map_or_else(|| "/tmp".into(), PathBuf::from);
        Ok(Self {
            executors: StandaloneHost::start(app, "selftest")?,
            parent,
            search_path: environment.non_empty("PATH").unwrap_or_default().into(),
            is_recorded,
            stop: StopSignals::listen().map_err(CommandError::internal)?,
        })
    }

    fn prepare(&self, target: &Target) -> Result<TrialSetup, CommandError> {
        let failed = |error: std::io::Error| {
            let parent = self.parent.display();
            CommandError::internal(format!("cannot make a private folder in {parent}: {error}"))
                .with_hint("make room there, or set TMPDIR to another folder")
        };
        let home = PrivateHome::create(&self.parent, FOLDER_PREFIX).map_err(failed)?;
        let tasks = TaskGroup::new();
        let wire_log = self.is_recorded.then(Arc::<WireLog>::default);
        let host = self.executors.host_in(
            &home,
            self.search_path.clone(),
            tasks.clone(),
            wire_log.clone(),
        );
        let executor = (target.registration.build)(host);
        let fixture = ScriptedFixture::new(
            target.agent,
            executor,
            target.program.clone(),
            PrivateFolders::clone(&home),
        );
        Ok(TrialSetup { fixture: fixture.map_err(failed)?, wire_log, tasks, home })
    }

    /// Returns the program's path and version, or why it cannot be used.
    pub(super) async fn find_program(
        &mut self,
        target: &Target,
    ) -> Result<Result<InstalledAgent, Failure>, CommandError> {
        let setup = self.prepare(target)?;
        let spec = setup.fixture.spec();
        let health = tokio::select! {
            health = setup.fixture.executor().probe(&spec) => Some(health),
            _ = self.stop.next() => None,
        };
        setup.close().await;
        let health = health.ok_or_else(interrupted)?;
        let missing = || Failure::new(FailureKind::Unavailable, "the agent is not installed");
        Ok(health.installation.ok_or_else(|| health.problem.unwrap_or_else(missing)))
    }

    pub(super) async fn run(
        &mut self,
        target: &Target,
        check: &Check,
    ) -> Result<Trial, CommandError> {
        let setup = self.prepare(target)?;
        let began = Instant::now();
        let checking = tokio::time::timeout(CHECK_LIMIT, (check.run)(&setup.fixture));
        let end = tokio::select! {
            ended = checking => Some(match ended {
                Ok(Ok(CheckOutcome::Passed)) => TrialEnd::Passed,
                Ok(Ok(CheckOutcome::NotApplicable(reason))) => TrialEnd::NotApplicable(reason),
                Ok(Err(defect)) => TrialEnd::Failed(defect),
                Err(_) => {
                    TrialEnd::Failed(Defect::new(format!("no result within {CHECK_LIMIT:?}")))
                }
            }),
            _ = self.stop.next() => None,
        };
        let took = began.elapsed();
        let folders = PrivateFolders::clone(&setup.home);
        let requests = setup.fixture.server().requests();
        let wire_log = setup.wire_log.clone();
        setup.close().await;
        let lines = wire_log.map(|log| log.take()).unwrap_or_default();
        let end = end.ok_or_else(interrupted)?;
        Ok(Trial { end, took, began, folders, lines, requests })
    }
}

fn interrupted() -> CommandError {
    CommandError::new(Exit::Interrupted, "interrupted; nothing is left behind")
}

impl TrialSetup {
    /// Ends the processes, then removes the folders.
    async fn close(self) {
        self.fixture.executor().close().await;
        self.tasks.shutdown(SHUTDOWN_LIMIT).await;
        drop(self.fixture);
        drop(self.home);
    }
}

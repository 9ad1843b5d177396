//! Runs the engine in this process, assembled as in the daemon: no socket and no HTTP, but the same
//! store on disk, the same executor and the same runtime.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use angelia_backends::{owners::OwnerRegistry, store::SqliteStore};
use angelia_core::{
    engine::{Engine, EngineLimits, EngineParts, NewSession, RequestKey, Submission, TurnWatch},
    model::{
        Content, EventKind, SessionId, SessionSpec, ToolChoice, TurnOptions, TurnOrigin,
        TurnStatus, TurnTask,
    },
    ports::{Clock, Store},
    redact::Redactor,
    task::TaskGroup,
};
use angelia_executors::{
    DelegationSlot, ExecutorHost,
    process::{HomeId, OwnerId},
};
use angelia_testkit::clock::SystemClock;
use angelia_testkit::lexical_paths::LexicalPaths;
use anyhow::{Context as _, Result, bail};
use tokio::{runtime::Runtime, task::JoinSet};

use crate::{BenchHome, Timing};

/// The number of worker threads that the daemon uses on a small machine.
const WORKERS: usize = 2;

pub(crate) const OPTIONS: TurnOptions = TurnOptions {
    can_ask: true,
    origin: TurnOrigin::Owner,
    can_park: false,
    caller: None,
    charged_to: None,
    max_cost_usd: None,
    tool_choice: ToolChoice::Auto,
    task: TurnTask::Answer,
};

pub(crate) struct InProcessEngine {
    pub(crate) runtime: Runtime,
    pub(crate) engine: Engine,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) tasks: TaskGroup,
    pub(crate) spec: SessionSpec,
}

impl InProcessEngine {
    /// Starts an engine for the agent program of this home, with `warm` pooled processes.
    pub(crate) fn start(place: &BenchHome, warm: u32) -> Result<Self> {
        let mut spec = SessionSpec::new("claude", place.work_dir());
        spec.binary = Some(place.program.clone());
        spec.warm = warm;
        let variables = place.variables().into_iter();
        spec.env = variables.map(|(name, value)| (name.into(), value.into())).collect();
        Self::start_with(place, spec)
    }

    /// Starts an engine whose sessions have this specification.
    pub(crate) fn start_with(place: &BenchHome, spec: SessionSpec) -> Result<Self> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(WORKERS).enable_all().build()?;
        let inside = runtime.enter();
        let home = place.angelia_home("local");
        std::fs::create_dir_all(home.join("run"))?;
        let owner = Arc::new(OwnerRegistry::new(home.join("run/owners")).register("bench")?);
        let store = SqliteStore::open(&home.join("state.db"), Arc::clone(&owner))?;
        let store: Arc<dyn Store> = Arc::new(store);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let environment: BTreeMap<_, _> = place.bare_environment().into_iter().collect();
        let tasks = TaskGroup::new();
        let host = ExecutorHost {
            environment: Arc::new(environment),
            user_home: place.home(),
            home_id: HomeId::new("0123456789abcdef")?,
            owner_id: OwnerId::new(owner.id())?,
            work_dir: home.join("work"),
            ledger: home.join("run/ledger"),
            redactor: Redactor::default(),
            tasks: tasks.clone(),
            clock: Arc::clone(&clock),
            current_exe: crate::daemon::PROGRAM.into(),
            prices: Arc::default(),
            providers: Arc::default(),
            delegation: DelegationSlot::default(),
            keep_warm: spec.warm > 0,
            wire_log: None,
        };
        let kinds = angelia_executors::EXECUTORS.iter();
        let engine = Engine::new(EngineParts {
            store: Arc::clone(&store),
            clock,
            paths: Arc::new(LexicalPaths::default()),
            edits: Arc::new(angelia_testkit::lexical_paths::NamedDiffs),
            session_files: Arc::new(angelia_testkit::lexical_paths::NoSessionFiles),
            executors: kinds.map(|kind| (kind.build)(host.clone())).collect(),
            limits: EngineLimits::default(),
            tasks: TaskGroup::new(),
        });
        for executor in engine.executors() {
            if executor.name() == &*spec.executor {
                executor.warm_up(&spec);
            }
        }
        drop(inside);
        Ok(Self { runtime, engine, store, tasks, spec })
    }

    pub(crate) fn create_session(&self) -> Result<SessionId> {
        self.create_session_of(self.spec.clone())
    }

    pub(crate) fn create_session_of(&self, spec: SessionSpec) -> Result<SessionId> {
        let new = NewSession { spec, title: None, name: None, source: None };
        Ok(self.runtime.block_on(self.engine.create_session(new))?.id)
    }

    pub(crate) fn delete_session(&self, session: SessionId) -> Result<()> {
        Ok(self.runtime.block_on(self.engine.delete_session(session))?)
    }

    pub(crate) fn turn(&self, session: SessionId, prompt: &str) -> Result<Timing> {
        self.turn_since(Instant::now(), session, prompt)
    }

    pub(crate) fn turn_since(
        &self,
        begun: Instant,
        session: SessionId,
        prompt: &str,
    ) -> Result<Timing> {
        self.turn_once(begun, session, prompt, None)
    }

    /// Runs a turn; with a key, the engine runs it at most once.
    pub(crate) fn turn_once(
        &self,
        begun: Instant,
        session: SessionId,
        prompt: &str,
        key: Option<RequestKey>,
    ) -> Result<Timing> {
        self.runtime.block_on(async {
            let input = vec![Content::text(prompt)];
            let new = Submission { key, ..Submission::new(session, input, OPTIONS) };
            let mut submitted = self.engine.submit_with(new).await?;
            let mut first = None;
            while let Some(batch) = submitted.watch.next().await? {
                let is_text = |kind: &EventKind| matches!(kind, EventKind::Delta { .. });
                if first.is_none() && batch.iter().any(|event| is_text(&event.kind)) {
                    first = Some(begun.elapsed());
                }
                if let Some(last) = batch.last() {
                    check_end(&last.kind)?;
                }
            }
            Ok(Timing { first: first.context("the turn had no text")?, end: begun.elapsed() })
        })
    }

    /// Runs a turn with several viewers at once and returns its number of events.
    pub(crate) fn watched_turn(
        &self,
        session: SessionId,
        prompt: &str,
        viewers: usize,
    ) -> Result<u32> {
        self.runtime.block_on(async {
            let input = vec![Content::text(prompt)];
            let submitted = self.engine.submit(session, input, OPTIONS).await?;
            let mut views = JoinSet::new();
            for _ in 1..viewers {
                views.spawn(count_events(self.engine.watch(submitted.turn, 0).await?));
            }
            views.spawn(count_events(submitted.watch));
            let mut events = None;
            while let Some(seen) = views.join_next().await {
                let seen = seen??;
                if *events.get_or_insert(seen) != seen {
                    bail!("viewers saw different numbers of events");
                }
            }
            events.context("nobody watched")
        })
    }
}

async fn count_events(mut watch: TurnWatch) -> Result<u32> {
    let mut events = 0;
    while let Some(batch) = watch.next().await? {
        for event in batch.iter() {
            check_end(&event.kind)?;
            events += 1;
        }
    }
    Ok(events)
}

pub(crate) fn check_end(kind: &EventKind) -> Result<()> {
    match kind {
        EventKind::Finished(outcome) if !matches!(outcome.status, TurnStatus::Completed) => {
            bail!("the turn did not complete: {outcome:?}")
        }
        _ => Ok(()),
    }
}

impl Drop for InProcessEngine {
    fn drop(&mut self) {
        self.runtime.block_on(async {
            self.engine.shutdown().await;
            self.tasks.shutdown(Duration::from_secs(5)).await;
        });
    }
}

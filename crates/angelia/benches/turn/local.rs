//! Runs the engine in this process, assembled as in the daemon: no socket and no HTTP, but the same
//! store on disk, the same executor and the same runtime.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use angelia_backends::{owners::Owners, store::SqliteStore};
use angelia_core::{
    engine::{Engine, Limits, NewSession, Parts, RequestKey, Watch},
    model::{Content, EventKind, Origin, SessionId, SessionSpec, Status, TurnOptions},
    ports::{Clock, Store},
    redact::Redactor,
    task::Tasks,
};
use angelia_executors::{
    Host,
    process::{HomeId, OwnerId},
};
use angelia_testkit::clock::SystemClock;
use anyhow::{Context as _, Result, bail};
use tokio::{runtime::Runtime, task::JoinSet};

use crate::{Place, Timing};

/// The number of worker threads that the daemon uses on a small machine.
const WORKERS: usize = 2;

pub(crate) const OPTIONS: TurnOptions = TurnOptions {
    can_ask: true,
    origin: Origin::Owner,
    can_park: false,
    caller: None,
    max_cost_usd: None,
};

pub(crate) struct Local {
    pub(crate) runtime: Runtime,
    pub(crate) engine: Engine,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) tasks: Tasks,
    pub(crate) spec: SessionSpec,
}

impl Local {
    /// Starts an engine for the agent program of this home, with `warm` pooled processes.
    pub(crate) fn start(place: &Place, warm: u32) -> Result<Self> {
        let mut spec = SessionSpec::new("claude", place.work());
        spec.binary = Some(place.program.clone());
        spec.warm = warm;
        let variables = place.variables().into_iter();
        spec.env = variables.map(|(name, value)| (name.into(), value.into())).collect();
        Self::start_with(place, spec)
    }

    /// Starts an engine whose sessions have this specification.
    pub(crate) fn start_with(place: &Place, spec: SessionSpec) -> Result<Self> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(WORKERS).enable_all().build()?;
        let inside = runtime.enter();
        let home = place.angelia_home("local");
        std::fs::create_dir_all(home.join("run"))?;
        let owner = Arc::new(Owners::new(home.join("run/owners")).enter("bench")?);
        let store = SqliteStore::open(&home.join("state.db"), Arc::clone(&owner))?;
        let store: Arc<dyn Store> = Arc::new(store);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let environment: BTreeMap<_, _> = place.bare_environment().into_iter().collect();
        let tasks = Tasks::new();
        let host = Host {
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
            keep_warm: spec.warm > 0,
        };
        let kinds = angelia_executors::ALL.iter();
        let engine = Engine::new(Parts {
            store: Arc::clone(&store),
            clock,
            executors: kinds.map(|kind| (kind.build)(host.clone())).collect(),
            limits: Limits::default(),
            tasks: Tasks::new(),
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
        let new = NewSession { spec, title: None, name: None };
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
            let submitted = self.engine.submit_once(session, input, OPTIONS, key).await;
            let mut submitted = submitted?;
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
                views.spawn(view(self.engine.watch(submitted.turn, 0).await?));
            }
            views.spawn(view(submitted.watch));
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

async fn view(mut watch: Watch) -> Result<u32> {
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
        EventKind::Finished(outcome) if !matches!(outcome.status, Status::Completed) => {
            bail!("the turn did not complete: {outcome:?}")
        }
        _ => Ok(()),
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.runtime.block_on(async {
            self.engine.shutdown().await;
            self.tasks.shutdown(Duration::from_secs(5)).await;
        });
    }
}

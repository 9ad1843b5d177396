//! The test setup of every engine test: an engine with a manual executor and a store in memory.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use angelia_core::{
    engine::{Engine, EngineLimits, EngineParts, NewSession, SubmittedTurn, TurnWatch},
    model::{
        Content, EventKind, Outcome, SessionId, SessionRecord, SessionSpec, TurnEvent, TurnOptions,
        TurnOrigin,
    },
    ports::{Clock, Store},
    task::TaskGroup,
};
use angelia_testkit::{
    lexical_paths::LexicalPaths,
    manual_executor::{ExecutorControl, ManualExecutor},
    memory_store::MemoryStore,
    unreliable_store::UnreliableStore,
};
use tokio::time::Instant;
use uuid::Uuid;

pub(crate) struct EngineHarness {
    pub(crate) engine: Engine,
    pub(crate) control: ExecutorControl,
    pub(crate) store: Arc<dyn Store>,
    clock: Arc<HarnessClock>,
    tasks: TaskGroup,
    limits: EngineLimits,
}

/// Follows tokio's time, which tests pause; every reading differs from the one before.
pub(crate) struct HarnessClock {
    began: Instant,
    count: AtomicU64,
    /// The number of times that the clock was set back.
    set_back: AtomicU64,
}

impl HarnessClock {
    pub(crate) fn new() -> Self {
        Self { began: Instant::now(), count: AtomicU64::new(0), set_back: AtomicU64::new(0) }
    }

    fn set_back(&self) {
        self.count.store(0, Ordering::Relaxed);
        self.set_back.fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self) -> u64 {
        self.count.fetch_add(1, Ordering::Relaxed)
    }
}

impl Clock for HarnessClock {
    fn now(&self) -> jiff::Timestamp {
        let moment = self.began.elapsed() + Duration::from_micros(self.count());
        jiff::Timestamp::from_second(1_700_000_000).unwrap() + moment
    }

    fn fresh_uuid(&self) -> Uuid {
        Uuid::from_u64_pair(self.count(), 1 + self.set_back.load(Ordering::Relaxed))
    }
}

impl EngineHarness {
    pub(crate) fn new() -> Self {
        Self::with_limits(EngineLimits::default())
    }

    pub(crate) fn with_limits(limits: EngineLimits) -> Self {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        Self::with_store(store, Arc::new(HarnessClock::new()), limits)
    }

    pub(crate) fn with_unreliable_store() -> (Self, Arc<UnreliableStore>) {
        let store = Arc::new(UnreliableStore::new(Arc::new(MemoryStore::new())));
        let clock = Arc::new(HarnessClock::new());
        (Self::with_store(Arc::clone(&store) as _, clock, EngineLimits::default()), store)
    }

    fn with_store(store: Arc<dyn Store>, clock: Arc<HarnessClock>, limits: EngineLimits) -> Self {
        let (puppet, strings) = ManualExecutor::new();
        let tasks = TaskGroup::new();
        let engine = Engine::new(EngineParts {
            store: Arc::clone(&store),
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            paths: Arc::new(LexicalPaths::default()),
            edits: Arc::new(angelia_testkit::lexical_paths::NamedDiffs),
            session_files: Arc::new(angelia_testkit::lexical_paths::NoSessionFiles),
            executors: vec![puppet],
            limits,
            tasks: tasks.clone(),
        });
        Self { engine, control: strings, store, clock, tasks, limits }
    }

    /// Stops this engine but not its store, and starts another engine on the store.
    pub(crate) async fn restart(self) -> Self {
        assert!(self.tasks.shutdown(Duration::from_mins(1)).await);
        Self::with_store(self.store, self.clock, self.limits)
    }

    /// Kills the process of this engine, and starts another one on the same disk.
    pub(crate) async fn kill(self, store: &UnreliableStore) -> Self {
        store.kill().await;
        Self::with_store(store.disk(), self.clock, self.limits)
    }

    /// From now on the clock, and with it new ids, start again where they once began.
    pub(crate) fn set_clock_back(&self) {
        self.clock.set_back();
    }

    pub(crate) fn now(&self) -> jiff::Timestamp {
        self.clock.now()
    }

    pub(crate) async fn session(&self) -> SessionRecord {
        self.session_with(SessionSpec::new("puppet", "/project")).await
    }

    pub(crate) async fn session_with(&self, spec: SessionSpec) -> SessionRecord {
        let new = NewSession { spec, title: None, name: None, source: None };
        self.engine.create_session(new).await.unwrap()
    }

    pub(crate) async fn submit(&self, session: SessionId, text: &str) -> SubmittedTurn {
        self.engine.submit(session, vec![Content::text(text)], options()).await.unwrap()
    }
}

pub(crate) fn options() -> TurnOptions {
    TurnOptions { can_ask: true, ..TurnOptions::new(TurnOrigin::Owner) }
}

pub(crate) async fn all_events(mut watch: TurnWatch) -> Vec<TurnEvent> {
    let mut events = Vec::new();
    while let Some(batch) = watch.next().await.unwrap() {
        events.extend_from_slice(&batch);
    }
    events
}

/// Reads to the end and checks the invariants of every turn: numbers from 1 without gaps, and
/// exactly one `Finished`, as the last event.
pub(crate) async fn outcome(watch: TurnWatch) -> Outcome {
    let events = all_events(watch).await;
    for (index, event) in events.iter().enumerate() {
        assert_eq!(event.seq, index as u64 + 1, "numbers have no gaps");
        let last = index + 1 == events.len();
        assert_eq!(matches!(event.kind, EventKind::Finished(_)), last, "one end, and it is last");
    }
    match events.into_iter().last().map(|event| event.kind) {
        Some(EventKind::Finished(outcome)) => outcome,
        other => panic!("the turn has no end: {other:?}"),
    }
}

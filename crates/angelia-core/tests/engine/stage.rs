//! The test setup of every engine test: an engine with a manual executor and a store in memory.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use angelia_backends::store::MemoryStore;
use angelia_core::{
    engine::{Engine, Limits, NewSession, Parts, Submitted, Watch},
    model::{
        Content, EventKind, Origin, Outcome, SessionId, SessionRecord, SessionSpec, TurnEvent,
        TurnOptions,
    },
    ports::{Clock, Store},
    task::Tasks,
};
use angelia_testkit::puppet::{Puppet, Strings};
use tokio::time::Instant;
use uuid::Uuid;

pub(crate) struct Stage {
    pub(crate) engine: Engine,
    pub(crate) strings: Strings,
    pub(crate) store: Arc<dyn Store>,
    clock: Arc<StageClock>,
    tasks: Tasks,
    limits: Limits,
}

/// Follows tokio's time, which tests pause; every reading differs from the one before.
pub(crate) struct StageClock {
    began: Instant,
    count: AtomicU64,
}

impl StageClock {
    pub(crate) fn new() -> Self {
        Self { began: Instant::now(), count: AtomicU64::new(0) }
    }

    fn count(&self) -> u64 {
        self.count.fetch_add(1, Ordering::Relaxed)
    }
}

impl Clock for StageClock {
    fn now(&self) -> jiff::Timestamp {
        let moment = self.began.elapsed() + Duration::from_micros(self.count());
        jiff::Timestamp::from_second(1_700_000_000).unwrap() + moment
    }

    fn fresh_uuid(&self) -> Uuid {
        Uuid::from_u64_pair(self.count(), 1)
    }
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self::with_limits(Limits::default())
    }

    pub(crate) fn with_limits(limits: Limits) -> Self {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        Self::on(store, Arc::new(StageClock::new()), limits)
    }

    fn on(store: Arc<dyn Store>, clock: Arc<StageClock>, limits: Limits) -> Self {
        let (puppet, strings) = Puppet::new();
        let tasks = Tasks::new();
        let engine = Engine::new(Parts {
            store: Arc::clone(&store),
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            executors: vec![puppet],
            limits,
            tasks: tasks.clone(),
        });
        Self { engine, strings, store, clock, tasks, limits }
    }

    /// Stops this engine but not its store, and starts another engine on the store.
    pub(crate) async fn restart(self) -> Self {
        assert!(self.tasks.shutdown(Duration::from_mins(1)).await);
        Self::on(self.store, self.clock, self.limits)
    }

    pub(crate) fn now(&self) -> jiff::Timestamp {
        self.clock.now()
    }

    pub(crate) async fn session(&self) -> SessionRecord {
        self.session_with(SessionSpec::new("puppet", "/project")).await
    }

    pub(crate) async fn session_with(&self, spec: SessionSpec) -> SessionRecord {
        let new = NewSession { spec, title: None, name: None };
        self.engine.create_session(new).await.unwrap()
    }

    pub(crate) async fn submit(&self, session: SessionId, text: &str) -> Submitted {
        self.engine.submit(session, vec![Content::text(text)], options()).await.unwrap()
    }
}

pub(crate) fn options() -> TurnOptions {
    TurnOptions { can_ask: true, ..TurnOptions::new(Origin::Owner) }
}

pub(crate) async fn all_events(mut watch: Watch) -> Vec<TurnEvent> {
    let mut events = Vec::new();
    while let Some(batch) = watch.next().await.unwrap() {
        events.extend_from_slice(&batch);
    }
    events
}

/// Reads to the end and checks the invariants of every turn: numbers from 1 without gaps, and
/// exactly one `Finished`, as the last event.
pub(crate) async fn outcome(watch: Watch) -> Outcome {
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

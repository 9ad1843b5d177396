//! What every test of the engine stands on.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
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
use uuid::Uuid;

pub(crate) struct Stage {
    pub(crate) engine: Engine,
    pub(crate) strings: Strings,
    pub(crate) store: Arc<dyn Store>,
}

/// Counts instead of reading the time.
#[derive(Default)]
pub(crate) struct CountingClock(AtomicU64);

impl Clock for CountingClock {
    fn now(&self) -> jiff::Timestamp {
        let count = self.0.fetch_add(1, Ordering::Relaxed);
        jiff::Timestamp::from_millisecond(1_700_000_000_000 + i64::try_from(count).unwrap())
            .unwrap()
    }

    fn fresh_uuid(&self) -> Uuid {
        Uuid::from_u64_pair(self.0.fetch_add(1, Ordering::Relaxed), 1)
    }
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self::with_limits(Limits::default())
    }

    pub(crate) fn with_limits(limits: Limits) -> Self {
        let (puppet, strings) = Puppet::new();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let engine = Engine::new(Parts {
            store: Arc::clone(&store),
            clock: Arc::new(CountingClock::default()),
            executors: vec![puppet],
            limits,
            tasks: Tasks::new(),
        });
        Self {
            engine,
            strings,
            store,
        }
    }

    pub(crate) async fn session(&self) -> SessionRecord {
        let spec = SessionSpec::new("puppet", "/project");
        let new = NewSession {
            spec,
            title: None,
            name: None,
        };
        self.engine.create_session(new).await.unwrap()
    }

    pub(crate) async fn submit(&self, session: SessionId, text: &str) -> Submitted {
        self.engine
            .submit(session, vec![Content::text(text)], options())
            .await
            .unwrap()
    }
}

pub(crate) fn options() -> TurnOptions {
    TurnOptions {
        origin: Origin::Owner,
        can_ask: true,
    }
}

pub(crate) async fn all_events(mut watch: Watch) -> Vec<TurnEvent> {
    let mut events = Vec::new();
    while let Some(batch) = watch.next().await.unwrap() {
        events.extend_from_slice(&batch);
    }
    events
}

/// Reads to the end and checks what must hold of every turn: numbers from 1 without gaps, and
/// exactly one end, last.
pub(crate) async fn outcome(watch: Watch) -> Outcome {
    let events = all_events(watch).await;
    for (index, event) in events.iter().enumerate() {
        assert_eq!(event.seq, index as u64 + 1, "numbers have no gaps");
        let last = index + 1 == events.len();
        assert_eq!(
            matches!(event.kind, EventKind::Finished(_)),
            last,
            "one end, and it is last"
        );
    }
    match events.into_iter().last().map(|event| event.kind) {
        Some(EventKind::Finished(outcome)) => outcome,
        other => panic!("the turn has no end: {other:?}"),
    }
}

//! The setup of tests about schedules: a scheduler on an engine whose agent the test controls, in
//! paused time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use angelia_backends::file_times::RealFileTimes;
use angelia_core::{
    engine::{Engine, EngineLimits, EngineParts},
    model::{Occurrence, ScheduleId, ScheduleRecord, bus::BusMessage},
    ports::Clock,
    task::TaskGroup,
};
use angelia_frontends::{
    http::NewScheduleBody,
    schedules::{ResultDelivery, Scheduler, SchedulerParts},
};
use angelia_testkit::{
    lexical_paths::LexicalPaths,
    manual_executor::{ExecutorControl, ManualExecutor, ManualTurn},
    memory_store::MemoryStore,
    unreliable_store::UnreliableStore,
};
use jiff::Timestamp;
use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    sync::mpsc,
    time::{Instant, timeout},
};
use uuid::Uuid;

use super::{
    context::AnyProfile,
    courier,
    fakes::{RecordingBus, name},
};

/// Longer than anything that happens, in paused time.
pub(crate) const DEADLINE: Duration = Duration::from_hours(24 * 30);

/// Follows tokio's time; its ids sort by age.
struct FollowingClock {
    began: Instant,
    count: AtomicU64,
}

impl Clock for FollowingClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(1_700_000_000).unwrap() + self.began.elapsed()
    }

    fn fresh_uuid(&self) -> Uuid {
        Uuid::from_u64_pair(self.count.fetch_add(1, Ordering::Relaxed) + 1, 1)
    }
}

pub(crate) struct ScheduleHarness {
    pub(crate) engine: Engine,
    pub(crate) store: Arc<UnreliableStore>,
    pub(crate) strings: ExecutorControl,
    pub(crate) published: mpsc::Receiver<BusMessage>,
    bus: Arc<RecordingBus>,
    pub(crate) courier: courier::DeliveryHarness,
    /// The tasks of the scheduler that runs.
    tasks: TaskGroup,
    home: TempDir,
}

impl ScheduleHarness {
    pub(crate) fn new() -> Self {
        let (puppet, strings) = ManualExecutor::new();
        let store = Arc::new(UnreliableStore::new(Arc::new(MemoryStore::new())));
        let clock = FollowingClock { began: Instant::now(), count: AtomicU64::new(0) };
        let engine = Engine::new(EngineParts {
            store: Arc::clone(&store) as _,
            clock: Arc::new(clock),
            paths: Arc::new(LexicalPaths::default()),
            edits: Arc::new(angelia_testkit::lexical_paths::NamedDiffs),
            session_files: Arc::new(angelia_testkit::lexical_paths::NoSessionFiles),
            executors: vec![puppet],
            limits: EngineLimits::default(),
            tasks: TaskGroup::new(),
        });
        let (sent, published) = mpsc::channel(64);
        let (dead_letters, _) = mpsc::channel(64);
        let bus = Arc::new(RecordingBus { published: sent, dead_letters, seen: Vec::new() });
        let home = tempfile::tempdir().unwrap();
        let courier = courier::delivery_harness();
        let tasks = TaskGroup::new();
        Self { engine, store, strings, published, bus, courier, tasks, home }
    }

    /// Starts a scheduler, as a daemon does.
    pub(crate) fn start(&mut self) {
        self.tasks = TaskGroup::new();
        Scheduler::spawn(SchedulerParts {
            engine: self.engine.clone(),
            profiles: Arc::new(AnyProfile),
            results: ResultDelivery {
                delivery_queue: self.courier.queue.clone(),
                bus: Some(Arc::clone(&self.bus) as _),
                from: name("angelia"),
            },
            file_times: Arc::new(RealFileTimes::new(self.home.path())),
            tasks: self.tasks.clone(),
        });
    }

    pub(crate) async fn stop(&self) {
        assert!(self.tasks.shutdown(DEADLINE).await);
    }

    pub(crate) async fn add(
        &self,
        spec: &str,
        change: impl FnOnce(&mut ScheduleRecord),
    ) -> ScheduleId {
        let body = NewScheduleBody {
            spec: spec.to_owned(),
            tz: Some("UTC".to_owned()),
            prompt: "look".into(),
            ..NewScheduleBody::default()
        };
        let mut record = body.into_record(self.engine.fresh_id(), self.engine.now()).unwrap();
        change(&mut record);
        self.engine.add_schedule(&record).await.unwrap();
        record.id
    }

    pub(crate) async fn turn(&self) -> ManualTurn {
        timeout(DEADLINE, self.strings.next_turn()).await.unwrap()
    }

    pub(crate) async fn last(&self, id: ScheduleId) -> Occurrence {
        self.engine.schedule(id).await.unwrap().last.unwrap()
    }

    /// Waits until the newest occurrence has ended.
    pub(crate) async fn ended(&self, id: ScheduleId) -> Occurrence {
        let mut changes = self.engine.subscribe_schedules();
        let ended = async {
            loop {
                let last = self.engine.schedule(id).await.unwrap().last;
                if let Some(last) = last.filter(|last| !last.is_open()) {
                    return last;
                }
                changes.changed().await.unwrap();
            }
        };
        timeout(DEADLINE, ended).await.unwrap()
    }

    pub(crate) async fn message(&mut self) -> Value {
        let message = timeout(DEADLINE, self.published.recv()).await.unwrap().unwrap();
        serde_json::from_slice(&message.envelope).unwrap()
    }
}

/// Seconds since the beginning of a test.
pub(crate) fn seconds(time: Timestamp) -> i64 {
    time.as_second() - 1_700_000_000
}

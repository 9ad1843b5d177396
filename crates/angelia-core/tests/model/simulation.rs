//! Sessions, callers, agents and a clock that act at random, and the checks that follow.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use angelia_core::{
    engine::{
        Engine, EngineError, EngineLimits, EngineParts, NewSession, RequestKey, Submission,
        TurnWatch,
    },
    model::{
        Budgets, Content, Decision, FailureKind, SessionId, SessionSpec, TurnEvent, TurnId,
        TurnOptions, TurnOrigin, TurnState, TurnStatus, Verdict,
    },
    ports::{ApprovalFilter, Clock, Page, Store},
    task::TaskGroup,
};
use angelia_testkit::{
    manual_executor::{ExecutorControl, ManualExecutor},
    memory_store::MemoryStore,
    unreliable_store::UnreliableStore,
};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::{
    check,
    random_agent::{RandomAgent, StepResult},
    rng::SeededRng,
};

const SESSIONS: usize = 4;

/// Counts how often the rare cases occurred.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CaseCounts {
    turns: usize,
    crashes: usize,
    repeats: usize,
    parked: usize,
    lost: usize,
    partial: usize,
    timeouts: usize,
    decided: usize,
    answered: usize,
}

impl CaseCounts {
    pub(crate) fn add(&mut self, other: &Self) {
        self.turns += other.turns;
        self.crashes += other.crashes;
        self.repeats += other.repeats;
        self.parked += other.parked;
        self.lost += other.lost;
        self.partial += other.partial;
        self.timeouts += other.timeouts;
        self.decided += other.decided;
        self.answered += other.answered;
    }

    pub(crate) fn covers_rare_cases(&self) -> bool {
        let rare = [
            self.crashes,
            self.repeats,
            self.parked,
            self.lost,
            self.partial,
            self.timeouts,
            self.decided,
            self.answered,
        ];
        self.turns > 1_000 && rare.iter().all(|count| *count > 20)
    }
}

struct SimulatedClock {
    began: Instant,
    count: AtomicU64,
}

impl Clock for SimulatedClock {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::from_second(1_700_000_000).unwrap() + self.began.elapsed()
    }

    fn fresh_uuid(&self) -> Uuid {
        Uuid::from_u64_pair(self.count.fetch_add(1, Ordering::Relaxed), 1)
    }
}

/// One lifetime of the engine, from a start to a crash or an orderly end.
struct EngineProcess {
    engine: Engine,
    control: ExecutorControl,
    store: Arc<UnreliableStore>,
    tasks: TaskGroup,
}

struct Viewer {
    watch: TurnWatch,
    after: u64,
    resumed: bool,
}

pub(crate) struct Simulation {
    seed: u64,
    rng: SeededRng,
    disk: Arc<dyn Store>,
    clock: Arc<SimulatedClock>,
    process: Option<EngineProcess>,
    sessions: Vec<SessionId>,
    turns: Vec<TurnId>,
    /// The number of requests so far; it makes every request different.
    request_count: usize,
    /// Idempotency key → the request's number, its session and its turn.
    keys: HashMap<String, (usize, SessionId, TurnId)>,
    agents: Vec<RandomAgent>,
    viewers: Vec<Viewer>,
    /// Turns that a crash has ended; they must never run again.
    lost: HashSet<TurnId>,
    /// Turns that were parked when the engine started.
    resumed: HashSet<TurnId>,
    counts: CaseCounts,
}

impl Simulation {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            seed,
            rng: SeededRng::new(seed),
            disk: Arc::new(MemoryStore::new()),
            clock: Arc::new(SimulatedClock { began: Instant::now(), count: AtomicU64::new(1) }),
            process: None,
            sessions: Vec::new(),
            turns: Vec::new(),
            request_count: 0,
            keys: HashMap::new(),
            agents: Vec::new(),
            viewers: Vec::new(),
            lost: HashSet::new(),
            resumed: HashSet::new(),
            counts: CaseCounts::default(),
        }
    }

    fn engine(&self) -> Engine {
        self.process.as_ref().unwrap().engine.clone()
    }

    pub(crate) async fn step(&mut self) {
        if self.process.is_none() {
            self.start_engine().await;
        }
        match self.rng.below(64) {
            0..=5 => self.submit().await,
            6 | 7 => self.repeat().await,
            8 | 9 => self.interrupt().await,
            10..=13 => self.decide().await,
            14 => self.steer().await,
            15..=17 => self.send_tool_result().await,
            18 => self.add_viewer().await,
            19..=24 => self.pass_time().await,
            25 if self.rng.one_in(6) => self.crash().await,
            _ => self.step_agent().await,
        }
        self.collect_runs().await;
    }

    async fn start_engine(&mut self) {
        let (puppet, strings) = ManualExecutor::new();
        let store = Arc::new(UnreliableStore::new(Arc::clone(&self.disk)));
        let tasks = TaskGroup::new();
        let limits =
            EngineLimits { max_live_agents: 3, max_queued_turns: 4, ..EngineLimits::default() };
        let engine = Engine::new(EngineParts {
            store: Arc::clone(&store) as Arc<dyn Store>,
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            paths: Arc::new(angelia_testkit::lexical_paths::LexicalPaths::default()),
            edits: Arc::new(angelia_testkit::lexical_paths::NamedDiffs),
            session_files: Arc::new(angelia_testkit::lexical_paths::NoSessionFiles),
            executors: vec![puppet],
            limits,
            tasks: tasks.clone(),
        });
        self.counts.lost += engine.recover_lost_turns().await.unwrap();
        for turn in self.disk.resumable_turns(None).await.unwrap() {
            self.resumed.insert(turn.id);
        }
        engine.resume_turns().await.unwrap();
        self.process = Some(EngineProcess { engine, control: strings, store, tasks });
        while self.sessions.len() < SESSIONS {
            let number = self.sessions.len();
            self.sessions.push(self.new_session(number).await);
        }
    }

    async fn new_session(&self, number: usize) -> SessionId {
        let mut spec = SessionSpec::new("puppet", "/project");
        spec.profile = format!("profile-{number}").into();
        spec.resume = number != 1;
        if number.is_multiple_of(2) {
            spec.budgets = Budgets {
                time: Some(Duration::from_mins(5)),
                tools: Some(6),
                cost_usd: Some(2.0),
                resumes: u32::try_from(number).unwrap(),
            };
        }
        let new = NewSession { spec, title: None, name: None, source: None };
        self.engine().create_session(new).await.unwrap().id
    }

    async fn submit(&mut self) {
        self.request_count += 1;
        let number = self.request_count;
        let session = *self.rng.pick(&self.sessions).unwrap();
        let key = self.rng.one_in(2).then(|| format!("key-{number}"));
        self.submit_as(session, number, key).await;
    }

    async fn submit_as(&mut self, session: SessionId, number: usize, key: Option<String>) {
        let options = TurnOptions {
            can_ask: !self.rng.one_in(4),
            can_park: !self.rng.one_in(3),
            ..TurnOptions::new(TurnOrigin::Remote)
        };
        let request = key.as_ref().map(|key| RequestKey {
            caller: "world".into(),
            key: key.as_str().into(),
            input: None,
            window: Duration::from_hours(24 * 365),
        });
        let input = vec![Content::text(format!("{number}"))];
        let submitted = (self.engine())
            .submit_with(Submission { key: request, ..Submission::new(session, input, options) })
            .await;
        let submitted = match submitted {
            Ok(submitted) => submitted,
            Err(EngineError::QueueFull { .. }) => return,
            Err(error) => panic!("story {}: {error}", self.seed),
        };
        if let Some(key) = key {
            let known = self.keys.entry(key).or_insert((number, session, submitted.turn));
            assert_eq!(known.2, submitted.turn, "story {}: run twice", self.seed);
            if submitted.is_repeat {
                self.counts.repeats += 1;
                return;
            }
        }
        assert!(!submitted.is_repeat);
        self.turns.push(submitted.turn);
        self.viewers.push(Viewer { watch: submitted.watch, after: 0, resumed: false });
    }

    /// Sends a request again, or a different one under the same key.
    async fn repeat(&mut self) {
        let mut keys: Vec<&String> = self.keys.keys().collect();
        keys.sort();
        let Some(key) = self.rng.pick(&keys).map(|key| (*key).clone()) else {
            return;
        };
        let (number, session, _) = self.keys[&key];
        if !self.rng.one_in(4) {
            return self.submit_as(session, number, Some(key)).await;
        }
        let request = RequestKey {
            caller: "world".into(),
            key: key.as_str().into(),
            input: None,
            window: Duration::from_hours(24 * 365),
        };
        let input = vec![Content::text("something else")];
        let options = TurnOptions::new(TurnOrigin::Remote);
        let refused = (self.engine())
            .submit_with(Submission {
                key: Some(request),
                ..Submission::new(session, input, options)
            })
            .await;
        let expected =
            matches!(refused, Err(EngineError::KeyReused(_) | EngineError::QueueFull { .. }));
        assert!(expected, "story {}: {refused:?}", self.seed);
    }

    async fn interrupt(&mut self) {
        let recent = self.turns.len().saturating_sub(12);
        if let Some(turn) = self.rng.pick(&self.turns[recent..]).copied() {
            let kill = self.rng.one_in(3);
            match self.engine().interrupt(turn, kill).await {
                Ok(()) | Err(EngineError::NotRunning) => {}
                Err(error) => panic!("story {}: {error}", self.seed),
            }
        }
    }

    async fn decide(&mut self) {
        let page = Page::first(64);
        let pending = self.disk.approvals(ApprovalFilter::Pending, page).await.unwrap();
        let Some(record) = self.rng.pick(&pending) else {
            return;
        };
        let verdicts = [Verdict::Once, Verdict::Session, Verdict::Deny, Verdict::Stop];
        let decision = Decision::new(*self.rng.pick(&verdicts).unwrap(), "world");
        match self.engine().decide(record.approval.id, decision).await {
            Ok(()) => self.counts.decided += 1,
            Err(EngineError::NotPending) => {}
            Err(error) => panic!("story {}: {error}", self.seed),
        }
    }

    async fn steer(&mut self) {
        let Some(turn) = self.rng.pick(&self.agents).map(|acting| acting.turn) else {
            return;
        };
        let input = vec![Content::text("also this")];
        let options = TurnOptions::new(TurnOrigin::Remote);
        match self.engine().steer(turn, input, options).await {
            Ok(angelia_core::engine::SteerOutcome::Queued(submitted)) => {
                self.turns.push(submitted.turn);
            }
            Ok(_) | Err(EngineError::NotRunning | EngineError::QueueFull { .. }) => {}
            Err(error) => panic!("story {}: {error}", self.seed),
        }
    }

    async fn send_tool_result(&mut self) {
        let called = |acting: &RandomAgent| Some((acting.turn, acting.waiting_call()?.clone()));
        let called: Vec<_> = self.agents.iter().filter_map(called).collect();
        let Some((turn, id)) = self.rng.pick(&called).cloned() else {
            return;
        };
        match self.engine().send_tool_result(turn, id, true, Vec::new()).await {
            Ok(()) => self.counts.answered += 1,
            Err(EngineError::NotRunning) => {}
            Err(error) => panic!("story {}: {error}", self.seed),
        }
    }

    /// Adds a viewer that starts at any event number of a turn.
    async fn add_viewer(&mut self) {
        let recent = self.turns.len().saturating_sub(8);
        if let Some(turn) = self.rng.pick(&self.turns[recent..]).copied() {
            let after = self.rng.below(6) as u64;
            let watch = self.engine().watch(turn, after).await.unwrap();
            // Events that are no longer in memory come from the store, without deltas.
            self.viewers.push(Viewer { watch, after, resumed: true });
        }
    }

    async fn pass_time(&mut self) {
        let seconds = [1, 5, 45, 100, 200, 700, 4_000, 30_000];
        let index = self.rng.below(seconds.len());
        // Mostly short steps: otherwise every watchdog would fire before anything happens.
        let index = if self.rng.one_in(6) { index } else { index.min(1) };
        sleep(Duration::from_secs(seconds[index])).await;
    }

    async fn step_agent(&mut self) {
        if self.agents.is_empty() {
            return;
        }
        let index = self.rng.below(self.agents.len());
        match self.agents[index].step(&mut self.rng).await {
            StepResult::Continued => {}
            StepResult::Ended => drop(self.agents.swap_remove(index)),
            StepResult::RateLimited => {
                self.counts.parked += 1;
                drop(self.agents.swap_remove(index));
            }
        }
    }

    /// Collects the turns that agents are asked to run. A session runs one turn at a time, and
    /// never one that a crash has ended.
    async fn collect_runs(&mut self) {
        // Let every running task reach its next wait.
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
        self.agents.retain(|acting| !acting.is_over());
        let Some(life) = &self.process else { return };
        while let Some(run) = life.control.try_next_turn() {
            if run.is_abandoned() {
                continue;
            }
            let acting = RandomAgent::new(run);
            assert!(
                !self.lost.contains(&acting.turn),
                "story {}: a lost turn runs again",
                self.seed
            );
            let twice = |other: &RandomAgent| other.session == acting.session && !other.is_over();
            assert!(
                !self.agents.iter().any(twice),
                "story {}: two turns of one session",
                self.seed
            );
            self.agents.push(acting);
        }
    }

    /// Kills the process: it writes nothing more, and all its agents and viewers are gone.
    async fn crash(&mut self) {
        self.counts.crashes += 1;
        self.check_viewers(false).await;
        let life = self.process.take().unwrap();
        for id in &self.turns {
            let turn = self.disk.turn(*id).await.unwrap().unwrap();
            let parked = matches!(turn.state, TurnState::Parked { .. });
            if turn.state.outcome().is_none() && !parked {
                self.lost.insert(*id);
            }
        }
        life.store.kill().await;
        self.agents.clear();
        life.tasks.shutdown(Duration::from_mins(10)).await;
    }

    /// Reads the events that viewers can see by now; `to_the_end` reads until the streams end.
    async fn check_viewers(&mut self, to_the_end: bool) {
        for mut viewer in std::mem::take(&mut self.viewers) {
            let mut events: Vec<TurnEvent> = Vec::new();
            loop {
                let next = tokio::time::timeout(Duration::ZERO, viewer.watch.next()).await;
                match next {
                    Ok(Ok(Some(batch))) => events.extend_from_slice(&batch),
                    Ok(Err(error)) => panic!("story {}: {error}", self.seed),
                    Err(waits) if to_the_end => panic!("story {}: {waits}", self.seed),
                    Ok(Ok(None)) | Err(_) => break,
                }
            }
            let resumed = viewer.resumed
                || events.first().is_some_and(|event| self.resumed.contains(&event.turn));
            check::check_viewed_events(&events, viewer.after, resumed, self.seed);
        }
    }

    /// Lets all turns end, and checks all of them.
    pub(crate) async fn finish(mut self) -> CaseCounts {
        if self.process.is_none() {
            self.start_engine().await;
        }
        for _ in 0..2_000 {
            self.collect_runs().await;
            for acting in &mut self.agents {
                acting.complete();
            }
            sleep(Duration::from_mins(30)).await;
            if self.all_ended().await {
                break;
            }
        }
        self.check_viewers(true).await;
        self.check_turns().await;
        let pending = self.disk.approvals(ApprovalFilter::Pending, Page::first(9));
        assert!(pending.await.unwrap().is_empty(), "story {}", self.seed);
        let life = self.process.take().unwrap();
        assert!(life.tasks.shutdown(Duration::from_mins(10)).await);
        let (opened, closed) = (life.control.opened_agents(), life.control.closed_agents());
        assert_eq!(opened, closed, "story {}: an agent is left", self.seed);
        self.counts.turns = self.turns.len();
        self.counts
    }

    async fn all_ended(&self) -> bool {
        for id in &self.turns {
            let turn = self.disk.turn(*id).await.unwrap().unwrap();
            if turn.state.outcome().is_none() {
                return false;
            }
        }
        true
    }

    async fn check_turns(&mut self) {
        for id in &self.turns {
            let turn = self.disk.turn(*id).await.unwrap().unwrap();
            let events = self.disk.replay(*id, 0, usize::MAX).await.unwrap();
            check::check_recorded_turn(&turn, &events, self.seed);
            let outcome = turn.state.outcome().unwrap();
            match &outcome.status {
                TurnStatus::Partial => self.counts.partial += 1,
                TurnStatus::Failed(failure) if failure.kind == FailureKind::Timeout => {
                    self.counts.timeouts += 1;
                }
                _ => {}
            }
            if self.lost.contains(id) {
                assert_eq!(&*outcome.reason, "owner died", "story {}", self.seed);
            }
        }
    }
}

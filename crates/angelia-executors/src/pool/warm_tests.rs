//! Tests of the pool with paused time and fake processes.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use angelia_core::model::{FailureKind, SessionSpec};
use tokio::time::sleep;

use super::*;

const START_TIME: Duration = Duration::from_millis(500);

/// Starts numbered fake processes, counts them, and can be set to fail.
#[derive(Default)]
struct Factory {
    started: AtomicUsize,
    starting: AtomicUsize,
    most_at_once: AtomicUsize,
    closed: AtomicUsize,
    broken: AtomicBool,
    all_dead: AtomicBool,
}

struct FakeProcess {
    number: usize,
    factory: Arc<Factory>,
}

impl WarmProcess for FakeProcess {
    fn is_alive(&mut self) -> bool {
        !self.factory.all_dead.load(SeqCst)
    }

    fn close(self) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            self.factory.closed.fetch_add(1, SeqCst);
        })
    }
}

impl Factory {
    fn start(self: &Arc<Self>) -> ProcessStarter<FakeProcess> {
        let factory = Arc::clone(self);
        Arc::new(move || {
            let factory = Arc::clone(&factory);
            Box::pin(async move {
                let number = factory.started.fetch_add(1, SeqCst);
                let now = factory.starting.fetch_add(1, SeqCst) + 1;
                factory.most_at_once.fetch_max(now, SeqCst);
                sleep(START_TIME).await;
                factory.starting.fetch_sub(1, SeqCst);
                if factory.broken.load(SeqCst) {
                    return Err(Failure::new(FailureKind::Unavailable, "broken"));
                }
                Ok(FakeProcess { number, factory })
            })
        })
    }

    fn started(&self) -> usize {
        self.started.load(SeqCst)
    }
}

fn shape(name: &str) -> LaunchFingerprint {
    LaunchFingerprint::of(&SessionSpec::new(name, "/"))
}

fn pool() -> (WarmPool<FakeProcess>, Arc<Factory>, LaunchFingerprint) {
    (WarmPool::new(&TaskGroup::new()), Arc::default(), shape("a"))
}

/// Advances the paused time in small steps, so that timers fire and tasks run.
async fn advance_in_steps(duration: Duration) {
    let step = Duration::from_millis(100);
    let end = Instant::now() + duration;
    while Instant::now() < end {
        sleep(step.min(end - Instant::now())).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_declared_is_ready_and_replaced_when_taken() {
    let (pool, factory, shape) = pool();
    pool.declare(&shape, 2, factory.start());
    advance_in_steps(START_TIME * 2).await;
    assert_eq!(pool.ready_count(&shape), 2);

    let before = Instant::now();
    let one = pool.take(&shape, 2, factory.start()).await.unwrap();
    assert_eq!((one.number, before.elapsed()), (0, Duration::ZERO));
    advance_in_steps(Duration::from_millis(300)).await;
    assert_eq!(factory.started(), 2, "the taken one has the machine to itself first");
    advance_in_steps(START_TIME * 2).await;
    assert_eq!(pool.ready_count(&shape), 2);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_just_starting_is_waited_for() {
    let (pool, factory, shape) = pool();
    pool.declare(&shape, 1, factory.start());
    advance_in_steps(Duration::from_millis(200)).await;
    let before = Instant::now();
    let (first, second) =
        tokio::join!(pool.take(&shape, 1, factory.start()), pool.take(&shape, 1, factory.start()),);
    assert_eq!(first.unwrap().number, 0);
    assert!(second.is_none(), "the second would come too late");
    assert!(before.elapsed() < START_TIME);
}

#[tokio::test(start_paused = true)]
async fn demand_makes_it_grow_and_quiet_makes_it_shrink() {
    let (pool, factory, shape) = pool();
    for burst in 0..20 {
        // Two more than are ready, at the same moment, count as one burst.
        let ready = pool.ready_count(&shape);
        for _ in 0..ready + 2 {
            drop(pool.take(&shape, 1, factory.start()).await);
        }
        advance_in_steps(Duration::from_secs(10)).await;
        assert_eq!(pool.ready_count(&shape), (2 + burst).min(8), "burst {burst}");
    }
    assert!(factory.most_at_once.load(SeqCst) <= WORKERS);

    advance_in_steps(Duration::from_mins(20)).await;
    assert!((3..6).contains(&pool.ready_count(&shape)));
    advance_in_steps(Duration::from_mins(30)).await;
    assert_eq!(pool.ready_count(&shape), 1);
    advance_in_steps(Duration::from_mins(15)).await;
    assert_eq!(pool.ready_count(&shape), 0, "nobody declared it");
}

#[tokio::test(start_paused = true)]
async fn what_is_declared_stays_without_use_and_fresh() {
    let (pool, factory, shape) = pool();
    pool.declare(&shape, 1, factory.start());
    advance_in_steps(Duration::from_mins(29)).await;
    assert_eq!((pool.ready_count(&shape), factory.started()), (1, 1));
    advance_in_steps(Duration::from_hours(3)).await;
    assert_eq!(pool.ready_count(&shape), 1);
    assert_eq!(factory.started(), factory.closed.load(SeqCst) + 1);
    assert!((6..9).contains(&factory.started()), "{}", factory.started());
}

#[tokio::test(start_paused = true)]
async fn an_updated_program_takes_the_place_of_the_old_one() {
    let (pool, factory, shape) = pool();
    let old = shape.clone().with(super::super::VERSION_COMPONENT, [&b"1"[..]]);
    let new = shape.clone().with(super::super::VERSION_COMPONENT, [&b"2"[..]]);
    pool.declare(&old, 1, factory.start());
    advance_in_steps(START_TIME * 2).await;
    assert!(pool.take(&new, 1, factory.start()).await.is_none());
    advance_in_steps(Duration::from_mins(1)).await;
    assert_eq!((pool.ready_count(&old), pool.ready_count(&new)), (0, 2));
    advance_in_steps(Duration::from_hours(3)).await;
    assert_eq!(pool.ready_count(&new), 1, "it is declared, as the old one was");
}

#[tokio::test(start_paused = true)]
async fn a_broken_program_is_not_started_in_a_loop() {
    let (pool, factory, shape) = pool();
    factory.broken.store(true, SeqCst);
    pool.declare(&shape, 1, factory.start());
    advance_in_steps(Duration::from_mins(1)).await;
    let tries = factory.started();
    assert!((4..9).contains(&tries), "{tries}");
    advance_in_steps(Duration::from_hours(1)).await;
    assert!(factory.started() < tries + 20);

    // When the program works again, the pool recovers after the backoff.
    factory.broken.store(false, SeqCst);
    advance_in_steps(Duration::from_mins(6)).await;
    assert_eq!(pool.ready_count(&shape), 1);
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_start_that_fails_is_told() {
    let (pool, factory, shape) = pool();
    factory.broken.store(true, SeqCst);
    pool.declare(&shape, 1, factory.start());
    advance_in_steps(Duration::from_millis(100)).await;
    assert!(pool.take(&shape, 1, factory.start()).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn the_dead_are_never_handed_out_and_are_replaced_with_patience() {
    let (pool, factory, shape) = pool();
    pool.declare(&shape, 1, factory.start());
    advance_in_steps(START_TIME * 2).await;
    factory.all_dead.store(true, SeqCst);
    assert!(pool.take(&shape, 1, factory.start()).await.is_none());
    advance_in_steps(Duration::from_mins(10)).await;
    assert!(factory.started() < 30, "{}", factory.started());
    factory.all_dead.store(false, SeqCst);
    advance_in_steps(Duration::from_mins(6)).await;
    assert!(pool.take(&shape, 1, factory.start()).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn all_shapes_together_are_bounded_and_the_newest_wins() {
    let (pool, factory, _) = pool();
    let shapes: Vec<_> = (0..20).map(|number| shape(&format!("s{number}"))).collect();
    for shape in &shapes {
        pool.declare(shape, 1, factory.start());
        advance_in_steps(Duration::from_secs(2)).await;
    }
    let ready = |shapes: &[LaunchFingerprint]| -> usize {
        shapes.iter().map(|shape| pool.ready_count(shape)).sum()
    };
    assert_eq!(ready(&shapes), 16);
    assert_eq!(ready(&shapes[16..]), 4);
    let started = factory.started();
    advance_in_steps(Duration::from_mins(10)).await;
    assert_eq!(factory.started(), started, "nothing goes round in circles");
}

#[tokio::test(start_paused = true)]
async fn closing_ends_everything_that_waits() {
    let (pool, factory, shape) = pool();
    pool.declare(&shape, 3, factory.start());
    advance_in_steps(START_TIME * 4).await;
    pool.close().await;
    assert_eq!(factory.closed.load(SeqCst), 3);
    advance_in_steps(Duration::from_secs(10)).await;
    assert_eq!((pool.ready_count(&shape), factory.started()), (0, 3));
    assert!(pool.take(&shape, 0, factory.start()).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn warm_zero_keeps_nothing() {
    let (pool, factory, shape) = pool();
    for _ in 0..3 {
        assert!(pool.take(&shape, 0, factory.start()).await.is_none());
        advance_in_steps(Duration::from_secs(3)).await;
    }
    assert_eq!(factory.started(), 0);
}

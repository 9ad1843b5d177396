//! The engine under random input: turns are submitted, repeated, steered, stopped, approved,
//! limited, parked and lost to crashes in any order, in paused time. The invariants of events,
//! turns and processes must hold in every case.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod check;
mod random_agent;
mod rng;
mod simulation;

use simulation::Simulation;

/// More than a hundred thousand steps in total.
const SEED_COUNT: u64 = 60;
const STEPS: usize = 2_000;

/// Returns the seeds. `ANGELIA_STORIES=1000 cargo test -p angelia-core --test model` runs more and
/// different ones.
fn seeds() -> std::ops::Range<u64> {
    match option_env!("ANGELIA_STORIES").map(str::parse::<u64>) {
        Some(Ok(count)) => SEED_COUNT..SEED_COUNT + count,
        _ => 0..SEED_COUNT,
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_happens_every_turn_has_one_end() {
    let mut ran = simulation::CaseCounts::default();
    for seed in seeds() {
        let mut world = Simulation::new(seed);
        for _ in 0..STEPS {
            world.step().await;
        }
        ran.add(&world.finish().await);
    }
    // Every rare case must have occurred, or the test shows less than it claims.
    assert!(ran.covers_rare_cases(), "{ran:?}");
}

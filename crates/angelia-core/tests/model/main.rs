//! The engine under chance: turns are submitted, repeated, steered, stopped, approved, limited,
//! parked and lost to crashes in any order, in paused time; whatever happens, what must hold of
//! events, turns and processes holds.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod actor;
mod check;
mod dice;
mod mortal;
mod world;

use world::World;

/// Together more than a hundred thousand.
const STORIES: u64 = 60;
const STEPS: usize = 2_000;

/// `ANGELIA_STORIES=1000 cargo test -p angelia-core --test model` tells more of them, other ones.
fn seeds() -> std::ops::Range<u64> {
    match option_env!("ANGELIA_STORIES").map(str::parse::<u64>) {
        Some(Ok(count)) => STORIES..STORIES + count,
        _ => 0..STORIES,
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_happens_every_turn_has_one_end() {
    let mut ran = world::Tally::default();
    for seed in seeds() {
        let mut world = World::new(seed);
        for _ in 0..STEPS {
            world.step().await;
        }
        ran.add(&world.finish().await);
    }
    // Chance must have led everywhere, or the test shows less than it says.
    assert!(ran.is_rich(), "{ran:?}");
}

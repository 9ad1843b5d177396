//! The cost budget of a turn: enforced while the turn runs, and reset for the next turn.

use angelia_testkit::model_server::Usage;

use super::{Watched, watched};
use crate::transcript::Transcript;

/// Every answer costs some tenths of a dollar, whatever prices the version uses.
const DEAR: Usage =
    Usage { input: 100_000, output: 25, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0 };

#[track_caller]
fn was_enough(turn: &Transcript, asked: usize) {
    assert_eq!(turn.end()["status"], "partial", "{turn:#?}");
    assert_eq!(turn.end()["reason"], "max_cost_usd");
    assert!(turn.text().contains("I will call a tool"));
    let cost = turn.end()["usage"]["cost_usd"].as_f64().unwrap();
    assert!((1.0..3.0).contains(&cost), "{cost}");
    assert!((2..=12).contains(&asked), "{asked} requests");
}

fn spends(watched: &Watched<'_>) {
    let asked = || watched.lab().server.model_requests().len();
    let before = asked();
    let turn = watched.say("ROUNDS:60");
    was_enough(&turn, asked() - before);
    // The turn is not continued automatically, and the next turn has its own budget.
    assert_eq!(watched.say("ECHO:cheap").completed().text(), "cheap");
}

#[test]
fn real_a_turn_ends_when_it_has_cost_enough() {
    watched(&["model: sonnet", "max_cost_usd: 1"], |watched| {
        watched.lab().server.set_usage(DEAR);
        // First one process for all turns, then one process per turn, which inherits the totals.
        spends(watched);
        spends(watched);
        watched.stop_daemon();
        spends(watched);
    });
}

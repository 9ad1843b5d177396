//! The cost budget of a turn: enforced while the turn runs, and reset for the next turn.

use angelia_testkit::model_server::ReplyUsage;

use super::{TimeoutFixture, with_timeouts};
use crate::transcript::Transcript;

/// Every answer costs some tenths of a dollar, whatever prices the version uses.
const EXPENSIVE_USAGE: ReplyUsage =
    ReplyUsage { input: 100_000, output: 25, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0 };

#[track_caller]
fn assert_budget_spent(turn: &Transcript, asked: usize) {
    assert_eq!(turn.end()["status"], "partial", "{turn:#?}");
    assert_eq!(turn.end()["reason"], "max_cost_usd");
    assert!(turn.text().contains("I will call a tool"));
    let cost = turn.end()["usage"]["cost_usd"].as_f64().unwrap();
    assert!((1.0..3.0).contains(&cost), "{cost}");
    assert!((2..=12).contains(&asked), "{asked} requests");
}

fn check_budget(watched: &TimeoutFixture<'_>) {
    let asked = || watched.lab().server.model_requests().len();
    let before = asked();
    let turn = watched.prompt("ROUNDS:60");
    assert_budget_spent(&turn, asked() - before);
    // The turn is not continued automatically, and the next turn has its own budget.
    assert_eq!(watched.prompt("ECHO:cheap").completed().text(), "cheap");
}

#[test]
fn real_a_turn_ends_when_it_has_cost_enough() {
    with_timeouts(&["model: sonnet", "max_cost_usd: 1"], |watched| {
        watched.lab().server.set_usage(EXPENSIVE_USAGE);
        // First one process for all turns, then one process per turn, which inherits the totals.
        check_budget(watched);
        check_budget(watched);
        watched.stop_daemon();
        check_budget(watched);
    });
}

//! A turn that has cost enough: known while it runs, and counted anew for the next one.

use angelia_testkit::model_server::Usage;

use super::{Watched, watched};
use crate::transcript::Transcript;

/// Every answer costs some tenths of a dollar, whatever the version thinks of the price.
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
    // It does not go on by itself, and the next turn has a budget of its own.
    assert_eq!(watched.say("ECHO:cheap").completed().text(), "cheap");
}

#[test]
fn real_a_turn_ends_when_it_has_cost_enough() {
    watched(&["model: sonnet", "max_cost_usd: 1"], |watched| {
        watched.lab().server.set_usage(DEAR);
        // One process for all of it, and then one for each turn, which takes the totals over.
        spends(watched);
        spends(watched);
        watched.stop_daemon();
        spends(watched);
    });
}

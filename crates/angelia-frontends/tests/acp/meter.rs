//! The usage update: the context size and the cost of the session.

use angelia_core::model::{ContextWindow, EventKind, Outcome, SessionId, TurnStatus, Usage};
use angelia_frontends::acp::{SessionCost, UpdateEncoder};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::event_builders::{encoder, event, parse_updates};

fn usage(context: Option<(u64, u64)>, cost_usd: Option<f64>) -> Usage {
    Usage {
        input_tokens: 9,
        cost_usd,
        context: context.map(|(used, size)| ContextWindow { used, size }),
        ..Usage::default()
    }
}

/// Runs a turn that reports its usage and ends; with `elsewhere` it belongs to another session.
fn turn(updates: &mut UpdateEncoder, usage: &Usage, elsewhere: bool) -> Vec<Value> {
    let finished = Outcome {
        status: TurnStatus::Completed,
        text: "".into(),
        reason: "".into(),
        usage: usage.clone(),
    };
    let mut out = Vec::new();
    for kind in [EventKind::Usage(usage.clone()), EventKind::Finished(finished)] {
        let mut event = event(kind, 1);
        if elsewhere {
            event.session = SessionId::from_uuid(Uuid::from_u128(77));
        }
        updates.encode_event(&event, &mut out);
    }
    parse_updates(&String::from_utf8(out).unwrap())
}

fn usage_updates(used: u64, cost: Option<f64>) -> Vec<Value> {
    let mut update = json!({"sessionUpdate": "usage_update", "used": used, "size": 1000});
    if let Some(amount) = cost {
        update["cost"] = json!({"amount": amount, "currency": "USD"});
    }
    vec![update]
}

#[test]
fn what_nobody_knows_is_not_told() {
    let mut updates = encoder(true).with_cost(SessionCost::ZERO);
    let shown = turn(&mut updates, &usage(None, Some(0.5)), false);
    assert_eq!(shown, Vec::<Value>::new());
    // The cost of the turns before still counts.
    let shown = turn(&mut updates, &usage(Some((40, 1000)), Some(0.25)), false);
    assert_eq!(shown, usage_updates(40, Some(0.75)));
}

#[test]
fn the_context_is_a_reading_and_the_cost_a_sum() {
    let mut updates = encoder(true).with_cost(SessionCost::ZERO);
    for (used, cost) in [(300, 0.5), (20, 1.0)] {
        let shown = turn(&mut updates, &usage(Some((used, 1000)), Some(0.5)), false);
        assert_eq!(shown, usage_updates(used, Some(cost)));
    }
}

#[test]
fn a_cost_is_told_whole_or_not_at_all() {
    let full = Some((40, 1000));
    let mut unknown = encoder(true);
    assert_eq!(turn(&mut unknown, &usage(full, Some(0.5)), false), usage_updates(40, None));
    let mut lost = encoder(true).with_cost(SessionCost::ZERO);
    assert_eq!(turn(&mut lost, &usage(full, None), false), usage_updates(40, None));
    assert_eq!(turn(&mut lost, &usage(full, Some(0.5)), false), usage_updates(40, None));
    assert_eq!(lost.cost(), SessionCost::UNKNOWN);
    let mut odd = encoder(true).with_cost(SessionCost::ZERO);
    let nan = usage(full, Some(f64::NAN));
    assert_eq!(turn(&mut odd, &nan, false), usage_updates(40, None));
}

/// A fork has its parent's context, but only the cost of its own turns.
#[test]
fn a_fork_does_not_pay_for_its_parent() {
    let full = Some((40, 1000));
    let mut fork = encoder(true).with_cost(SessionCost::ZERO);
    assert_eq!(turn(&mut fork, &usage(full, Some(0.5)), true), usage_updates(40, None));
    assert_eq!(turn(&mut fork, &usage(full, Some(0.25)), false), usage_updates(40, Some(0.25)));
}

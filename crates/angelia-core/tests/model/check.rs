//! The invariants of a turn's events, as viewers see them and as the store keeps them.

use std::collections::HashSet;

use angelia_core::model::{EventKind, Seq, TurnEvent, TurnRecord};

/// Checks a whole turn as the store has it.
pub(crate) fn check_recorded_turn(turn: &TurnRecord, events: &[TurnEvent], seed: u64) {
    let place = format!("story {seed}, turn {}", turn.id);
    let finished = |event: &&TurnEvent| matches!(event.kind, EventKind::Finished(_));
    assert_eq!(events.iter().filter(finished).count(), 1, "{place}: one end");
    let last = events.last().unwrap();
    let EventKind::Finished(outcome) = &last.kind else {
        panic!("{place}: the end is not last: {last:?}");
    };
    assert_eq!(turn.state.outcome(), Some(outcome), "{place}");
    let mut before: Seq = 0;
    let (mut started, mut open, mut asked) = (0, HashSet::new(), HashSet::new());
    let mut known = HashSet::new();
    for event in events {
        assert!(event.seq > before, "{place}: {before} then {}", event.seq);
        before = event.seq;
        match &event.kind {
            EventKind::Started(_) => started += 1,
            EventKind::ToolCall(call) => {
                // Segments of one turn may run on different agents, so a tool id may repeat.
                open.insert(call.id.clone());
            }
            EventKind::ToolResult(result) => {
                open.remove(&result.id);
            }
            EventKind::Approval(approval) => {
                assert!(known.insert(approval.id), "{place}: asked twice");
                asked.insert(approval.id);
            }
            EventKind::Resolved(resolution) => {
                assert!(asked.remove(&resolution.id), "{place}: decided twice");
            }
            _ => {}
        }
    }
    assert!(started <= 1, "{place}: started {started} times");
    assert!(asked.is_empty(), "{place}: never decided: {asked:?}");
    assert!(open.is_empty(), "{place}: never ended: {open:?}");
}

/// Checks the events that one viewer has seen during one lifetime of the engine.
pub(crate) fn check_viewed_events(events: &[TurnEvent], after: Seq, resumed: bool, seed: u64) {
    let mut before = after;
    for event in events {
        let place = format!("story {seed}, turn {}, event {}", event.turn, event.seq);
        // After a restart some numbers are missing: those of deltas, which are not stored.
        let follows = event.seq == before + 1 || (resumed && event.seq > before);
        assert!(follows, "{place}: behind {before}");
        before = event.seq;
    }
}

//! What must hold of the events of a turn, as they are seen and as they are kept.

use std::collections::HashSet;

use angelia_core::model::{EventKind, Seq, TurnEvent, TurnRecord};

/// A whole turn as the store has it.
pub(crate) fn kept(turn: &TurnRecord, events: &[TurnEvent], seed: u64) {
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
                // Segments of one turn are runs of different agents: names may come again.
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
    // Nobody was there to close them when the process was killed.
    if &*outcome.reason != "owner died" {
        assert!(open.is_empty(), "{place}: never ended: {open:?}");
    }
}

/// What one viewer has seen in one life of the engine.
pub(crate) fn seen(events: &[TurnEvent], after: Seq, resumed: bool, seed: u64) {
    let mut before = after;
    for event in events {
        let place = format!("story {seed}, turn {}, event {}", event.turn, event.seq);
        // Behind a restart numbers are left out, for deltas that nobody kept.
        let follows = event.seq == before + 1 || (resumed && event.seq > before);
        assert!(follows, "{place}: behind {before}");
        before = event.seq;
    }
}

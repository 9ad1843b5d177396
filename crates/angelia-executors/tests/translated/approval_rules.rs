//! The invariants of a turn with approval requests: each request is answered or withdrawn once, and
//! nothing follows the end of the turn. Included by path.

use std::collections::HashSet;

use angelia_core::ports::AgentEvent;

use super::translated::rules::EventRules;

/// A part of a turn.
pub(crate) struct TurnSegment<'a> {
    pub(crate) emitted: &'a [AgentEvent],
    /// The keys of the requests that were answered.
    pub(crate) answered: Vec<String>,
    pub(crate) ended: bool,
}

/// Checks these and the general event rules; the turn ends once, with its last part.
pub(crate) fn check_turn<'a>(parts: impl IntoIterator<Item = TurnSegment<'a>>, place: &str) {
    let mut seen = EventRules::default();
    let mut asked = HashSet::new();
    let mut ended = 0;
    for part in parts {
        assert_eq!(ended, 0, "{place}: something behind the end");
        for emitted in part.emitted {
            match emitted {
                AgentEvent::Event(kind) => seen.event(kind, place),
                AgentEvent::ApprovalRequest(ask) => {
                    assert!(asked.insert(ask.key.to_string()), "{place}: {ask:?}");
                    for words in [&ask.title, &ask.detail, &ask.tool_name] {
                        assert!(!words.trim().is_empty(), "{place}: {ask:?}");
                    }
                }
                AgentEvent::ApprovalWithdrawn(key) => {
                    assert!(asked.remove(&**key), "{place}: {key} was not asked");
                }
                AgentEvent::Activity(_) | AgentEvent::Quota(_) | AgentEvent::HandedOnCost(_) => {}
            }
        }
        for key in &part.answered {
            asked.remove(key);
        }
        ended += usize::from(part.ended);
    }
    assert_eq!(ended, 1, "{place}");
    assert!(asked.is_empty(), "{place}: still asked {asked:?}");
    seen.check(place);
}

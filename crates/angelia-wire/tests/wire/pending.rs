//! The table of pending requests and their answers.

use std::collections::BTreeSet;

use angelia_wire::jsonrpc::{PendingRequests, ResponseMatch, RpcId};
use proptest::prelude::*;

#[test]
fn an_answer_finds_whoever_asked_and_only_once() {
    let mut pending = PendingRequests::default();
    let first = pending.register("a").unwrap();
    let second = pending.register("b").unwrap();
    assert_ne!(first, second);
    assert_eq!(pending.match_response(&second), ResponseMatch::Waiter("b"));
    assert_eq!(pending.match_response(&second), ResponseMatch::Late);
    assert_eq!(pending.match_response(&7.into()), ResponseMatch::Unknown);
    assert_eq!(pending.match_response(&(-1).into()), ResponseMatch::Unknown);
    assert_eq!(pending.match_response(&"x".into()), ResponseMatch::Unknown);
    let as_text = first.to_string();
    assert_eq!(pending.match_response(&as_text.as_str().into()), ResponseMatch::Waiter("a"));
    assert!(pending.is_empty());
}

#[test]
fn what_was_given_up_is_late() {
    let mut pending = PendingRequests::default();
    let (first, second) = (pending.register(1).unwrap(), pending.register(2).unwrap());
    assert_eq!(pending.cancel(&first), Some(1));
    assert_eq!(pending.cancel(&first), None);
    pending.retain(|who| *who != 2);
    assert_eq!(pending.match_response(&first), ResponseMatch::Late);
    assert_eq!(pending.match_response(&second), ResponseMatch::Late);
}

#[test]
fn a_peer_that_dies_leaves_nobody_waiting() {
    let mut pending = PendingRequests::default();
    for who in 0..3 {
        pending.register(who).unwrap();
    }
    assert_eq!(pending.close().collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(pending.register(3), Err(3));
    assert_eq!(pending.len(), 0);
}

proptest! {
    #[test]
    fn nobody_is_lost_and_nobody_hears_twice(
        steps in prop::collection::vec((0..4u8, -2..20i64), 0..60),
    ) {
        let (mut pending, mut asked, mut heard) = (PendingRequests::default(), 0, BTreeSet::new());
        for (step, number) in steps {
            let gone = match step {
                0 | 1 => {
                    prop_assert_eq!(pending.register(asked), Ok(RpcId::Number(asked)));
                    asked += 1;
                    None
                }
                2 => pending.cancel(&number.into()),
                _ => match pending.match_response(&number.into()) {
                    ResponseMatch::Waiter(who) => Some(who),
                    ResponseMatch::Late => {
                        prop_assert!(heard.contains(&number));
                        None
                    }
                    ResponseMatch::Unknown => {
                        prop_assert!(number < 0 || number >= asked);
                        None
                    }
                },
            };
            if let Some(who) = gone {
                prop_assert_eq!(who, number);
                prop_assert!(heard.insert(who));
            }
        }
        for who in pending.close() {
            prop_assert!(heard.insert(who));
        }
        prop_assert_eq!(heard.len(), usize::try_from(asked).unwrap());
    }
}

//! The table of pending requests and their answers.

use std::collections::BTreeSet;

use angelia_wire::jsonrpc::{Answered, Id, Pending};
use proptest::prelude::*;

#[test]
fn an_answer_finds_whoever_asked_and_only_once() {
    let mut pending = Pending::default();
    let first = pending.ask("a").unwrap();
    let second = pending.ask("b").unwrap();
    assert_ne!(first, second);
    assert_eq!(pending.answered(&second), Answered::By("b"));
    assert_eq!(pending.answered(&second), Answered::Late);
    assert_eq!(pending.answered(&7.into()), Answered::Stranger);
    assert_eq!(pending.answered(&(-1).into()), Answered::Stranger);
    assert_eq!(pending.answered(&"x".into()), Answered::Stranger);
    let as_text = first.to_string();
    assert_eq!(pending.answered(&as_text.as_str().into()), Answered::By("a"));
    assert!(pending.is_empty());
}

#[test]
fn what_was_given_up_is_late() {
    let mut pending = Pending::default();
    let (first, second) = (pending.ask(1).unwrap(), pending.ask(2).unwrap());
    assert_eq!(pending.give_up(&first), Some(1));
    assert_eq!(pending.give_up(&first), None);
    pending.retain(|who| *who != 2);
    assert_eq!(pending.answered(&first), Answered::Late);
    assert_eq!(pending.answered(&second), Answered::Late);
}

#[test]
fn a_peer_that_dies_leaves_nobody_waiting() {
    let mut pending = Pending::default();
    for who in 0..3 {
        pending.ask(who).unwrap();
    }
    assert_eq!(pending.close().collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(pending.ask(3), Err(3));
    assert_eq!(pending.len(), 0);
}

proptest! {
    #[test]
    fn nobody_is_lost_and_nobody_hears_twice(
        steps in prop::collection::vec((0..4u8, -2..20i64), 0..60),
    ) {
        let (mut pending, mut asked, mut heard) = (Pending::default(), 0, BTreeSet::new());
        for (step, number) in steps {
            let gone = match step {
                0 | 1 => {
                    prop_assert_eq!(pending.ask(asked), Ok(Id::Number(asked)));
                    asked += 1;
                    None
                }
                2 => pending.give_up(&number.into()),
                _ => match pending.answered(&number.into()) {
                    Answered::By(who) => Some(who),
                    Answered::Late => {
                        prop_assert!(heard.contains(&number));
                        None
                    }
                    Answered::Stranger => {
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

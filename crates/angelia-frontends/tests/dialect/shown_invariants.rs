//! For any behaviour of an agent, an answer is well-formed: one beginning, blocks that do not
//! overlap, one end; and the shown text is the agent's text.

use std::sync::Arc;

use angelia_core::model::{EventKind, Failure, FailureKind, ToolClass, TurnStatus};
use angelia_frontends::http::dialect::{
    AnswerChunk, AnswerProgress, AnswerProjector, AnswerStart, ProjectorOptions,
};
use proptest::{collection::vec, prelude::*};

use crate::events::{
    awaiting, block, call, default_options, delta, finished, project, project_with, result,
    thought, used, warning,
};

fn any_event() -> impl Strategy<Value = EventKind> {
    let id = 0..4_u32;
    prop_oneof![
        4 => (id.clone(), "[a-z é]{0,6}").prop_map(|(id, text)| delta(id, &text)),
        2 => (id.clone(), "[a-z é]{0,6}").prop_map(|(id, text)| block(id, &text)),
        1 => (id.clone(), "[a-z]{0,6}").prop_map(|(id, text)| thought(id + 10, &text)),
        1 => id.clone().prop_map(|id| call(&format!("t{id}"), "get_weather", ToolClass::Other)),
        1 => id.clone().prop_map(|id| call(&format!("o{id}"), "Bash", ToolClass::Execute)),
        1 => (id, any::<bool>()).prop_map(|(id, ok)| result(&format!("t{id}"), ok)),
        1 => Just(awaiting()),
        1 => Just(warning("odd")),
        1 => (0..100_u64).prop_map(|count| EventKind::Usage(used(count, count))),
    ]
}

fn any_end() -> impl Strategy<Value = EventKind> {
    let status = prop_oneof![
        Just(TurnStatus::Completed),
        Just(TurnStatus::Partial),
        Just(TurnStatus::Interrupted),
        Just(TurnStatus::Failed(Failure::new(FailureKind::Agent, "broke"))),
    ];
    (status, "[a-z]{0,4}").prop_map(|(status, text)| finished(status, &text))
}

fn any_view() -> impl Strategy<Value = ProjectorOptions> {
    (0..3_u32, any::<bool>(), any::<bool>(), proptest::option::of(0..9_u64)).prop_map(
        |(part, activity, hold, max_tokens)| ProjectorOptions {
            start: AnswerStart::Part(part),
            report_activity: activity,
            hold_until_end: hold,
            max_tokens,
            ..default_options()
        },
    )
}

/// Panics unless the chunks are a prefix of a well-formed answer; returns whether it is complete.
fn is_well_formed(pieces: &[AnswerChunk]) -> bool {
    let mut open = false;
    let mut ended = false;
    for (at, piece) in pieces.iter().enumerate() {
        assert!(!ended, "{pieces:?}");
        match piece {
            AnswerChunk::Start(_) => assert_eq!(at, 0, "{pieces:?}"),
            AnswerChunk::Open(_) => {
                assert!(at > 0 && !open, "{pieces:?}");
                open = true;
            }
            AnswerChunk::More(text) => assert!(open && !text.is_empty(), "{pieces:?}"),
            AnswerChunk::Close => {
                assert!(open, "{pieces:?}");
                open = false;
            }
            AnswerChunk::End(_) => {
                assert!(at > 0 && !open, "{pieces:?}");
                ended = true;
            }
        }
    }
    assert!(pieces.is_empty() || matches!(pieces.first(), Some(AnswerChunk::Start(_))));
    ended
}

proptest! {
    #[test]
    fn an_answer_has_its_form(view in any_view(), words in vec("[a-z é]{1,3}", 0..3), mut kinds in vec(any_event(), 0..30), end in any_end()) {
        kinds.push(end);
        let words: Vec<Arc<str>> = words.into_iter().map(Arc::from).collect();
        let (pieces, step) = project_with(AnswerProjector::new(view).with_stop_words(&words), kinds);
        match step {
            AnswerProgress::Over | AnswerProgress::Cut => assert!(is_well_formed(&pieces)),
            AnswerProgress::Failed(_)
            | AnswerProgress::NotStarted(_)
            | AnswerProgress::UnknownModel(_)
            | AnswerProgress::Interrupted => assert!(pieces.is_empty()),
            AnswerProgress::More => panic!("a turn that finished has no more: {pieces:?}"),
        }
    }

    #[test]
    fn a_text_is_the_same_in_any_pieces(text in "[a-z é\n]{1,40}", cuts in vec(any::<prop::sample::Index>(), 0..6), whole in any::<bool>()) {
        let letters: Vec<char> = text.chars().collect();
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(letters.len() + 1)).collect();
        at.extend([0, letters.len()]);
        at.sort_unstable();
        let mut kinds: Vec<EventKind> = at
            .windows(2)
            .map(|pair| delta(0, &letters[pair[0]..pair[1]].iter().collect::<String>()))
            .collect();
        if whole {
            // A replay from the store has no deltas.
            kinds.clear();
        }
        kinds.push(block(0, &text));
        kinds.push(finished(TurnStatus::Completed, &text));
        let (pieces, _) = project(default_options(), kinds);
        let shown: String = pieces.iter().map(|piece| match piece {
            AnswerChunk::More(text) => &**text,
            _ => "",
        }).collect();
        assert_eq!(shown, text);
    }
}

//! E17, E18: whatever a conversation looks like and however often it is compacted, its head stays the same
//! to the byte, there is one summary, and no call is without its result.

use angelia_core::model::Content;
use angelia_executors::native::{
    compaction::{
        plan::{CompactionPlan, PlanLimits},
        record::compaction_event,
        shortened::Compaction,
        size::{TokenScale, messages_tokens},
    },
    provider::{
        Api, AssistantMessage, AssistantPart, Conversation, Message, ProviderRequest, Quirks,
        RequestSettings, ResultBatch, WireTarget, encode_request, normalise,
    },
    record::ConversationLog,
};
use proptest::{collection::vec, prelude::*};

use crate::{
    histories::{call, check, issuer, result, user},
    prefixes::MARK,
};

const SUMMARY: &str = "what was said before";

/// A turn: the words of the user, steps with calls, and an answer unless it was interrupted.
#[derive(Clone, Debug)]
struct AnyTurn {
    words: usize,
    steps: Vec<(usize, usize)>,
    is_answered: bool,
}

fn any_turn() -> impl Strategy<Value = AnyTurn> {
    let steps = vec((1..4_usize, 0..3_000_usize), 0..6);
    (0..400_usize, steps, any::<bool>()).prop_map(|(words, steps, is_answered)| AnyTurn {
        words,
        steps,
        is_answered,
    })
}

impl AnyTurn {
    fn push(&self, api: Api, messages: &mut Vec<Message>) {
        let answer =
            |parts| Message::Assistant(AssistantMessage { issuer: issuer(api, "m"), parts });
        messages.push(user(&format!("turn {} {}", messages.len(), "words ".repeat(self.words))));
        for (calls, bytes) in &self.steps {
            let ids: Vec<_> = (0..*calls).map(|n| format!("c{}_{n}", messages.len())).collect();
            messages.push(answer(ids.iter().map(|id| call(id, "read")).collect()));
            let results = ids.iter().map(|id| result(id, &"x\n".repeat(*bytes / 2 + 1))).collect();
            messages.push(Message::Results(ResultBatch { results, steering: Vec::new() }));
        }
        if self.is_answered {
            messages.push(answer(vec![AssistantPart::Text("done.".into())]));
        }
    }
}

/// Returns a request with these messages only, without cache marks.
fn encoded(api: Api, messages: &[Message]) -> String {
    let conversation =
        Conversation { system: "Be brief.".into(), messages: messages.to_vec(), revision: 0 };
    let (issuer, settings) = (issuer(api, "m"), RequestSettings::default());
    let quirks = Quirks::for_endpoint(api, "localhost", "m");
    let body = encode_request(&ProviderRequest {
        issuer: &issuer,
        conversation: &conversation,
        tools: &[],
        settings: &settings,
        quirks: &quirks,
    });
    String::from_utf8(body).unwrap().replace(MARK, "")
}

fn is_summary(message: &Message) -> bool {
    matches!(message, Message::User(content)
        if content.iter().any(|part| matches!(part, Content::Text(text) if text.contains(SUMMARY))))
}

/// Asserts that each result follows the answer with its call: nothing is left to be mended.
fn assert_paired(messages: &[Message]) {
    for (place, message) in messages.iter().enumerate() {
        let calls = |message: &Message| -> Vec<_> {
            let Message::Assistant(answer) = message else { return Vec::new() };
            let calls = answer.parts.iter().filter_map(|part| match part {
                AssistantPart::Call(call) => Some(call.id.clone()),
                _ => None,
            });
            calls.collect()
        };
        let results: Vec<_> = match messages.get(place + 1) {
            Some(Message::Results(batch)) => {
                batch.results.iter().map(|result| result.id.clone()).collect()
            }
            _ => Vec::new(),
        };
        assert_eq!(calls(message), results, "{messages:?}");
    }
}

proptest! {
    #[test]
    fn any_compactions_keep_the_head_and_the_pairs(
        api in prop::sample::select(&Api::ALL[..]),
        rounds in vec(vec(any_turn(), 1..5), 1..6),
        protect_first_n in 0..6_usize,
        window in 200..20_000_u64,
        reported in 1..4_u64,
        merge_user_turns in any::<bool>(),
    ) {
        let mut messages = Vec::new();
        let mut head: Option<(usize, String)> = None;
        for turns in rounds {
            for turn in turns {
                turn.push(api, &mut messages);
            }
            let limits = PlanLimits {
                protect_first_n,
                earlier_head: head.as_ref().map(|(count, _)| *count),
                window,
                tail: PlanLimits::tail_of(window),
                scale: TokenScale::new(reported, 2),
            };
            let Some(plan) = CompactionPlan::new(&messages, &limits) else { continue };
            let compaction = Compaction { plan, summary: Some(SUMMARY.into()) };
            let left = compaction.shorten(&messages).unwrap();
            assert_paired(&left);
            let target = WireTarget {
                issuer: issuer(api, "m"),
                images: true,
                reasoning: true,
                merge_user_turns,
            };
            check(&normalise(&left, &target), api, true);
            prop_assert!(left.len() <= messages.len() + 2);
            // The last words of the user stay.
            let last = messages.iter().rposition(|one| matches!(one, Message::User(_)) && !is_summary(one));
            if let Some(last) = last && plan.head <= last {
                let place = compaction.place_of(last, &messages);
                let same = place.map(|place| format!("{:?}", left[place]) == format!("{:?}", messages[last]));
                prop_assert_eq!(same, Some(true), "{:?}", plan);
            }
            if !plan.only_trims() {
                prop_assert_eq!(left.iter().filter(|one| is_summary(one)).count(), 1);
                let kept = encoded(api, &left[..plan.head]);
                // Also where messages of the user are merged, the head stays by itself.
                prop_assert!(encoded(api, &left).starts_with(&kept[..kept.len() - 2]));
                if let Some((count, before)) = &head {
                    prop_assert_eq!((*count, before), (plan.head, &kept));
                } else {
                    let tokens = messages_tokens(&left[..plan.head]);
                    let least = 160 * left[..plan.head].len() as u64;
                    prop_assert!(tokens <= (window / 10).max(least), "{} {}", tokens, window);
                }
                head = Some((plan.head, kept));
            }
            messages = left;
        }
    }
}

#[test]
fn a_compaction_of_another_conversation_changes_nothing() {
    let plan = CompactionPlan {
        head: 3,
        head_tokens: 10,
        kept: None,
        tail: 5,
        digest_until: 0,
        result_bytes: 100,
    };
    let mut log = ConversationLog::new("Be brief.".into(), &[]);
    log.begin_turn(vec![Content::text("hello")]);
    log.apply(&compaction_event(&Compaction { plan, summary: None }));
    assert_eq!((log.conversation().messages.len(), log.compacted_head()), (1, None));
    // A turn that was not answered leaves nothing, and one that compacts has no input.
    log.end_turn();
    log.begin_turn(Vec::new());
    assert!(log.conversation().messages.is_empty());
}

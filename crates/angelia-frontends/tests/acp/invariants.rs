//! For any behaviour of an agent, every line is a valid update within the length limit, and the
//! shown text is the agent's text.

use angelia_core::model::{EventKind, TextChannel, ToolClass, Verdict};
use proptest::{collection::vec, prelude::*};

use crate::event_builders::{
    block, call, delta, encode_all, encoder, parse_updates, resolved, result,
};

fn any_input() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        Just("file_path"),
        Just("path"),
        Just("old_string"),
        Just("new_string"),
        Just("content"),
        Just("edits"),
        Just("changes"),
        Just("diff"),
        Just("url"),
        Just("offset"),
    ];
    let leaf = prop_oneof![
        "[a-z/@+ \n-]{0,8}".prop_map(serde_json::Value::from),
        any::<i32>().prop_map(serde_json::Value::from),
        Just(serde_json::Value::Null),
    ];
    let value = leaf.prop_recursive(3, 16, 4, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(serde_json::Value::from),
            vec((name.clone(), inner), 0..4).prop_map(|fields| {
                let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
                serde_json::Value::Object(fields.collect())
            }),
        ]
    });
    value.prop_map(|value| value.to_string())
}

fn any_class() -> impl Strategy<Value = ToolClass> {
    prop_oneof![
        Just(ToolClass::Read),
        Just(ToolClass::Edit),
        Just(ToolClass::Execute),
        Just(ToolClass::Other),
    ]
}

fn any_channel() -> impl Strategy<Value = TextChannel> {
    prop_oneof![Just(TextChannel::Answer), Just(TextChannel::Reasoning)]
}

fn any_event() -> impl Strategy<Value = EventKind> {
    let id = 0..4_u32;
    prop_oneof![
        4 => (id.clone(), any_channel(), ".{0,6}").prop_map(|(id, to, text)| delta(id, to, &text)),
        2 => (id.clone(), any_channel(), ".{0,6}").prop_map(|(id, to, text)| block(id, to, &text)),
        2 => (id.clone(), any_class(), any_input())
            .prop_map(|(id, class, input)| call(&format!("t{id}"), class, &input)),
        2 => (id.clone(), any::<bool>(), ".{0,6}")
            .prop_map(|(id, ok, output)| result(&format!("t{id}"), ok, &output)),
        1 => id.prop_map(|id| resolved(u128::from(id), Verdict::Once)),
    ]
}

proptest! {
    #[test]
    fn every_line_is_one_of_the_protocol(kinds in vec(any_event(), 0..40)) {
        parse_updates(&encode_all(encoder(true), &kinds));
    }

    #[test]
    fn what_is_shown_is_what_was_said(
        blocks in vec((vec(".{0,12}", 0..6), any_channel(), ".{0,4}"), 0..6),
    ) {
        let mut kinds = Vec::new();
        let mut said = String::new();
        for (id, (pieces, channel, rest)) in (0_u32..).zip(&blocks) {
            let start = said.len();
            for piece in pieces {
                kinds.push(delta(id, *channel, piece));
                said.push_str(piece);
            }
            said.push_str(rest);
            kinds.push(block(id, *channel, &said[start..]));
        }
        let shown = parse_updates(&encode_all(encoder(false), &kinds));
        let shown: String =
            shown.iter().filter_map(|update| update["content"]["text"].as_str()).collect();
        prop_assert_eq!(shown, said);
    }

    #[test]
    fn no_line_of_text_is_longer_than_clients_read(
        text in "[a\u{1}é\u{1f600}]{1,64}", times in 1..2000_usize,
    ) {
        let text = text.repeat(times);
        let lines = encode_all(encoder(false), &[block(0, TextChannel::Answer, &text)]);
        prop_assert!(lines.lines().all(|line| line.len() < 64 * 1024));
        let said: String = parse_updates(&lines).iter()
            .filter_map(|update| update["content"]["text"].as_str()).collect();
        prop_assert!(said == text);
    }
}

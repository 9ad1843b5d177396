//! Any history becomes one that an API accepts.

use std::{collections::HashSet, sync::Arc};

use angelia_core::model::{Content, RawJson};
use angelia_executors::native::provider::{
    Api, AssistantMessage, AssistantPart, CallResult, Issuer, Message, ModelCall, Reasoning,
    ReasoningSeal, ResultBatch, WireTarget, normalise,
};
use proptest::{collection::vec, prelude::*};
use serde_json::value::RawValue;

pub(crate) fn issuer(api: Api, model: &str) -> Issuer {
    Issuer { provider: "p".into(), api, model: model.into() }
}

pub(crate) fn raw(json: &str) -> RawJson {
    RawValue::from_string(json.to_owned()).unwrap().into()
}

pub(crate) fn user(text: &str) -> Message {
    Message::User(vec![Content::text(text)])
}

pub(crate) fn call(id: &str, name: &str) -> AssistantPart {
    let (id, name) = (id.into(), name.into());
    AssistantPart::Call(ModelCall { id, name, arguments: raw(r#"{"p":1}"#), extra: None })
}

pub(crate) fn result(id: &str, text: &str) -> CallResult {
    let content = vec![Content::text(text)];
    CallResult { id: id.into(), name: "read".into(), ok: true, content }
}

fn any_content() -> impl Strategy<Value = Vec<Content>> {
    let part = prop_oneof![
        "[a-z ]{0,6}".prop_map(Content::text),
        Just(Content::Image { media_type: "image/png".into(), data: Arc::from(&b"png"[..]) }),
    ];
    vec(part, 0..3)
}

/// Ids that collide, are missing, too long or illegal.
fn any_id() -> impl Strategy<Value = String> {
    prop_oneof!["[ab]", Just(String::new()), "[ab:]{3}", Just("x".repeat(70))]
}

fn any_part() -> impl Strategy<Value = AssistantPart> {
    let seal = prop_oneof![
        Just(ReasoningSeal::Plain),
        Just(ReasoningSeal::Signature("sig".into())),
        Just(ReasoningSeal::Redacted("data".into())),
        Just(ReasoningSeal::Encrypted { summary: raw("[]"), content: "sealed".into() }),
        Just(ReasoningSeal::Details(raw("[{}]"))),
    ];
    prop_oneof![
        "[a-z ]{0,6}".prop_map(|text| AssistantPart::Text(text.into())),
        ("[a-z]{0,4}", seal).prop_map(|(text, seal)| {
            AssistantPart::Reasoning(Reasoning { text: text.into(), seal })
        }),
        any_id().prop_map(|id| call(&id, "read")),
    ]
}

/// Histories as interrupts, other providers and mistakes leave them.
pub(crate) fn any_messages(api: Api) -> impl Strategy<Value = Vec<Message>> {
    let results = vec((any_id(), any_content()), 0..4).prop_map(|results| {
        let result = |(id, content): (String, _)| CallResult { content, ..result(&id, "") };
        results.into_iter().map(result).collect()
    });
    let message = prop_oneof![
        any_content().prop_map(Message::User),
        (vec(any_part(), 0..4), any::<bool>()).prop_map(move |(parts, own)| {
            let issuer = issuer(api, if own { "m" } else { "other" });
            Message::Assistant(AssistantMessage { issuer, parts })
        }),
        (results, any_content())
            .prop_map(|(results, steering)| Message::Results(ResultBatch { results, steering })),
    ];
    vec(message, 0..8)
}

/// Checks that an API accepts the messages.
pub(crate) fn check(messages: &[Message], api: Api, images: bool) {
    let mut ids = HashSet::new();
    let mut open: Vec<Arc<str>> = Vec::new();
    for (place, message) in messages.iter().enumerate() {
        assert!(place > 0 || matches!(message, Message::User(_)), "{messages:?}");
        match message {
            Message::User(content) => {
                assert!(open.is_empty() && !content.is_empty(), "{messages:?}");
                check_content(content, images);
            }
            Message::Assistant(answer) => {
                assert!(open.is_empty() && !answer.parts.is_empty(), "{messages:?}");
                for part in &answer.parts {
                    match part {
                        AssistantPart::Reasoning(_) => assert_eq!(answer.issuer, issuer(api, "m")),
                        AssistantPart::Text(text) => assert!(!text.trim().is_empty()),
                        AssistantPart::Call(call) => {
                            assert!(ids.insert(Arc::clone(&call.id)), "{messages:?}");
                            let length = 1..=api.max_call_id_chars();
                            assert!(length.contains(&call.id.len()), "{messages:?}");
                            open.push(Arc::clone(&call.id));
                        }
                    }
                }
            }
            Message::Results(batch) => {
                let answered: Vec<_> = batch.results.iter().map(|r| Arc::clone(&r.id)).collect();
                assert_eq!(answered, open, "{messages:?}");
                assert!(!open.is_empty());
                open.clear();
                for result in &batch.results {
                    assert!(!result.content.is_empty());
                    check_content(&result.content, images);
                }
                check_content(&batch.steering, images);
            }
        }
    }
    assert!(open.is_empty(), "{messages:?}");
}

fn check_content(content: &[Content], images: bool) {
    for part in content {
        match part {
            Content::Text(text) => assert!(!text.trim().is_empty()),
            Content::Image { .. } => assert!(images),
        }
    }
}

proptest! {
    #[test]
    fn any_history_is_acceptable(
        (api, messages) in prop::sample::select(&Api::ALL[..])
            .prop_flat_map(|api| (Just(api), any_messages(api))),
        images in any::<bool>(),
        merge_user_turns in any::<bool>(),
    ) {
        let issuer = issuer(api, "m");
        let target = WireTarget { issuer, images, reasoning: true, merge_user_turns };
        let normal = normalise(&messages, &target);
        check(&normal, api, images);
        if merge_user_turns {
            let is_user = |message: &Message| !matches!(message, Message::Assistant(_));
            prop_assert!(!normal.windows(2).any(|pair| is_user(&pair[0]) && matches!(pair[1], Message::User(_))));
        }
        prop_assert_eq!(format!("{:?}", normalise(&normal, &target)), format!("{normal:?}"));
    }
}

#[test]
fn what_an_interrupt_leaves_is_closed() {
    let api = Api::Messages;
    let parts = vec![call("a", "read"), call("b", "read")];
    let history = [
        Message::Results(ResultBatch { results: vec![result("orphan", "x")], steering: vec![] }),
        user("go"),
        Message::Assistant(AssistantMessage { issuer: issuer(api, "m"), parts }),
        Message::Results(ResultBatch {
            results: vec![result("b", "two"), result("z", "?")],
            steering: vec![],
        }),
        user("and now?"),
    ];
    let issuer = issuer(api, "m");
    let target = WireTarget { issuer, images: true, reasoning: true, merge_user_turns: false };
    insta::assert_debug_snapshot!(normalise(&history, &target));
}

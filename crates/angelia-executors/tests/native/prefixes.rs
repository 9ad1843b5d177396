//! A request begins with the bytes of the one before, so that a provider's cache is used.

use angelia_executors::native::provider::{
    Api, AssistantMessage, AssistantPart, Conversation, EncodedHistory, Issuer, Message,
    ProviderRequest, QuirkOverrides, Quirks, RequestSettings, ResultBatch, encode_request,
};
use proptest::{collection::vec, prelude::*};

use crate::histories::{any_messages, call, issuer, result, user};

pub(crate) const MARK: &str = r#","cache_control":{"type":"ephemeral"}"#;

/// Everything of a request but its conversation.
struct RequestForm {
    issuer: Issuer,
    quirks: Quirks,
    settings: RequestSettings,
}

impl RequestForm {
    fn new(api: Api, host: &str, overrides: &QuirkOverrides) -> Self {
        let quirks = Quirks::for_endpoint(api, host, "m").with(overrides);
        Self { issuer: issuer(api, "m"), quirks, settings: RequestSettings::default() }
    }

    fn request<'a>(&'a self, conversation: &'a Conversation) -> ProviderRequest<'a> {
        ProviderRequest {
            issuer: &self.issuer,
            conversation,
            tools: &[],
            settings: &self.settings,
            quirks: &self.quirks,
        }
    }
}

fn conversation(messages: &[Message]) -> Conversation {
    Conversation { system: "Be brief.".into(), messages: messages.to_vec(), revision: 0 }
}

fn encoded(api: Api, host: &str, overrides: &QuirkOverrides, messages: &[Message]) -> String {
    let form = RequestForm::new(api, host, overrides);
    String::from_utf8(encode_request(&form.request(&conversation(messages)))).unwrap()
}

/// A history that a request can have ended with: it begins with the user, and no call is open.
fn sendable(mut messages: Vec<Message>, api: Api) -> Vec<Message> {
    messages.insert(0, user("first"));
    messages.push(Message::Assistant(AssistantMessage {
        issuer: issuer(api, "m"),
        parts: vec![AssistantPart::Text("done".into())],
    }));
    messages.push(user("next"));
    messages
}

proptest! {
    #[test]
    fn a_request_begins_with_the_one_before(
        (api, before, after) in prop::sample::select(&Api::ALL[..])
            .prop_flat_map(|api| (Just(api), any_messages(api), any_messages(api))),
        host in prop::sample::select(&["api.anthropic.com", "openrouter.ai", "api.deepseek.com", "example.com"][..]),
    ) {
        let none = QuirkOverrides::default();
        let shorter = sendable(before, api);
        let mut longer = shorter.clone();
        longer.extend(after);
        let first = encoded(api, host, &none, &shorter).replace(MARK, "");
        let second = encoded(api, host, &none, &longer).replace(MARK, "");
        let open = first.strip_suffix("]}").unwrap();
        prop_assert!(second.starts_with(open), "\n{}\n{}", open, second);
    }

    /// A conversation that is encoded while it grows has the bytes of one that is encoded at once,
    /// whatever happens on the way: a last message that grows or is taken back, another model, images
    /// refused, messages replaced.
    #[test]
    fn a_growing_conversation_is_encoded_as_a_whole_one(
        (api, messages) in prop::sample::select(&Api::ALL[..])
            .prop_flat_map(|api| (Just(api), any_messages(api))),
        host in prop::sample::select(&["api.anthropic.com", "openrouter.ai", "example.com"][..]),
        merge_user_turns in any::<bool>(),
        changes in vec((0..8_usize, 0..4_u8), 0..3),
    ) {
        let overrides = QuirkOverrides {
            merge_user_turns: Some(merge_user_turns),
            ..QuirkOverrides::default()
        };
        let mut form = RequestForm::new(api, host, &overrides);
        let mut conversation = conversation(&[]);
        let mut history = EncodedHistory::default();
        for (place, message) in messages.into_iter().enumerate() {
            for (_, change) in changes.iter().filter(|(at, _)| *at == place) {
                match change {
                    0 => form.issuer = issuer(api, "other"),
                    1 => form.settings.without_images = true,
                    2 => form.settings.without_reasoning = true,
                    _ => {
                        conversation.messages = vec![user("replaced")];
                        conversation.revision += 1;
                    }
                }
            }
            // Sent, and then taken back.
            conversation.messages.push(user("never answered"));
            check_growth(&mut history, &form, &conversation)?;
            conversation.messages.pop();
            // The last message grows.
            if let Message::Results(batch) = &message {
                let begun = ResultBatch { results: vec![], steering: batch.steering.clone() };
                conversation.messages.push(Message::Results(begun));
                check_growth(&mut history, &form, &conversation)?;
                conversation.messages.pop();
            }
            conversation.messages.push(message);
            check_growth(&mut history, &form, &conversation)?;
        }
    }
}

fn check_growth(
    history: &mut EncodedHistory,
    form: &RequestForm,
    conversation: &Conversation,
) -> Result<(), TestCaseError> {
    let request = form.request(conversation);
    let grown = String::from_utf8(history.encode(&request)).unwrap();
    let whole = String::from_utf8(encode_request(&request)).unwrap();
    prop_assert_eq!(grown, whole);
    Ok(())
}

#[test]
fn marks_stand_on_the_system_prompt_and_the_last_two_messages_of_the_user() {
    let step = |id: &str| {
        let parts = vec![call(id, "read")];
        let batch = ResultBatch { results: vec![result(id, "x")], steering: vec![] };
        let answer = AssistantMessage { issuer: issuer(Api::Messages, "m"), parts };
        [Message::Assistant(answer), Message::Results(batch)]
    };
    let mut messages = vec![user("go")];
    for id in ["a", "b", "c"] {
        messages.extend(step(id));
    }
    let none = QuirkOverrides::default();
    let body = encoded(Api::Messages, "api.anthropic.com", &none, &messages);
    assert_eq!(body.matches(MARK).count(), 3, "{body}");
    let after_first = body.split(MARK).nth(1).unwrap();
    assert!(after_first.contains(r#""tool_use_id":"b""#), "{body}");
    assert!(body.trim_end_matches("]}").ends_with(&format!("{MARK}}}")), "{body}");
    for api in [Api::Chat, Api::Responses] {
        assert!(!encoded(api, "example.com", &none, &messages).contains("cache_control"));
    }
    // There, a tool's result cannot carry a mark, so the last words of the user keep theirs.
    for messages in [&messages[..1], &messages] {
        assert_eq!(encoded(Api::Chat, "openrouter.ai", &none, messages).matches(MARK).count(), 2);
    }
}

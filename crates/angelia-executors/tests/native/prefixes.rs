//! A request begins with the bytes of the one before, so that a provider's cache is used.

use angelia_executors::native::provider::{
    Api, AssistantMessage, AssistantPart, Conversation, Message, ProviderRequest, QuirkOverrides,
    Quirks, RequestSettings, ResultBatch, encode_request,
};
use proptest::prelude::*;

use crate::histories::{any_messages, call, issuer, result, user};

const MARK: &str = r#","cache_control":{"type":"ephemeral"}"#;

fn encoded(api: Api, host: &str, overrides: &QuirkOverrides, messages: &[Message]) -> String {
    let issuer = issuer(api, "m");
    let quirks = Quirks::for_endpoint(api, host, "m").with(overrides);
    let conversation = Conversation { system: "Be brief.".into(), messages: messages.to_vec() };
    let settings = RequestSettings::default();
    let request = ProviderRequest {
        issuer: &issuer,
        conversation: &conversation,
        tools: &[],
        settings: &settings,
        quirks: &quirks,
    };
    String::from_utf8(encode_request(&request)).unwrap()
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
    assert_eq!(encoded(Api::Chat, "openrouter.ai", &none, &[user("go")]).matches(MARK).count(), 2);
}

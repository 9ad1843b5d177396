//! The bodies of requests, per API and quirk.

use std::sync::Arc;

use angelia_core::model::{CallerTool, Content, ReasoningEffort, ToolChoice};
use angelia_executors::native::provider::{
    Api, AssistantMessage, AssistantPart, Conversation, Issuer, Message, ModelCall,
    ProviderRequest, QuirkOverrides, Quirks, Reasoning, ReasoningSeal, RequestSettings,
    ResultBatch, encode_request,
};

use crate::histories::{call, issuer, raw, result, user};

fn tools() -> Vec<CallerTool> {
    let schema = r#"{"type":"object","properties":{"pattern":{"type":"string","pattern":"^a"}}}"#;
    let tool = |name: &str, schema| CallerTool {
        name: name.into(),
        description: "Does it.".into(),
        input_schema: raw(schema),
    };
    vec![tool("read", r#"{"type":"object"}"#), tool("grep", schema)]
}

/// A conversation with everything in it: two steps of tools, an image, a person who steers.
fn conversation(issuer: &Issuer, seals: [ReasoningSeal; 2]) -> Conversation {
    let reasoning =
        seals.map(|seal| AssistantPart::Reasoning(Reasoning { text: "I think.".into(), seal }));
    let mut parts =
        vec![AssistantPart::Text("Looking.".into()), call("a", "read"), call("b", "grep")];
    parts.splice(..0, reasoning);
    let image = Content::Image { media_type: "image/png".into(), data: Arc::from(&b"png"[..]) };
    let mut failed = result("b", "no such file");
    failed.ok = false;
    let answer = |parts| Message::Assistant(AssistantMessage { issuer: issuer.clone(), parts });
    let second = AssistantPart::Call(ModelCall {
        id: "c".into(),
        name: "read".into(),
        arguments: raw(r#"{"p":[1, 2.50]}"#),
        extra: Some(raw(r#"{"vendor":{"signature":"S"}}"#)),
    });
    Conversation {
        revision: 0,
        system: "You are terse.".into(),
        messages: vec![
            Message::User(vec![Content::text("Compare"), image]),
            answer(parts),
            Message::Results(ResultBatch {
                results: vec![result("a", "alpha"), failed],
                steering: vec![Content::text("Hurry.")],
            }),
            answer(vec![second]),
            Message::Results(ResultBatch { results: vec![result("c", "gamma")], steering: vec![] }),
        ],
    }
}

fn seals(api: Api) -> [ReasoningSeal; 2] {
    match api {
        Api::Messages => {
            [ReasoningSeal::Signature("sig".into()), ReasoningSeal::Redacted("data".into())]
        }
        Api::Chat => [ReasoningSeal::Plain, ReasoningSeal::Details(raw(r#"[{"type":"x"}]"#))],
        Api::Responses => [
            ReasoningSeal::Encrypted { summary: raw("[]"), content: "sealed".into() },
            ReasoningSeal::Plain,
        ],
    }
}

/// Returns the body, laid out for reading.
fn body(api: Api, host: &str, settings: &RequestSettings, overrides: &QuirkOverrides) -> String {
    let issuer = issuer(api, "model-x");
    body_of(&issuer, host, settings, overrides, &conversation(&issuer, seals(api)))
}

fn body_of(
    issuer: &Issuer,
    host: &str,
    settings: &RequestSettings,
    overrides: &QuirkOverrides,
    conversation: &Conversation,
) -> String {
    let quirks = Quirks::for_endpoint(issuer.api, host, &issuer.model).with(overrides);
    let tools = tools();
    let request =
        ProviderRequest { issuer, conversation, tools: &tools, settings, quirks: &quirks };
    let bytes = encode_request(&request);
    let value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    serde_json::to_string_pretty(&value).unwrap()
}

fn settings() -> RequestSettings {
    RequestSettings {
        max_output_tokens: Some(4096),
        effort: Some(ReasoningEffort::High),
        cache_key: Some("session-1".into()),
        ..RequestSettings::default()
    }
}

#[test]
fn a_body_of_each_api() {
    let none = QuirkOverrides::default();
    for (name, api, host) in [
        ("messages", Api::Messages, "api.anthropic.com"),
        ("messages_elsewhere", Api::Messages, "example.com"),
        ("chat", Api::Chat, "example.com"),
        ("chat_openai", Api::Chat, "api.openai.com"),
        ("chat_openrouter", Api::Chat, "openrouter.ai"),
        ("chat_deepseek", Api::Chat, "api.deepseek.com"),
        ("responses", Api::Responses, "api.openai.com"),
        ("responses_local", Api::Responses, "127.0.0.1"),
    ] {
        insta::assert_snapshot!(name, body(api, host, &settings(), &none));
    }
}

#[test]
fn a_correction_of_the_owner_changes_the_body() {
    let overrides: QuirkOverrides = serde_json::from_str(
        r#"{"developer_role":true,"stream_options":false,"tool_result_name":true,
            "max_tokens_field":"max_completion_tokens","merge_user_turns":true,"strict":true}"#,
    )
    .unwrap();
    let settings = RequestSettings { without_images: true, plain_schemas: true, ..settings() };
    insta::assert_snapshot!(body(Api::Chat, "example.com", &settings, &overrides));
}

#[test]
fn a_choice_of_tools_is_in_the_words_of_each_api() {
    let none = QuirkOverrides::default();
    let mut all = Vec::new();
    for api in Api::ALL {
        let choices = [
            ToolChoice::Auto,
            ToolChoice::None,
            ToolChoice::Required,
            ToolChoice::Named("grep".into()),
        ];
        for tool_choice in choices {
            let settings = RequestSettings { tool_choice, ..settings() };
            let body: serde_json::Value =
                serde_json::from_str(&self::body(api, "api.anthropic.com", &settings, &none))
                    .unwrap();
            let thinks = body.get("thinking").is_some();
            let choice = body.get("tool_choice").map(ToString::to_string);
            all.push(format!("{} {} {thinks}", api.as_str(), choice.unwrap_or_default()));
        }
    }
    insta::assert_snapshot!(all.join("\n"));
    // Servers refuse a choice among no tools.
    for api in Api::ALL {
        let settings = RequestSettings { tool_choice: ToolChoice::Required, ..settings() };
        let issuer = issuer(api, "m");
        let conversation = Conversation { messages: vec![user("hi")], ..Conversation::default() };
        let quirks = Quirks::for_endpoint(api, "example.com", "m");
        let body = encode_request(&ProviderRequest {
            issuer: &issuer,
            conversation: &conversation,
            tools: &[],
            settings: &settings,
            quirks: &quirks,
        });
        assert!(!String::from_utf8(body).unwrap().contains("tool_choice"), "{api:?}");
    }
}

#[test]
fn another_vendors_thoughts_are_told_to_nobody() {
    for api in Api::ALL {
        let theirs = issuer(api, "another-model");
        let ours = issuer(api, "model-x");
        let hosts = ["api.anthropic.com", "openrouter.ai", "api.deepseek.com", "api.openai.com"];
        for (host, from) in hosts.iter().flat_map(|host| Api::ALL.map(|from| (host, from))) {
            let conversation = conversation(&theirs, seals(from));
            let none = QuirkOverrides::default();
            let body = body_of(&ours, host, &settings(), &none, &conversation);
            for secret in ["I think.", "sig\"", "sealed", "\"data\": \"data\"", "\"x\"", "vendor"] {
                assert!(!body.contains(secret), "{api:?} {host} {secret}: {body}");
            }
        }
    }
}

#[test]
fn rejected_reasoning_and_foreign_calls() {
    let none = QuirkOverrides::default();
    let without = RequestSettings { without_reasoning: true, ..settings() };
    for api in Api::ALL {
        let body = body(api, "example.com", &without, &none);
        assert!(!body.contains("I think.") && !body.contains("sealed"), "{body}");
    }
    let ours = issuer(Api::Chat, "model-x");
    let foreign = conversation(&issuer(Api::Chat, "another-model"), seals(Api::Chat));
    let host = "generativelanguage.googleapis.com";
    let body = body_of(&ours, host, &settings(), &none, &foreign);
    assert_eq!(body.matches("skip_thought_signature_validator").count(), 2, "{body}");
    // A server that demands a thought with every call gets one, even if there is none to give.
    let body = body_of(&ours, "api.deepseek.com", &settings(), &none, &foreign);
    assert_eq!(body.matches(r#""reasoning_content": " ""#).count(), 2, "{body}");
}

#[test]
fn a_small_conversation_has_a_small_body() {
    let issuer = issuer(Api::Chat, "m");
    let conversation = Conversation { messages: vec![user("hi")], ..Conversation::default() };
    let quirks = Quirks::for_endpoint(Api::Chat, "example.com", "m");
    let settings = RequestSettings::default();
    let request = ProviderRequest {
        issuer: &issuer,
        conversation: &conversation,
        tools: &[],
        settings: &settings,
        quirks: &quirks,
    };
    let expected = r#"{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}"#;
    assert_eq!(String::from_utf8(encode_request(&request)).unwrap(), expected);
}

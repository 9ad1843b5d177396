//! Codex has lost its own transcript of a conversation: the record is carried into a new one.

use angelia_testkit::plain_http::PlainResponse;
use serde_json::{Value, json};

use crate::{
    daemon_fixture::DaemonFixture,
    dialects::ApiDialect,
    lost_transcripts::lose_transcripts,
    post::{post_to, request},
};

/// Returns the conversation of the last model request, one line per message.
fn last_conversation(bench: &DaemonFixture) -> Vec<String> {
    let request: Value = serde_json::from_str(bench.model_requests().last().unwrap()).unwrap();
    let items = request["input"].as_array().unwrap().iter();
    let line = |item: &Value| {
        let text = item["content"][0]["text"].as_str()?;
        let role = item["role"].as_str()?;
        // Codex's own messages begin with a tag.
        let ours = matches!(role, "user" | "assistant") && !text.starts_with('<');
        ours.then(|| format!("{role}: {text}"))
    };
    items.filter_map(line).collect()
}

#[track_caller]
fn assert_carried(bench: &DaemonFixture, answer: &PlainResponse, wanted: &[&str]) {
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(last_conversation(bench), wanted);
    let path = format!("/api/turns/{}/events", answer.header("x-angelia-turn"));
    let events = request(bench, "GET", &path, "", &Value::Null);
    let events = events.body.as_str().unwrap();
    assert!(events.contains(r#""code":"history_carried""#), "{events}");
    assert!(events.contains(r#""resumed":false"#), "{events}");
}

#[test]
fn real_the_record_is_carried_whatever_names_the_conversation() {
    let bench = DaemonFixture::new();
    let (dialect, user) = (ApiDialect::Messages, ApiDialect::user);
    let first = dialect.post(&bench, &dialect.request(&[user("ECHO:one")]));
    lose_transcripts(&bench.lab.machine);
    let said = json!({"role": "assistant", "content": "one"});
    let second =
        dialect.post(&bench, &dialect.request(&[user("ECHO:one"), said, user("ECHO:two")]));
    assert_eq!(second.session(), first.session());
    assert_carried(&bench, &second, &["user: ECHO:one", "assistant: one", "user: ECHO:two"]);

    lose_transcripts(&bench.lab.machine);
    let named = format!("x-angelia-session: {}\r\n", first.session());
    let body = dialect.request(&[user("ECHO:three")]);
    let third = request(&bench, "POST", "/v1/messages", &named, &body);
    let all = ["user: ECHO:one", "assistant: one", "user: ECHO:two", "assistant: two"];
    assert_carried(&bench, &third, &[&all[..], &["user: ECHO:three"]].concat());

    let body = ApiDialect::Responses.request(&[user("ECHO:hello")]);
    let response = post_to(&bench, "/v1/responses", &body);
    lose_transcripts(&bench.lab.machine);
    let mut body = ApiDialect::Responses.request(&[user("ECHO:again")]);
    body["previous_response_id"] = response.body["id"].clone();
    let next = post_to(&bench, "/v1/responses", &body);
    assert_carried(&bench, &next, &["user: ECHO:hello", "assistant: hello", "user: ECHO:again"]);

    let machine = &bench.lab.machine;
    let first = machine.turn(&["ECHO:one"]);
    lose_transcripts(machine);
    let second = machine.turn(&["-s", first.completed().session(), "ECHO:two"]);
    assert_eq!(second.completed().first("notice")["code"], "history_carried", "{second:#?}");
    assert_eq!(second.first("turn.started")["resumed"], false);
    let lines = last_conversation(&bench);
    assert!(
        lines.ends_with(&["user: ECHO:one", "assistant: one", "user: ECHO:two"].map(Into::into))
    );
    bench.end();
}

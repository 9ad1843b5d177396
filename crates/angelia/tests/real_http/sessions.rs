//! A stateless client's conversation: one model request per turn, in one process.

use angelia_testkit::plain_http::PlainResponse;
use serde_json::{Value, json};

use crate::{
    daemon_fixture::{DaemonFixture, on_both},
    lost_transcripts::lose_transcripts,
    post::{assistant, conversation_lines, messages, post, post_to, request, user},
};

on_both! {
    three_turns super::three_turns;
    regenerated super::regenerated;
    another_prompt super::another_prompt;
    three_dialects super::three_dialects;
    lost_transcript super::lost_transcript;
}

fn three_turns(bench: DaemonFixture) {
    let first = post(&bench, &messages(&[user("ECHO:one")]));
    assert_eq!(first.message_text(), "one");
    let mut told = vec![user("ECHO:one"), assistant("one"), user("ECHO:two")];
    let second = post(&bench, &messages(&told));
    assert_eq!(second.message_text(), "two");
    // The client rewrites the history: blocks for strings, whitespace, invented thinking.
    told[0] = json!({"role": "user", "content": [{"type": "text", "text": "ECHO:one "}]});
    told[1] = json!({"role": "assistant", "content": [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "one\n", "cache_control": {"type": "ephemeral"}},
    ]});
    told.extend([assistant("  two"), user("ECHO:three")]);
    let third = post(&bench, &messages(&told));
    assert_eq!(third.message_text(), "three");
    assert_eq!(third.session(), first.session());
    let asked = bench.model_requests();
    assert_eq!(asked.len(), 3, "one model request for each turn");
    assert_eq!(bench.agents(), 1, "one process");
    let lines = conversation_lines(&asked[2]);
    assert_eq!(lines.len(), 5, "{lines:?}");
    bench.end();
}

fn regenerated(bench: DaemonFixture) {
    let first = post(&bench, &messages(&[user("ECHO:one")]));
    let told = [user("ECHO:one"), assistant("one"), user("ECHO:two")];
    let second = post(&bench, &messages(&told));
    assert_eq!(second.session(), first.session());
    let again = post(&bench, &messages(&told));
    assert_eq!(again.message_text(), "two");
    assert_ne!(again.session(), first.session());
    let asked = bench.model_requests();
    let lines = conversation_lines(asked.last().unwrap());
    assert_eq!(lines, ["user: ECHO:one", "assistant: one", "user: ECHO:two"]);
    bench.end();
}

fn another_prompt(bench: DaemonFixture) {
    let mut body = messages(&[user("ECHO:one")]);
    body["system"] = json!("You are terse.");
    assert_eq!(post(&bench, &body).message_text(), "one");
    let mut body = messages(&[user("ECHO:one"), assistant("one"), user("ECHO:two")]);
    body["system"] = json!("You are verbose.");
    assert_eq!(post(&bench, &body).message_text(), "two");
    let asked = bench.model_requests();
    assert!(asked[0].contains("You are terse."), "{}", asked[0]);
    assert!(asked[1].contains("You are verbose."), "{}", asked[1]);
    assert!(!asked[1].contains("You are terse."), "{}", asked[1]);
    let lines = conversation_lines(&asked[1]);
    assert_eq!(lines, ["user: ECHO:one", "assistant: one", "user: ECHO:two"]);
    bench.end();
}

fn three_dialects(bench: DaemonFixture) {
    let chat = json!({"model": "claude/sonnet", "messages": [user("ECHO:hello")]});
    let chat = post_to(&bench, "/v1/chat/completions", &chat);
    assert_eq!(chat.body["choices"][0]["message"]["content"], "hello", "{chat:?}");
    let response = json!({"model": "claude/sonnet", "input": "ECHO:hello"});
    let response = post_to(&bench, "/v1/responses", &response);
    let text = &response.body["output"][0]["content"][0]["text"];
    assert_eq!(*text, Value::from("hello"), "{response:?}");
    let id = &response.body["id"];
    let next = json!({"model": "claude/sonnet", "input": "ECHO:again", "previous_response_id": id});
    let next = post_to(&bench, "/v1/responses", &next);
    assert_eq!(next.session(), response.session());
    bench.end();
}

/// The agent's own transcript is gone: whatever names the conversation, the model is sent all of it.
fn lost_transcript(bench: DaemonFixture) {
    let first = post(&bench, &messages(&[user("ECHO:one")]));
    lose_transcripts(&bench.machine);
    let told = [user("ECHO:one"), assistant("one"), user("ECHO:two")];
    let second = post(&bench, &messages(&told));
    assert_eq!(second.message_text(), "two");
    assert_eq!(second.session(), first.session());
    assert_carried(&bench, &second, &["user: ECHO:one", "assistant: one", "user: ECHO:two"]);

    lose_transcripts(&bench.machine);
    let named = format!("x-angelia-session: {}\r\n", first.session());
    let body = messages(&[user("ECHO:three")]);
    let third = request(&bench, "POST", "/v1/messages", &named, &body);
    assert_eq!(third.message_text(), "three");
    let all = ["user: ECHO:one", "assistant: one", "user: ECHO:two", "assistant: two"];
    assert_carried(&bench, &third, &[&all[..], &["user: ECHO:three"]].concat());

    let body = json!({"model": "claude/sonnet", "input": "ECHO:hello"});
    let response = post_to(&bench, "/v1/responses", &body);
    lose_transcripts(&bench.machine);
    let id = &response.body["id"];
    let body = json!({"model": "claude/sonnet", "input": "ECHO:again", "previous_response_id": id});
    let next = post_to(&bench, "/v1/responses", &body);
    assert_eq!(next.session(), response.session());
    assert_carried(&bench, &next, &["user: ECHO:hello", "assistant: hello", "user: ECHO:again"]);

    let first = bench.machine.turn(&["ECHO:one"]);
    lose_transcripts(&bench.machine);
    let second = bench.machine.turn(&["-s", first.completed().session(), "ECHO:two"]);
    assert_eq!(second.completed().text(), "two");
    assert_eq!(second.first("notice")["code"], "history_carried", "{second:#?}");
    assert_eq!(second.first("turn.started")["resumed"], false);
    let lines = conversation_lines(bench.model_requests().last().unwrap());
    assert_eq!(lines, ["user: ECHO:one", "assistant: one", "user: ECHO:two"]);
    // The new conversation of the agent is resumed as any other.
    let third = bench.machine.turn(&["-s", first.session(), "ECHO:three"]);
    assert!(third.completed().of_type("notice").is_empty(), "{third:#?}");
    bench.end();
}

/// Asserts that the last model request had this conversation, and that the turn says why.
#[track_caller]
fn assert_carried(bench: &DaemonFixture, answer: &PlainResponse, wanted: &[&str]) {
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(conversation_lines(bench.model_requests().last().unwrap()), wanted);
    let path = format!("/api/turns/{}/events", answer.header("x-angelia-turn"));
    let events = request(bench, "GET", &path, "", &Value::Null);
    let events = events.body.as_str().unwrap();
    assert!(events.contains(r#""code":"history_carried""#), "{events}");
    assert!(events.contains(r#""resumed":false"#), "{events}");
}

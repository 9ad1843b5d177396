//! A stateless client's conversation: one model request per turn, in one process.

use serde_json::{Value, json};

use crate::{
    daemon_fixture::{DaemonFixture, on_both},
    post::{assistant, conversation_lines, messages, post, post_to, user},
};

on_both! {
    three_turns super::three_turns;
    regenerated super::regenerated;
    another_prompt super::another_prompt;
    three_dialects super::three_dialects;
}

fn three_turns(bench: DaemonFixture) {
    let first = post(&bench, &messages(&[user("ECHO:one")]));
    assert_eq!(first.text(), "one");
    let mut told = vec![user("ECHO:one"), assistant("one"), user("ECHO:two")];
    let second = post(&bench, &messages(&told));
    assert_eq!(second.text(), "two");
    // The client rewrites the history: blocks for strings, whitespace, invented thinking.
    told[0] = json!({"role": "user", "content": [{"type": "text", "text": "ECHO:one "}]});
    told[1] = json!({"role": "assistant", "content": [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "one\n", "cache_control": {"type": "ephemeral"}},
    ]});
    told.extend([assistant("  two"), user("ECHO:three")]);
    let third = post(&bench, &messages(&told));
    assert_eq!(third.text(), "three");
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
    assert_eq!(again.text(), "two");
    assert_ne!(again.session(), first.session());
    let asked = bench.model_requests();
    let lines = conversation_lines(asked.last().unwrap());
    assert_eq!(lines, ["user: ECHO:one", "assistant: one", "user: ECHO:two"]);
    bench.end();
}

fn another_prompt(bench: DaemonFixture) {
    let mut body = messages(&[user("ECHO:one")]);
    body["system"] = json!("You are terse.");
    assert_eq!(post(&bench, &body).text(), "one");
    let mut body = messages(&[user("ECHO:one"), assistant("one"), user("ECHO:two")]);
    body["system"] = json!("You are verbose.");
    assert_eq!(post(&bench, &body).text(), "two");
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

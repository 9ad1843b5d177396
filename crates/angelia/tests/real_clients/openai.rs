//! Clients of Chat Completions and of Responses.

use crate::daemon_fixture::{DaemonFixture, on_both};

on_both! {
    chat_python |bench| bench.run_whole_script("openai_chat.py");
    chat_typescript |bench| bench.run_whole_script("openai_chat.mjs");
    responses_python |bench| bench.run_whole_script("openai_responses.py");
    responses_typescript |bench| bench.run_whole_script("openai_responses.mjs");
    litellm |bench| bench.run_whole_script("openai_litellm.py");
    langchain_chat |bench| super::one_way(bench, "openai_langchain.py", "chat");
    langchain_responses |bench| super::one_way(bench, "openai_langchain.py", "responses");
    ai_sdk_responses |bench| super::one_way(bench, "openai_ai_sdk.mjs", "responses");
    ai_sdk_chat |bench| super::one_way(bench, "openai_ai_sdk.mjs", "chat");
    ai_sdk_compatible |bench| super::one_way(bench, "openai_ai_sdk.mjs", "compatible");
    llm |bench| bench.run_whole_script("openai_llm.py");
    chat_conversation |bench| super::costs_three(bench, "openai_chat.py", "conversation");
    items_conversation
        |bench| super::costs_three(bench, "openai_responses.py", "conversation_by_items");
    named_conversation
        |bench| super::costs_three(bench, "openai_responses.py", "conversation_by_id");
    instructed_once super::what_came_first_stays;
}

/// Runs a whole script in one of the several API styles that it supports.
fn one_way(bench: DaemonFixture, script: &str, way: &str) {
    let scenarios = "plain streamed conversation tools image schema errors cancel";
    let scenarios: Vec<String> =
        scenarios.split(' ').map(|scenario| format!("{way}_{scenario}")).collect();
    let scenarios: Vec<&str> = scenarios.iter().map(String::as_str).collect();
    bench.script(script, &scenarios);
    bench.model_saw_the_picture();
    bench.model_was_left_alone();
    bench.end();
}

/// Three turns give three model requests and one process, however the client carries the history.
fn costs_three(bench: DaemonFixture, script: &str, scenario: &str) {
    bench.script(script, &[scenario]);
    assert_eq!(bench.model_requests().len(), 3);
    assert_eq!(bench.agents(), 1);
    bench.end();
}

/// A conversation that is continued by its id keeps its original instructions.
fn what_came_first_stays(bench: DaemonFixture) {
    bench.script("openai_responses.py", &["instructed_once"]);
    let asked = bench.model_requests();
    assert_eq!(asked.len(), 2);
    assert!(asked.iter().all(|body| body.contains("Speak like a pirate.")));
    assert_eq!(bench.agents(), 1);
    bench.end();
}

//! The caller's tools: the call ends the answer, the agent waits, the result goes to the same agent.

use angelia_core::{
    model::{Failure, FailureKind},
    ports::AgentOutcome,
};
use serde_json::{Value, json};

use crate::harness::{
    DEADLINE, ModelApiHarness, ModelApiRequest, call, format_history, input_text, next_tool_result,
    tool, user,
};

fn calls(ids: &[&str]) -> Value {
    let calls: Vec<Value> = ids
        .iter()
        .map(|id| json!({"id": id, "type": "function", "function": {"name": "find", "arguments": "{\"city\": \"Paris\"}"}}))
        .collect();
    json!({"role": "assistant", "content": null, "tool_calls": calls})
}

fn output(id: &str, text: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": text})
}

fn ask(messages: impl Into<Vec<Value>>) -> ModelApiRequest {
    ModelApiRequest::new(messages).with("tools", json!([tool("find")]))
}

#[tokio::test]
async fn results_resume_the_same_agent_in_the_same_turn() {
    for stream in [false, true] {
        let stage = ModelApiHarness::new();
        let begin = ask([user("weather?")]).with("stream", stream);
        let answer = stage.send(&begin);
        let mut run = stage.run().await;
        assert_eq!(run.spec.caller_tools.len(), 1);
        call(&run, &["t1", "t2"], "find").await;
        let one = answer.await.unwrap();
        if stream {
            assert!(one.text.contains("\"finish_reason\":\"tool_calls\""), "{one:?}");
            assert_eq!(one.trailers["x-angelia-status"], "awaiting_tool_result");
        } else {
            let choice = &one.json()["choices"][0];
            assert_eq!(choice["finish_reason"], "tool_calls");
            assert_eq!(choice["message"]["tool_calls"][1]["id"], "t2");
            assert_eq!(one.header("x-angelia-status"), "awaiting_tool_result");
        }

        let results = ask([
            user("weather?"),
            calls(&["t1", "t2"]),
            output("t1", "sunny"),
            output("t2", "rainy"),
            user("be quick"),
        ]);
        let answer = stage.send(&results.clone().with("stream", stream));
        assert_eq!(next_tool_result(&mut run).await, "t1: sunny");
        // Text beside tool results is passed on inside the last result.
        assert_eq!(next_tool_result(&mut run).await, "t2: rainy|be quick");
        run.emit_answer(0, "mixed").await;
        run.complete("mixed");
        let two = answer.await.unwrap();
        assert_eq!((two.session(), two.turn()), (one.session(), one.turn()));
        let said = if stream { two.streamed() } else { two.content() };
        assert_eq!(said, "mixed");

        // The conversation continues.
        let mut messages = results.body["messages"].as_array().unwrap().clone();
        messages.extend([json!({"role": "assistant", "content": "mixed"}), user("thanks")]);
        let three = stage.run_turn(&ask(messages), "welcome").await;
        assert_eq!(three.session(), one.session());
        assert_eq!(stage.agents_opened(), 1);
    }
}

#[tokio::test]
async fn text_without_the_result_interrupts_and_branches() {
    let stage = ModelApiHarness::new();
    let answer = stage.send(&ask([user("weather?")]));
    let run = stage.run().await;
    call(&run, &["t1"], "find").await;
    let one = answer.await.unwrap();
    let answer = stage.send(&ask([user("weather?"), calls(&["t1"]), user("never mind")]));
    tokio::time::timeout(DEADLINE, run.io.cancel.cancelled()).await.unwrap();
    let other = stage.run().await;
    assert_eq!(format_history(&other.spec.history)[0], "user: weather?");
    assert_eq!(input_text(&other), "never mind");
    other.complete("fine");
    assert_ne!(answer.await.unwrap().session(), one.session());
}

#[tokio::test]
async fn results_for_nobody_are_carried_with_the_history() {
    let stage = ModelApiHarness::new();
    let answer = stage.send(&ask([user("weather?"), calls(&["t1"]), output("t1", "sunny")]));
    let run = stage.run().await;
    let history = ["user: weather?", "assistant: <find t1>", "user: <t1: sunny>"];
    assert_eq!(format_history(&run.spec.history), history);
    assert_eq!(input_text(&run), "Go on with the results of your tools.");
    run.complete("It is sunny.");
    assert_eq!(answer.await.unwrap().content(), "It is sunny.");
}

#[tokio::test]
async fn results_that_are_sent_again_are_given_once() {
    let stage = ModelApiHarness::new();
    let answer = stage.send(&ask([user("weather?")]));
    let mut run = stage.run().await;
    call(&run, &["t1"], "find").await;
    answer.await.unwrap();
    let results = ask([user("weather?"), calls(&["t1"]), output("t1", "sunny")]);
    let first = stage.send(&results);
    assert_eq!(next_tool_result(&mut run).await, "t1: sunny");
    let retry = stage.send(&results.clone().header("x-stainless-retry-count", "1"));
    run.emit_answer(0, "nice").await;
    run.complete("nice");
    let (first, retry) = (first.await.unwrap(), retry.await.unwrap());
    assert_eq!(first.turn(), retry.turn());
    assert_eq!((first.content(), retry.content()), ("nice".to_owned(), "nice".to_owned()));
    assert_eq!(stage.agents_opened(), 1);
}

#[tokio::test]
async fn a_response_takes_results_by_its_name() {
    let stage = ModelApiHarness::new();
    let tools = json!([{"type": "function", "name": "find", "parameters": {"type": "object"}}]);
    let begin = json!({"model": "puppet/wood", "input": "weather?", "tools": tools});
    let answer = stage.send(&ModelApiRequest::responses(begin));
    let mut run = stage.run().await;
    call(&run, &["t1"], "find").await;
    let one = answer.await.unwrap();
    let id = one.json()["id"].clone();
    let next = json!({"model": "puppet/wood", "previous_response_id": id, "tools": tools,
        "input": [{"type": "function_call_output", "call_id": "t1", "output": "sunny"}]});
    let answer = stage.send(&ModelApiRequest::responses(next));
    assert_eq!(next_tool_result(&mut run).await, "t1: sunny");
    run.emit_answer(0, "nice").await;
    run.complete("nice");
    let two = answer.await.unwrap();
    assert_eq!(two.turn(), one.turn());
    assert_ne!(two.json()["id"], id);
}

#[tokio::test]
async fn a_process_that_died_while_it_waited_is_replaced() {
    let stage = ModelApiHarness::new();
    let answer = stage.send(&ask([user("weather?")]));
    let mut run = stage.run().await;
    call(&run, &["t1"], "find").await;
    answer.await.unwrap();
    let results = ask([user("weather?"), calls(&["t1"]), output("t1", "sunny")]);
    let answer = stage.send(&results);
    next_tool_result(&mut run).await;
    let died = Failure::new(FailureKind::Agent, "it died");
    run.retire(AgentOutcome::failed(died));
    let other = stage.run().await;
    let history = ["user: weather?", "assistant: <find t1>", "user: <t1: sunny>"];
    assert_eq!(format_history(&other.spec.history), history);
    other.complete("It is sunny.");
    assert_eq!(answer.await.unwrap().content(), "It is sunny.");
}

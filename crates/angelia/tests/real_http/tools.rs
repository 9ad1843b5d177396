//! The caller's tools through the real program, which waits for the results in the same process.

use serde_json::{Value, json};

use crate::{
    agent_processes,
    daemon_fixture::{DaemonFixture, on_both},
    machine::until,
    post::{PlainResponse, conversation_lines, messages, post, user},
};

const CALL: &str = r#"TOOL:{"name":"mcp__client__find","input":{"city":"Paris"}}:END"#;
const CALLS: &str = r#"TOOL:[{"name":"mcp__client__find","input":{"city":"Paris"}},{"name":"mcp__client__find","input":{"city":"Rome"}}]:END"#;

fn tool(name: &str) -> Value {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    json!({"name": name, "description": "finds the weather", "input_schema": schema})
}

fn ask(told: &[Value]) -> Value {
    let mut body = messages(told);
    body["tools"] = json!([tool("find")]);
    body
}

/// Returns the tool calls of an answer.
fn calls(answer: &PlainResponse) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.body["stop_reason"], "tool_use", "{answer:?}");
    let blocks = answer.body["content"].as_array().unwrap().iter();
    let calls = blocks.filter(|block| block["type"] == "tool_use");
    calls.cloned().collect()
}

fn results(calls: &[Value]) -> Value {
    let results: Vec<Value> = calls
        .iter()
        .map(|call| {
            let text = format!("sunny in {}", call["input"]["city"].as_str().unwrap());
            json!({"type": "tool_result", "tool_use_id": call["id"], "content": text})
        })
        .collect();
    json!({"role": "user", "content": results})
}

fn assistant_message(answer: &PlainResponse) -> Value {
    json!({"role": "assistant", "content": answer.body["content"]})
}

fn one_round(bench: &DaemonFixture, prompt: &str, count: usize) -> (Vec<Value>, PlainResponse) {
    let first = post(bench, &ask(&[user(prompt)]));
    let called = calls(&first);
    assert_eq!(called.len(), count, "{first:?}");
    assert_eq!(called[0]["name"], "find");
    let told = vec![user(prompt), assistant_message(&first), results(&called)];
    (told, first)
}

on_both! {
    a_call super::a_call;
    two_calls_at_once super::two_calls_at_once;
    a_lost_process super::a_lost_process;
    other_tools super::other_tools;
    a_restart_waits_for_a_result super::a_restart_waits_for_a_result;
    a_restart_now_does_not super::a_restart_now_does_not;
}

fn a_call(bench: DaemonFixture) {
    let (told, first) = one_round(&bench, CALL, 1);
    let second = post(&bench, &ask(&told));
    assert_eq!(second.status, 200, "{second:?}");
    assert_eq!(second.header("x-angelia-turn"), first.header("x-angelia-turn"));
    let asked = bench.model_requests();
    assert_eq!(asked.len(), 2);
    assert!(asked[1].contains("sunny in Paris"), "{}", asked[1]);
    assert_eq!(bench.agents(), 1);
    bench.end();
}

fn two_calls_at_once(bench: DaemonFixture) {
    let (told, _) = one_round(&bench, CALLS, 2);
    let second = post(&bench, &ask(&told));
    assert_eq!(second.status, 200, "{second:?}");
    let asked = bench.model_requests();
    assert_eq!(asked.len(), 2);
    for city in ["Paris", "Rome"] {
        assert!(asked[1].contains(&format!("sunny in {city}")), "{}", asked[1]);
    }
    bench.end();
}

fn a_lost_process(bench: DaemonFixture) {
    let (told, _) = one_round(&bench, CALL, 1);
    for pid in agent_processes::agent_pids(&bench.machine) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        // The process may be the child of another killed one, and already gone.
        let _gone = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
    let second = post(&bench, &ask(&told));
    assert_eq!(second.status, 200, "{second:?}");
    let asked = bench.model_requests();
    let lines = conversation_lines(asked.last().unwrap());
    let history: Vec<&str> = lines.iter().map(|line| line.split(':').next().unwrap()).collect();
    assert_eq!(history[..3], ["user", "assistant", "user"], "{lines:?}");
    assert!(lines.concat().contains("sunny in Paris"), "{lines:?}");
    bench.end();
}

fn other_tools(bench: DaemonFixture) {
    let first = post(&bench, &ask(&[user("ECHO:one")]));
    let mut body = messages(&[user("ECHO:one"), assistant_message(&first), user("ECHO:two")]);
    body["tools"] = json!([tool("seek")]);
    assert_eq!(post(&bench, &body).message_text(), "two");
    let asked = bench.model_requests();
    let last = asked.last().unwrap();
    assert!(last.contains("mcp__client__seek"), "{last}");
    assert!(!last.contains("mcp__client__find"), "{last}");
    let lines = conversation_lines(last);
    assert_eq!(lines, ["user: ECHO:one", "assistant: one", "user: ECHO:two"]);
    bench.end();
}

fn a_restart_waits_for_a_result(bench: DaemonFixture) {
    let (told, first) = one_round(&bench, CALL, 1);
    let restarting = bench.machine.start(&["restart"]);
    let turn = first.header("x-angelia-turn");
    until("it says what it waits for", || restarting.stderr().contains(turn));
    assert!(restarting.stderr().contains("waits for a tool of its caller"));
    let refused = post(&bench, &ask(&[user("ECHO:new")]));
    assert_eq!((refused.status, refused.header("retry-after").is_empty()), (503, false));
    let second = post(&bench, &ask(&told));
    assert_eq!(second.status, 200, "{second:?}");
    assert_eq!(second.header("x-angelia-turn"), turn);
    restarting.wait().assert_code(0).assert_stdout("has restarted");
    assert_eq!(post(&bench, &ask(&[user("ECHO:new")])).message_text(), "new");
    bench.end();
}

/// The result arrives at the new daemon, which finds the history and gives it to a new process.
fn a_restart_now_does_not(bench: DaemonFixture) {
    let (told, first) = one_round(&bench, CALL, 1);
    bench.machine.angelia(&["restart", "--now"]).assert_code(0).assert_stdout("has restarted");
    let turn = first.header("x-angelia-turn");
    let shown = bench.machine.angelia(&["turns", "show", "--json", turn]);
    let shown: Value = serde_json::from_str(&shown.assert_code(0).stdout).unwrap();
    assert_eq!(shown["status"], "failed", "{shown:#}");
    assert_eq!(shown["failure"]["kind"], "unavailable", "{shown:#}");
    let second = post(&bench, &ask(&told));
    assert_eq!(second.status, 200, "{second:?}");
    bench.end();
}

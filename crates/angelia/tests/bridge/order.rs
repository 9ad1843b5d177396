//! B13: the order of events depends only on the turn.

use serde_json::Value;

use crate::{
    host::{Host, NATIVE},
    machine::Machine,
};

const RUNS: usize = 100;
const PROMPT: &str = "first\n!think a little\n!tool Read\n!words 7\n!tool Edit\n!ask rm x\n\
    !question\nlast 🇫🇷";

/// Removes the values that differ from run to run: identifiers, times, and hashes of paths.
fn normalize(events: &[Value]) -> String {
    let mut text = String::new();
    let mut names: Vec<String> = Vec::new();
    for event in events {
        let mut event = event.clone();
        hide(&mut event, &mut names);
        text.push_str(&event.to_string());
        text.push('\n');
    }
    text
}

/// Replaces identifiers with numbers, in the order of their first occurrence.
fn hide(value: &mut Value, names: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                match value {
                    Value::String(text) if name.ends_with("_id") => {
                        let known = names.iter().position(|known| known == text);
                        let number = known.unwrap_or_else(|| {
                            names.push(text.clone());
                            names.len() - 1
                        });
                        *text = format!("id {number}");
                    }
                    Value::String(text) if name.ends_with("_at") => text.clear(),
                    Value::Null if name == "model" => *value = "parrot".into(),
                    value => hide(value, names),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|value| hide(value, names)),
        _ => {}
    }
}

/// Runs one turn and answers its questions.
fn run_and_answer(host: &mut Host, number: usize) -> String {
    let request_id = format!("r{number}");
    let session = format!("s{}", number % 10);
    host.send(&crate::host::run_request(&request_id, &session, PROMPT));
    let mut events = Vec::new();
    loop {
        let event = host.next();
        match event["type"].as_str().unwrap() {
            "approval_requested" => {
                let mut answer = serde_json::json!({"type": "approve", "verdict": "once",
                    "approval_id": event["approval_id"]});
                if event["kind"] == "question" {
                    let question = event["questions"][0]["text"].as_str().unwrap();
                    answer["answers"] = serde_json::json!({question: "Green"});
                }
                host.send(&answer);
                events.push(event);
            }
            "final" => {
                events.push(event);
                return normalize(&events);
            }
            _ => events.push(event),
        }
    }
}

#[test]
fn b13_a_hundred_runs_tell_the_same_in_every_mode() {
    let modes: [&[&str]; 3] = [&NATIVE, &["--assistant-delta"], &[]];
    for flags in modes {
        let machine = Machine::new();
        let mut host = Host::start(&machine, flags);
        let first = run_and_answer(&mut host, 0);
        assert!(first.contains("Green") && first.contains("rm x"), "{first}");
        for number in 1..RUNS {
            let again = run_and_answer(&mut host, number);
            assert!(again == first, "run {number} of {flags:?}:\n{again}\n--- not\n{first}");
        }
        host.shut_down();
    }
}

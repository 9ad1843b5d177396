//! `angelia providers`: what it lists, and what it finds out from servers on loopback.

use angelia_testkit::plain_server::{PlainAnswer, PlainServer};
use serde_json::{Value, json};

use crate::machine::{Machine, ProgramOutput};

fn entries(ran: &ProgramOutput) -> Vec<Value> {
    ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn listing() -> PlainAnswer {
    PlainAnswer::Json(200, r#"{"data":[{"id":"m","max_model_len":4096}]}"#.to_owned())
}

#[test]
fn the_list_has_the_built_in_providers_and_the_owners() {
    let mut machine = Machine::new();
    machine.set("OPENAI_API_KEY", "a-key-of-this-test");
    machine.configure(
        "\
providers:
  home:
    api: chat
    base_url: http://127.0.0.1:9/v1
    keys: [{command: [pass, show]}, {file: ~/no-such-file}]
    models: {m: {context: 4096, price: {input: 1, output: 2}}}
profiles:
  other: {executor: native, model: openai/gpt-5.5}
",
    );
    let ran = machine.angelia(&["providers", "list", "--json"]);
    ran.assert_code(0);
    let entries = entries(&ran);
    let names: Vec<&str> = entries.iter().map(|entry| entry["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "anthropic",
            "deepseek",
            "gemini",
            "home",
            "llamacpp",
            "lmstudio",
            "ollama",
            "openai",
            "openrouter",
            "vllm",
            "xai"
        ]
    );
    let expected = json!({"name": "home", "api": "chat", "base_url": "http://127.0.0.1:9/v1",
        "configured": true,
        "keys": [{"source": "command pass show", "set": null},
            {"source": format!("file {}", machine.place.home().join("no-such-file").display()), "set": false}],
        "models": [{"id": "m", "context": 4096, "context_source": "config", "output": null,
            "price": {"input": 1.0, "output": 2.0, "cache_read": 1.0, "cache_write": 1.0}}]});
    assert_eq!(entries[3], expected);
    assert_eq!(entries[7]["keys"], json!([{"source": "env OPENAI_API_KEY", "set": true}]));
    assert_eq!(entries[7]["models"][0]["context"], 272_000);
    assert_eq!((&entries[6]["configured"], &entries[6]["keys"]), (&json!(false), &json!([])));
    let table = machine.angelia(&["providers", "list"]);
    table.assert_code(0).assert_stdout("env OPENAI_API_KEY (set)").assert_stdout("none needed");
    assert!(!table.stdout.contains("a-key-of-this-test"), "{}", table.stdout);
}

#[test]
fn a_check_says_what_works_and_exits_accordingly() {
    let mut machine = Machine::new();
    machine.set("GOOD_KEY", "the-good-key-of-this-test");
    machine.angelia(&["providers", "check"]).assert_code(69).assert_stderr("providers list");
    machine.angelia(&["providers", "check", "nobody"]).assert_code(2).assert_stderr("use one of");
    machine.angelia(&["providers", "check", "azure"]).assert_code(2).assert_stderr("base_url");

    let good = PlainServer::start([("GET /v1/models", listing())]);
    let refusal = r#"{"error":{"message":"that key is wrong"}}"#.to_owned();
    let bad = PlainServer::start([("GET /v1/models", PlainAnswer::Json(401, refusal))]);
    machine.configure(&format!(
        "\
providers:
  good: {{api: chat, base_url: '{}/v1', keys: [{{env: GOOD_KEY}}], models: {{m: {{}}}}}}
  bad: {{api: chat, base_url: '{}/v1', keys: [{{env: GOOD_KEY}}]}}
  none: {{api: chat, base_url: '{}/v1', keys: [{{env: NO_KEY}}]}}
  down: {{api: chat, base_url: 'http://127.0.0.1:9/v1'}}
  pool: {{api: chat, base_url: '{}/v1', keys: [{{env: NO_KEY}}, {{env: GOOD_KEY}}]}}
",
        good.address(),
        bad.address(),
        good.address(),
        good.address(),
    ));
    machine
        .angelia(&["providers", "check", "pool"])
        .assert_code(0)
        .assert_stdout("env NO_KEY: missing")
        .assert_stdout("env GOOD_KEY: accepted ");
    let ran = machine.angelia(&["providers", "check", "good", "--json"]);
    ran.assert_code(0);
    let mut entry = entries(&ran).remove(0);
    entry["elapsed_ms"].take();
    assert!(entry["key_fingerprint"].take().as_str().unwrap().len() == 8);
    assert!(entry["keys"][0]["fingerprint"].take().as_str().unwrap().len() == 8);
    let expected = json!({"name": "good", "base_url": format!("{}/v1", good.address()),
        "reachable": true, "elapsed_ms": null, "key": "accepted", "key_fingerprint": null,
        "keys": [{"source": "env GOOD_KEY", "state": "accepted", "fingerprint": null}],
        "problem": null, "models": [{"id": "m", "context": 4096, "context_source": "server",
        "output": null}]});
    assert_eq!(entry, expected);
    let shown = machine.angelia(&["providers", "check", "good"]);
    shown.assert_code(0).assert_stdout("✓ good").assert_stdout("m: 4096 tokens, as it says");
    machine
        .angelia(&["providers", "check", "bad"])
        .assert_code(77)
        .assert_stdout("that key is wrong");
    machine.angelia(&["providers", "check", "none"]).assert_code(77).assert_stdout("`NO_KEY`");
    machine.angelia(&["providers", "check", "down"]).assert_code(69).assert_stdout("no connection");
    let all = machine.angelia(&["providers", "check", "--json"]);
    all.assert_code(77);
    let states: Vec<_> = entries(&all).iter().map(|entry| entry["key"].clone()).collect();
    assert_eq!(states, ["refused", "unknown", "accepted", "missing", "accepted"]);
    assert!(!all.stdout.contains("the-good-key"), "{}", all.stdout);
}

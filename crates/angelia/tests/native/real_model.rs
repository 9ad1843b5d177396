//! A real model: llama.cpp's server with `SmolLM2`, in each API. The model is too small to call tools;
//! what it can show is streaming, caching, overflow, slow reading of a prompt, and the record.

use std::time::{Duration, Instant};

use angelia_executors::native::provider::Api;
use angelia_testkit::{llama_server::LlamaServer, recording_relay::RecordingRelay};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    machine::{Machine, RunningCommand, until},
    provider_config::configuration,
    transcript::Transcript,
};

fn base_url(server: &LlamaServer, api: Api) -> String {
    match api {
        Api::Messages => server.base_url(),
        Api::Chat | Api::Responses => server.openai_base_url(),
    }
}

/// The model writes ten tokens a second on a quiet machine, and much fewer on a busy one.
const LIMIT: Duration = Duration::from_mins(3);

/// A machine whose profile has no tools and short answers. An answer at the limit of output is
/// continued three times.
fn machine(server: &LlamaServer, api: Api) -> Machine {
    let machine = Machine::with_shell();
    let settings = json!({"mode": "model", "max_output_tokens": 4,
        "first_event_timeout": "10m", "inter_event_silence_timeout": "10m"});
    machine.configure(&configuration(api, &base_url(server, api), &settings));
    machine
}

fn run(machine: &Machine, arguments: &[&str]) -> Transcript {
    let running = machine.start(&[&["run", "--json"], arguments].concat());
    Transcript::read(&running.wait_within(LIMIT).stdout)
}

fn usage(turn: &Transcript) -> &Value {
    &turn.end()["usage"]
}

#[test]
fn it_answers_in_every_api_and_what_it_has_read_is_cached() {
    let server = LlamaServer::start(2048).unwrap();
    for api in Api::ALL {
        let machine = machine(&server, api);
        let first = run(&machine, &["Name the three primary colours, one per line."]);
        let deltas = first.of_type("text.delta");
        assert!(deltas.len() > 1, "{api:?}: it is streamed: {first:#?}");
        assert!(!first.text().trim().is_empty(), "{api:?}: {first:#?}");
        assert!(usage(&first)["output_tokens"].as_u64().unwrap() > 0, "{api:?}: {first:#?}");
        assert_eq!(usage(&first)["lane"], "local", "{api:?}: {first:#?}");

        let second = run(&machine, &["-s", first.session(), "And one more colour?"]);
        let cached = usage(&second)["cache_read_tokens"].as_u64().unwrap();
        assert!(cached > 10, "{api:?}: the server had read it before: {:#}", usage(&second));
    }
}

#[test]
fn a_conversation_that_is_too_long_is_told_as_such() {
    let server = LlamaServer::start(256).unwrap();
    for api in Api::ALL {
        let machine = machine(&server, api);
        let long = "every word counts ".repeat(400);
        let ran = machine.angelia(&["run", "--json", &long]);
        let turn = Transcript::read(&ran.stdout);
        let failure = turn.failed("invalid");
        let words = failure["message"].as_str().unwrap();
        assert!(words.contains("256") && words.contains("context"), "{api:?}: {failure:#}");
        assert_ne!(ran.status.code(), Some(0), "{api:?}");
    }
}

/// Returns the messages of a request, as they were sent.
fn sent_messages(request: &str) -> Vec<String> {
    let body: Value = serde_json::from_str(request).unwrap();
    let list = if body["input"].is_array() { "input" } else { "messages" };
    let is_system = |entry: &&Value| entry["role"] == "system" || entry["role"] == "developer";
    let entries = body[list].as_array().unwrap().iter().filter(|entry| !is_system(entry));
    entries.map(Value::to_string).collect()
}

#[test]
fn e17_three_compactions_of_one_conversation_leave_its_head_as_it_is() {
    let server = LlamaServer::start(4096).unwrap();
    let api = Api::Chat;
    let relay = RecordingRelay::start(server.address().to_string());
    let machine = Machine::with_shell();
    let settings = json!({"tools": "none", "max_output_tokens": 16,
        "first_event_timeout": "10m", "inter_event_silence_timeout": "10m"});
    let address = format!("http://{}/v1", relay.address());
    machine.configure(&configuration(api, &address, &settings));

    let first = run(&machine, &["My name is Ada, and I write about the sea. Greet me."]);
    let session = first.session();
    let mut compactions = 0;
    for number in 1..30 {
        let text = format!("Note {number}. {}", "The sea is deep and blue today. ".repeat(110));
        let turn = run(&machine, &["-s", session, &text]);
        assert!(!turn.completed().text().trim().is_empty(), "{turn:#?}");
        let notices = turn.of_type("notice");
        let codes: Vec<&str> = notices.iter().filter_map(|one| one["code"].as_str()).collect();
        assert!(!codes.contains(&"compaction_failed"), "{notices:#?}");
        compactions += codes.iter().filter(|code| **code == "compacted").count();
        if compactions == 3 {
            break;
        }
    }
    assert_eq!(compactions, 3);

    let exchanges = relay.exchanges();
    let head = &sent_messages(&exchanges[1].request)[..3];
    for exchange in &exchanges[1..] {
        assert_eq!(exchange.status, 200, "{exchange:#?}");
        let messages = sent_messages(&exchange.request);
        assert_eq!(&messages[..3], head, "{exchange:#?}");
        let summaries = messages.iter().filter(|one| one.contains("replaced by this summary"));
        assert!(summaries.count() <= 1, "{exchange:#?}");
    }
    let last = sent_messages(&exchanges.last().unwrap().request);
    assert!(last.iter().any(|one| one.contains("replaced by this summary")), "{last:#?}");
}

#[test]
fn it_is_interrupted_while_it_reads_the_prompt() {
    let server = LlamaServer::start(2048).unwrap();
    let machine = machine(&server, Api::Chat);
    let long = "every word counts ".repeat(500);
    let running = machine.start(&["run", "--json", &long]);
    running.wait_for_stdout("turn.started");
    until("the server reads the prompt", || is_reading(&server));
    let begun = Instant::now();
    running.signal(Signal::INT);
    let ended = running.wait();
    let took = begun.elapsed();
    let turn = Transcript::read(&ended.stdout);
    assert_eq!(turn.end()["status"], "interrupted", "{turn:#?}");
    assert!(took < Duration::from_secs(5), "it took {took:?}");
    // The server notices that nobody waits for the answer, and is free for the next one.
    let next = run(&machine, &["Say yes."]);
    assert!(!next.text().trim().is_empty(), "{next:#?}");
}

/// Reports whether the server is busy with a request.
fn is_reading(server: &LlamaServer) -> bool {
    let slots = server.get("/slots").unwrap();
    slots
        .body
        .as_array()
        .is_some_and(|slots| slots.iter().any(|slot| slot["is_processing"] == true))
}

#[test]
fn a_session_goes_on_after_a_kill() {
    let server = LlamaServer::start(2048).unwrap();
    let machine = machine(&server, Api::Chat);
    let first = run(&machine, &["My name is Ada. Greet me."]);
    let session = first.session();
    let arguments = ["run", "--json", "-s", session, "Now tell a long story about the sea."];
    let running: RunningCommand = machine.start(&arguments);
    running.wait_for_stdout("text.delta");
    running.signal(Signal::KILL);
    running.wait();

    let third = run(&machine, &["-s", session, "What is my name?"]);
    assert!(!third.text().trim().is_empty(), "{third:#?}");
    let cached = usage(&third)["cache_read_tokens"].as_u64().unwrap();
    assert!(cached > 20, "the conversation is the same to the byte: {:#}", usage(&third));
    let turns = machine.export(session);
    assert_eq!(turns.len(), 3);
    turns.iter().for_each(Transcript::ends_once);
    assert_eq!(turns[1].end()["status"], "failed", "{:#?}", turns[1]);
}

#[test]
fn its_server_is_set_up_and_answers() {
    let server = LlamaServer::start(2048).unwrap();
    let machine = Machine::with_shell();
    let setup = ["setup", "llamacpp", "--url", &server.base_url()];
    machine.angelia(&setup).assert_code(0).assert_stdout("2048").assert_stdout("executor: native");
    let written = machine.angelia(&[&setup[..], &["--write"]].concat());
    written.assert_code(0).assert_stdout("written").assert_stderr("-p llamacpp");
    let checked = machine.angelia(&["providers", "check", "llamacpp"]);
    checked.assert_code(0).assert_stdout("2048 tokens, as it says");
    // The prompt of a plain profile with its tools is longer than this window.
    let config = std::fs::read_to_string(machine.home().join("config.yaml")).unwrap();
    let small = "executor: native\n    mode: model\n    max_output_tokens: 4";
    machine.configure(&config.replace("executor: native", small));
    let turn = run(&machine, &["-p", "llamacpp", "Say hello."]);
    assert!(!turn.text().trim().is_empty(), "{turn:#?}");
    assert_eq!(usage(&turn)["lane"], "local", "{turn:#?}");
    machine.configure(&config);
    machine.angelia(&["setup", "llamacpp", "--undo"]).assert_code(0);
    assert!(!machine.home().join("config.yaml").exists(), "it was Angelia's own file");
}

//! `executor: native` through the program: the record is the conversation, whichever process goes on
//! with it, and the models of providers are open over `/v1`.

use angelia_testkit::model_server::ModelServer;
use serde_json::{Value, json};

use crate::{
    http,
    machine::{ANGELIA, Machine},
};

fn machine(server: &ModelServer) -> Machine {
    let machine = Machine::with_shell();
    machine.configure(&format!(
        "\
providers:
  lab: {{api: messages, base_url: '{}'}}
  chat: {{api: chat, base_url: '{}', models: {{tiny: {{context: 8192}}}}}}
profiles:
  default: {{executor: native, model: lab/tiny, permissions: unattended, sandbox: auto}}
",
        server.base_url(),
        server.openai_base_url(),
    ));
    machine
}

/// Removes the cache marks, which move from request to request.
fn without_marks(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, _)| *name != "cache_control");
            kept.map(|(name, value)| (name.clone(), without_marks(value))).collect()
        }
        Value::Array(items) => items.iter().map(without_marks).collect(),
        other => other.clone(),
    }
}

/// Asserts that each request begins with everything that the one before it said.
fn assert_each_continues_the_last(server: &ModelServer) {
    let requests: Vec<Value> =
        server.model_requests().iter().map(|request| without_marks(&request.json())).collect();
    for pair in requests.windows(2) {
        let messages = |request: &Value| request["messages"].as_array().unwrap().clone();
        let (before, after) = (messages(&pair[0]), messages(&pair[1]));
        assert_eq!(before[..], after[..before.len()], "{pair:#?}");
        for field in ["system", "tools", "model", "max_tokens"] {
            assert_eq!(pair[0][field], pair[1][field], "{field}");
        }
    }
}

fn call(name: &str, input: &Value) -> String {
    format!("TOOL:{}:END", json!({"name": name, "input": input}))
}

#[test]
fn another_process_goes_on_with_the_same_bytes() {
    let server = ModelServer::start().unwrap();
    let machine = machine(&server);
    std::fs::write(machine.work().join("a.txt"), "what is in it\n").unwrap();
    let read = format!("{} THINK ECHO:first", call("read", &json!({"path": "a.txt"})));
    machine.angelia(&["run", "-s", "s", &read]).assert_code(0).assert_stdout("first");
    machine.angelia(&["run", "-s", "s", "THINK ECHO:second"]).assert_code(0);
    let serving = machine.serve();
    machine.angelia(&["run", "-s", "s", "ECHO:third"]).assert_code(0).assert_stdout("third");
    serving.stop();
    machine.angelia(&["run", "-s", "s", "ECHO:fourth"]).assert_code(0).assert_stdout("fourth");
    assert_each_continues_the_last(&server);
    let last = server.model_requests().last().unwrap().json().to_string();
    for said in ["what is in it", "second", "third", "fourth"] {
        assert!(last.contains(said), "{said}: {last}");
    }
}

#[test]
fn commands_run_in_the_sandbox_and_the_model_sees_what_they_say() {
    let server = ModelServer::start().unwrap();
    let machine = machine(&server);
    let secret = machine.place.home().join("secret.txt");
    std::fs::write(&secret, "nobody reads this").unwrap();
    let script = format!("echo inside > made.txt; cat made.txt {}", secret.display());
    let prompt = format!("{} ECHO:done", call("bash", &json!({"command": script})));
    machine.angelia(&["run", &prompt]).assert_code(0).assert_stdout("done");
    let told = server.model_requests().last().unwrap().json().to_string();
    assert!(told.contains("inside"), "{told}");
    assert!(told.contains("Permission denied"), "{told}");
    assert!(!told.contains("nobody reads this"), "{told}");
}

#[test]
fn a_command_does_not_become_the_owner_by_dropping_its_mark() {
    let server = ModelServer::start().unwrap();
    let machine = machine(&server);
    // Without the sandbox, which hides the home as well.
    let config = std::fs::read_to_string(machine.home().join("config.yaml")).unwrap();
    let profile =
        "  open: {executor: native, model: lab/tiny, permissions: unattended, sandbox: off}\n";
    machine.configure(&format!("{config}{profile}"));
    let serving = machine.serve();
    for dropped in ["-u ANGELIA_AGENT", "ANGELIA_AGENT=released", "ANGELIA_AGENT=a:b:command-1"] {
        for command in ["keys add mine", "sessions list", "stop"] {
            let script = format!("exec env {dropped} {ANGELIA} {command}");
            let prompt = format!("{} ECHO:done", call("bash", &json!({"command": script})));
            machine.angelia(&["run", "-p", "open", &prompt]).assert_code(0);
            let told = server.model_requests().last().unwrap().json().to_string();
            assert!(told.contains("an agent's process cannot"), "{script}: {told}");
        }
    }
    machine.angelia(&["keys", "list"]).assert_code(0).assert_stderr("there are no keys");
    serving.stop().assert_code(0);
}

#[test]
fn the_files_of_a_session_go_with_it() {
    let server = ModelServer::start().unwrap();
    let machine = machine(&server);
    let long = call("bash", &json!({"command": "seq 1 20000"}));
    let run = |name| machine.turn(&["-s", name, &format!("{long} ECHO:done")]);
    let (gone, kept) = (run("gone"), run("kept"));
    let folder = |session: &str| machine.home().join("sessions").join(session);
    for session in [gone.session(), kept.session()] {
        assert!(folder(session).join("output").is_dir(), "the whole output is in a file");
    }
    machine.angelia(&["sessions", "delete", "gone"]).assert_code(0);
    assert!(!folder(gone.session()).exists());
    assert!(folder(kept.session()).exists());
    let serving = machine.serve();
    machine.angelia(&["sessions", "delete", "kept"]).assert_code(0);
    assert!(!folder(kept.session()).exists());
    serving.stop();
}

#[test]
fn the_models_of_providers_are_open_over_the_model_apis() {
    let server = ModelServer::start().unwrap();
    let machine = machine(&server);
    let serving = machine.serve();
    let listed = http::request_api(&serving.socket, "GET", "/v1/models", &json!(null));
    let listed = listed.body.to_string();
    for id in ["native/chat/tiny", "native/lab/tiny"] {
        assert!(listed.contains(id), "{listed}");
    }
    let messages = json!([{"role": "user", "content": "ECHO:via the gateway"}]);
    let requests = [
        (
            "/v1/messages",
            json!({"model": "native/chat/tiny", "max_tokens": 99, "messages": messages}),
        ),
        ("/v1/chat/completions", json!({"model": "native/lab/tiny", "messages": messages})),
        ("/v1/responses", json!({"model": "native/lab/tiny", "input": "ECHO:via the gateway"})),
    ];
    for (path, body) in requests {
        let answer = http::request_api(&serving.socket, "POST", path, &body);
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(answer.body.to_string().contains("via the gateway"), "{answer:?}");
    }
    // In model mode, there is no tool but the caller's.
    for request in server.model_requests() {
        assert!(request.offered_tools().is_empty(), "{:?}", request.offered_tools());
    }
    serving.stop();
}

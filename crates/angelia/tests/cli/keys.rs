//! `angelia keys`, and the daemon's messages about keys.

use std::fs;

use serde_json::{Value, json};

use crate::{
    agents::{bind, run_as_agent},
    http,
    machine::{Machine, until},
};

const COMMENTED: &str = "# my own settings
http:
  # nobody else yet
  keys: []
  allowed_hosts: [box.example]   # at home
listen: 127.0.0.1:0
";

fn key_of(machine: &Machine, arguments: &[&str]) -> String {
    let ran = machine.angelia(&[&["keys", "add"], arguments].concat());
    ran.assert_code(0);
    ran.stdout.trim().to_owned()
}

#[test]
fn keys_are_added_listed_and_revoked_in_the_owners_own_file() {
    let machine = Machine::new();
    machine.configure(COMMENTED);
    let key = key_of(
        &machine,
        &[
            "bot",
            "--profiles",
            "parrot,work",
            "--provider",
            "openai",
            "--provider",
            "home",
            "--max-cost-usd-per-day",
            "2.5",
        ],
    );
    assert!(key.starts_with("angelia-") && key.len() > 60, "{key}");
    let text = fs::read_to_string(machine.home().join("config.yaml")).unwrap();
    assert!(text.starts_with("# my own settings\nhttp:\n  # nobody else yet\n"), "{text}");
    assert!(text.contains("allowed_hosts: [box.example]   # at home"), "{text}");
    assert!(!text.contains(&key), "{text}");

    let listed = machine.angelia(&["keys", "list", "--json"]);
    let row: Value = serde_json::from_str(listed.stdout.trim()).unwrap();
    let expected = json!({"name": "bot", "profiles": ["parrot", "work"], "providers": ["openai", "home"],
        "agent_mode": false, "max_cost_usd_per_day": 2.5});
    assert_eq!(row, expected);
    machine.angelia(&["keys", "add", "bot"]).assert_code(2);
    machine.angelia(&["keys", "add", "no name"]).assert_code(2);
    machine.angelia(&["keys", "revoke", "bot"]).assert_code(0);
    machine.angelia(&["keys", "revoke", "bot"]).assert_code(2);
    let text = fs::read_to_string(machine.home().join("config.yaml")).unwrap();
    assert_eq!(text, COMMENTED);
}

#[test]
fn a_file_that_cannot_be_edited_is_left_alone_with_a_hint() {
    for text in [
        "{listen: '127.0.0.1:0'}\n",
        "{\n  listen: '127.0.0.1:0'\n}\n",
        "\"http\": {agent_mode: false}\n",
        "http: {agent_mode: false}\n",
    ] {
        let machine = Machine::new();
        machine.configure(text);
        let ran = machine.angelia(&["keys", "add", "bot"]);
        ran.assert_code(78).assert_stderr("cannot be edited by a program");
        ran.assert_stderr("`http:` and `keys:` on lines of their own").assert_stderr("- name: bot");
        assert_eq!(fs::read_to_string(machine.home().join("config.yaml")).unwrap(), text);
    }
}

#[test]
fn an_agent_cannot_make_keys() {
    let mut machine = Machine::new();
    machine.set("ANGELIA_AGENT", "home:owner:agent");
    let ran = machine.angelia(&["keys", "add", "me"]);
    ran.assert_code(1);
    assert!(ran.stderr.contains("an agent's process"), "{}", ran.stderr);
}

#[test]
fn a_key_opens_the_model_apis_and_nothing_else() {
    let machine = Machine::new();
    let key = key_of(&machine, &["bot", "--profiles", "parrot"]);
    let serving = machine.serve();
    let bearer = format!("authorization: Bearer {key}\r\n");
    assert_eq!(http::get_over_tcp(&machine, "/v1/models", "").status, 401);
    let models = http::get_over_tcp(&machine, "/v1/models", &bearer);
    assert_eq!(models.body["data"][0]["id"], "parrot/default", "{models:?}");
    assert_eq!(http::get_over_tcp(&machine, "/api/sessions", &bearer).status, 403);
    assert_eq!(http::get_over_tcp(&machine, "/readyz", &bearer).status, 200);
    serving.stop().assert_code(0);
}

#[test]
fn what_is_exposed_is_said_and_loudly_when_it_is_new() {
    let machine = Machine::new();
    machine.configure("http: {agent_mode: true}\n");
    let said = |machine: &Machine| {
        let serving = machine.serve();
        let ran = serving.stop();
        ran.assert_code(0);
        let lines = ran.stderr.lines().filter(|line| line.contains("exposed:"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let first = said(&machine);
    assert_eq!(first.len(), 1, "{first:?}");
    assert!(first[0].contains("WARN") && first[0].contains("http.agent_mode"), "{first:?}");
    let second = said(&machine);
    assert!(second[0].contains("INFO"), "{second:?}");
}

#[test]
fn an_address_that_others_reach_needs_keys() {
    let machine = Machine::new();
    let ran = machine.angelia(&["serve", "--listen", "0.0.0.0:0"]);
    ran.assert_code(78);
    assert!(ran.stderr.contains("angelia keys add"), "{}", ran.stderr);
    key_of(&machine, &["bot"]);
    let serving = machine.serve_with(&["--listen", "0.0.0.0:0"]);
    let ran = serving.stop();
    assert!(ran.stderr.contains("unencrypted"), "{}", ran.stderr);
}

#[test]
fn keys_come_and_go_while_the_daemon_runs() {
    let machine = Machine::new();
    let serving = machine.serve();
    let key = key_of(&machine, &["late"]);
    let bearer = format!("authorization: Bearer {key}\r\n");
    let answers = |expected: u16| {
        let status = || http::get_over_tcp(&machine, "/v1/models", &bearer).status;
        until("the keys are read again", || status() == expected);
    };
    let first = http::get_over_tcp(&machine, "/v1/models", &bearer);
    assert_eq!(first.status, 200, "a new key is good at once: {first:?}");
    // A broken file neither removes nor adds a key.
    let text = fs::read_to_string(machine.home().join("config.yaml")).unwrap();
    machine.configure("http: [");
    until("the daemon has seen it", || {
        let said = serving.running.stderr();
        said.contains("the keys stay as they are")
    });
    answers(200);
    machine.configure(&text);
    machine.angelia(&["keys", "revoke", "late"]).assert_code(0);
    answers(401);
}

#[test]
fn what_a_keys_agent_hands_on_is_charged_to_the_key() {
    let machine = Machine::with_shell();
    let work = machine.work();
    let work = work.display();
    machine.configure(&format!(
        "http:\n  agent_mode: true\n  keys: []\nprofiles:\n  \
         worker: {{executor: parrot, cwd: {work}, delegate_to: [helper]}}\n  \
         helper: {{executor: parrot, cwd: {work}}}\n"
    ));
    let rules = "callbacks:\n- {match_type: ask, context: true, profile: helper}\n";
    fs::write(machine.home().join("bus-rules.yaml"), rules).unwrap();
    let key = key_of(&machine, &["bot", "--agent-mode"]);
    let _serving = machine.serve();
    let bearer = format!("authorization: Bearer {key}\r\n");
    let body = json!({"model": "worker", "messages": [{"role": "user", "content": "hello"}]});
    let path = "/v1/chat/completions";
    let answer = http::request_over_tcp(&machine, "POST", path, &body, &bearer);
    assert_eq!(answer.status, 200, "{answer:?}");
    let session = machine.list("sessions")[0]["id"].as_str().unwrap().to_owned();
    let mark = bind(&machine, &session);
    run_as_agent(&machine, &mark, &["run", "-p", "helper", "hello"]).assert_code(0);
    let notify = ["notify", "--to", "angelia", "--type", "ask", "hello"];
    run_as_agent(&machine, &mark, &notify).assert_code(0);
    let usage = || {
        let used = machine.angelia(&["usage", "--by", "key", "--json"]);
        let used: Value = serde_json::from_str(&used.assert_code(0).stdout).unwrap();
        used["data"].as_array().unwrap().clone()
    };
    until("the turn of the message is there", || usage().iter().any(|row| row["turns"] == 3));
    let rows = usage();
    let [row] = &rows[..] else { panic!("{rows:?}") };
    assert!(row["key"].as_str().unwrap().starts_with("key:bot#"), "{row}");
}

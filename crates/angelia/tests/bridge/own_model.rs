//! B18: `--base-url`, `--api-key` and `--model` make a model of this process, through our own loop.

use std::fs;

use angelia_testkit::model_server::{ModelServer, Reply};
use serde_json::json;

use crate::{
    host::{Host, assert_error, assert_final},
    machine::Machine,
};

const KEY: &str = "sk-bridge-key-of-this-test";

#[test]
fn b18_an_address_and_a_model_are_used_for_this_process_only() {
    let server = ModelServer::start().unwrap();
    let mut machine = Machine::new();
    machine.set("ANGELIA_API_KEY", KEY);
    // Neither the daemon nor the file know the model, and the owner's default is another executor.
    machine.configure("profiles: {default: {executor: parrot}, other: {executor: parrot}}");
    let serving = machine.serve();
    let url = server.openai_base_url();
    let mut host = Host::start(&machine, &["--base-url", &url, "--model", "tiny"]);
    let events = host.run("r", "s", "ECHO:from the server");
    assert_eq!(assert_final(&events, "completed")["response"], "from the server");
    assert_eq!(events[0]["model"], "from-flags/tiny");
    let events = host.run("r2", "s", "ECHO:again");
    assert_eq!(assert_final(&events, "completed")["response"], "again");
    // A request may name another model of that server, or another profile.
    let own = json!({"model": "maker/large"});
    assert_final(&host.run_with("r3", "s2", "ECHO:x", own.clone()), "completed");
    assert_final(&host.run_with("r4", "s2", "ECHO:y", own), "completed");
    let events = host.run_with("r5", "s2", "ECHO:z", json!({"model": "tiny"}));
    assert_error(&events, "session_differs");
    let events = host.run_with("r6", "s3", "hello", json!({"profile": "other"}));
    assert_eq!(events[0]["profile"], "other");
    assert_final(&events, "completed");
    host.shut_down();

    let requests = server.model_requests();
    let models: Vec<_> = requests.iter().map(|request| request.json()["model"].clone()).collect();
    assert_eq!(models, ["tiny", "tiny", "maker/large", "maker/large"]);
    for request in &requests {
        assert_eq!(request.path, "/v1/chat/completions");
        assert_eq!(request.header("authorization"), Some(&*format!("Bearer {KEY}")));
    }
    assert!(requests[1].json().to_string().contains("from the server"), "one conversation");
    // The key is nowhere in the home.
    for file in ["config.yaml", "state.db", "state.db-wal"] {
        let bytes = fs::read(machine.home().join(file)).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&bytes).contains(KEY), "{file}");
    }
    serving.stop();
}

#[test]
fn b18_a_key_on_the_command_line_works_and_none_is_sent_without_one() {
    let server = ModelServer::start().unwrap();
    let machine = Machine::new();
    let url = server.openai_base_url();
    let model = ["--base-url", &url, "--model", "tiny", "--once"];
    for (flags, header) in
        [(&["--api-key", KEY][..], Some(format!("Bearer {KEY}"))), (&["--api-key", ""][..], None)]
    {
        let mut host = Host::start(&machine, &[&model[..], flags].concat());
        assert_final(&host.run("r", "s", "ECHO:hi"), "completed");
        assert_eq!(host.wait_for_exit().code, Some(0));
        let last = server.model_requests().pop().unwrap();
        assert_eq!(last.header("authorization"), header.as_deref());
    }
    // A key that the server repeats in its answer is masked.
    server.script([Reply::status_with(401, format!("the key {KEY} is not known"))]);
    let mut host = Host::start(&machine, &[&model[..], &["--api-key", KEY]].concat());
    let end = assert_final(&host.run("r", "s2", "hi"), "failed").to_string();
    assert!(end.contains("is not known") && !end.contains(KEY), "{end}");
    host.wait_for_exit();
}

#[test]
fn b18_iterations_are_requests_of_our_own_loop() {
    let server = ModelServer::start().unwrap();
    let machine = Machine::with_shell();
    machine.configure("executors: {native: {permissions: unattended, sandbox: off}}");
    let url = server.openai_base_url();
    let flags = ["--base-url", &url, "--model", "tiny", "--max-iterations", "2"];
    let mut host = Host::start(&machine, &flags);
    let step = |words: &str| Reply::tool("bash", json!({"command": format!("echo {words}")}));
    server.script([step("one"), step("two"), Reply::text("what there is")]);
    let end = assert_final(&host.run("r", "s", "work"), "partial").clone();
    assert_eq!(
        (&end["reason"], &end["response"]),
        (&json!("max_iterations"), &json!("what there is"))
    );
    assert_eq!(server.model_requests().len(), 3, "two steps and the last answer");
    host.shut_down();
}

#[test]
fn b18_flags_that_do_not_fit_are_refused_with_a_reason() {
    let machine = Machine::new();
    for (flags, words) in [
        (&["--base-url", "http://127.0.0.1:9/v1"][..], "needs --model"),
        (&["--base-url", "ftp://x", "--model", "m"][..], "--base-url"),
        (&["--base-url", "http://x/v1", "--model", "m", "--profile", "p"][..], "--profile"),
        (&["--api-key", KEY][..], "--base-url"),
    ] {
        let ran = machine.angelia(&[&["bridge"], flags].concat());
        ran.assert_code(2).assert_stderr(words);
        assert!(ran.stdout.is_empty() && !ran.stderr.contains(KEY), "{ran:?}");
    }
    // Some hosts always pass them.
    machine.angelia(&["bridge", "--base-url", "", "--api-key", ""]).assert_code(0);
}

//! `angelia setup ollama|llamacpp`: a server of models on this machine becomes a profile, and the
//! configuration comes back to the byte.

use std::fs;

use angelia_testkit::plain_server::{PlainAnswer, PlainServer};
use serde_json::{Value, json};

use crate::machine::Machine;

const CONFIG: &str = "# mine\nprofiles:\n  work:\n    executor: parrot # for now\n";

/// A server that answers as Ollama does.
fn ollama() -> PlainServer {
    let json = |value: &Value| PlainAnswer::Json(200, value.to_string());
    let model =
        |id: &str| json!({"id": id, "object": "model", "created": 1, "owned_by": "library"});
    let tag = |name: &str| json!({"name": name, "model": name, "size": 5_225_388_164_u64});
    let names = ["gemma3:1b", "qwen3:8b"];
    let show = json!({"capabilities": ["completion", "tools", "thinking"],
        "parameters": "num_ctx                        16384\nstop    \"<|im_end|>\"",
        "model_info": {"general.architecture": "qwen3", "qwen3.context_length": 40960}});
    PlainServer::start([
        ("GET /v1/models", json(&json!({"object": "list", "data": names.map(model)}))),
        ("GET /api/tags", json(&json!({"models": names.map(tag)}))),
        ("POST /api/show", json(&show)),
    ])
}

#[test]
fn a_server_is_shown_written_once_used_and_taken_back() {
    let server = ollama();
    let machine = Machine::new();
    machine.configure(CONFIG);
    let file = machine.home().join("config.yaml");
    let read = || fs::read_to_string(&file).unwrap();
    let setup = |more: &[&str]| {
        machine.angelia(&[&["setup", "ollama", "--url", server.address()], more].concat())
    };
    let shown = setup(&[]);
    shown
        .assert_code(0)
        .assert_stdout("qwen3:8b")
        .assert_stdout("16384")
        .assert_stdout("ollama/gemma3:1b");
    shown.assert_stderr("--write").assert_stderr("OLLAMA_CONTEXT_LENGTH");
    assert_eq!(read(), CONFIG, "without a flag nothing is written");

    setup(&["--write", "-m", "qwen3:8b"]).assert_code(0).assert_stdout("written");
    let written = read();
    insta::assert_snapshot!(written.replace(server.address(), "http://SERVER"));
    setup(&["--write", "-m", "qwen3:8b"]).assert_code(0).assert_stdout("nothing to change");
    assert_eq!(read(), written);
    machine.angelia(&["config", "check"]).assert_code(0);
    let listed = machine.angelia(&["providers", "list", "--json"]).stdout;
    let entry = listed.lines().find(|line| line.contains("\"ollama\"")).unwrap();
    assert!(entry.contains("qwen3:8b") && entry.contains(server.address()), "{entry}");
    machine.angelia(&["providers", "check", "ollama"]).assert_code(0).assert_stdout("16384 tokens");

    // The server need not run to be forgotten, and what was changed meanwhile stays.
    fs::write(&file, written.replace("for now", "for good")).unwrap();
    machine
        .angelia(&["setup", "ollama", "--undo"])
        .assert_code(0)
        .assert_stdout("as it was before");
    assert_eq!(read(), CONFIG.replace("for now", "for good"));
    machine.angelia(&["setup", "ollama", "--undo"]).assert_code(0).assert_stdout("nothing to undo");
    let audit = machine.angelia(&["audit"]).stdout;
    assert!(audit.contains("setup ollama in"), "{audit}");
}

#[test]
fn what_is_not_there_is_said_with_what_to_do() {
    let machine = Machine::new();
    for (name, start) in [("ollama", "ollama serve"), ("llamacpp", "llama-server")] {
        let nobody = ["setup", name, "--url", "http://127.0.0.1:9"];
        let ran = machine.angelia(&nobody);
        ran.assert_code(69).assert_stderr("does not answer at http://127.0.0.1:9/v1");
        ran.assert_stderr(start).assert_stderr("--url");
        machine.angelia(&[&nobody[..], &["--write"]].concat()).assert_code(69);
    }
    assert!(!machine.home().join("config.yaml").exists());
    let empty = r#"{"object":"list","data":[]}"#.to_owned();
    let empty = PlainServer::start([("GET /v1/models", PlainAnswer::Json(200, empty))]);
    let ran = machine.angelia(&["setup", "ollama", "--url", empty.address()]);
    ran.assert_code(69).assert_stderr("has no model").assert_stderr("ollama pull");
    // Something else listens there.
    let other = PlainServer::start([]);
    let ran = machine.angelia(&["setup", "llamacpp", "--url", other.address()]);
    ran.assert_code(69).assert_stderr("no list of models");
    let server = ollama();
    let ran = machine.angelia(&["setup", "ollama", "--url", server.address(), "-m", "nope"]);
    ran.assert_code(2).assert_stderr("gemma3:1b, qwen3:8b");
    machine.angelia(&["setup", "ollama", "--url", "ftp://x"]).assert_code(2).assert_stderr("--url");
}

#[test]
fn settings_of_the_owner_are_never_replaced() {
    let server = ollama();
    let machine = Machine::new();
    for (config, code, words) in [
        ("profiles:\n  ollama: {executor: parrot}\n", 1, "`profiles.ollama` stays"),
        ("providers: {ollama: {models: {a: {}}}}\n", 1, "`providers.ollama` stays"),
        ("profiles: {work: {executor: parrot}}\n", 78, "`profiles` is not written as a block"),
    ] {
        machine.configure(config);
        let ran = machine.angelia(&["setup", "ollama", "--url", server.address(), "--write"]);
        ran.assert_code(code).assert_stderr(words);
        assert_eq!(fs::read_to_string(machine.home().join("config.yaml")).unwrap(), config);
    }
}

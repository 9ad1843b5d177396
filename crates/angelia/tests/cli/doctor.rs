//! `angelia doctor`: what it finds, what it starts, and what it says at the end.

use std::{fs, os::unix::fs::PermissionsExt as _};

use angelia_testkit::{
    plain_server::{PlainAnswer, PlainServer},
    programs,
};
use rustix::process::Signal;
use serde_json::Value;

use crate::machine::{Machine, until};

#[test]
fn it_says_what_is_there_and_what_to_do() {
    let machine = Machine::new();
    let ran = machine.angelia(&["doctor"]);
    ran.assert_code(1)
        .assert_stdout("claude")
        .assert_stdout("not installed")
        .assert_stdout("parrot")
        .assert_stdout("demo");
    let json = machine.angelia(&["doctor", "--json"]);
    let findings: Vec<Value> = serde_json::from_str(&json.assert_code(1).stdout).unwrap();
    let claude = findings.iter().find(|finding| finding["what"] == "claude").unwrap();
    assert_eq!(claude["ok"], false);
    assert!(claude["hint"].as_str().unwrap().contains("install"));

    let fake = programs::fake_cli().unwrap();
    machine.configure(&format!(
        "profiles: {{default: {{executor: claude, binary: {}}}}}",
        fake.display()
    ));
    machine
        .angelia(&["doctor"])
        .assert_code(0)
        .assert_stdout("2.1.325")
        .assert_stdout("logged in")
        .assert_stdout("Ready");
    machine.configure(&format!(
        "profiles: {{default: {{executor: claude, binary: {}, env: {{FAKE_CLI_LOGGED_OUT: '1'}}}}}}",
        fake.display()
    ));
    machine
        .angelia(&["doctor"])
        .assert_code(1)
        .assert_stdout("not logged in")
        .assert_stdout("log in");
}

/// Returns the lines of `doctor`, and its code.
fn doctor(machine: &Machine, code: i32) -> Vec<String> {
    let ran = machine.angelia(&["doctor"]);
    ran.assert_code(code).stdout.lines().map(str::to_owned).collect()
}

#[test]
fn it_marks_only_what_a_profile_needs_and_names_the_one_that_is_ready() {
    let machine = Machine::new();
    let lines = doctor(&machine, 1);
    assert!(lines.iter().all(|line| !line.starts_with('✗')), "nobody needs them: {lines:?}");
    // It is part of Angelia, so it is not a question of installing it.
    assert!(
        lines.iter().any(|line| line == "- native   not used by a profile (optional)"),
        "{lines:?}"
    );
    machine.configure("profiles: {default: {executor: claude}}");
    let lines = doctor(&machine, 1);
    let end = lines.last().unwrap();
    assert!(end.contains("fix what is marked ✗"), "the demo agent does not stand in: {end}");
    let fake = programs::fake_cli().unwrap().display().to_string();
    machine.configure(&format!("profiles: {{work: {{executor: claude, binary: {fake}}}}}"));
    let lines = doctor(&machine, 0);
    assert!(lines.iter().any(|line| line.starts_with("- codex") && line.contains("(optional)")));
    let end = lines.last().unwrap();
    assert_eq!(end, "Ready: profile `work` (claude). Try `angelia run -p work \"…\"`.");
    machine.configure(&format!(
        "profiles: {{default: {{executor: claude, binary: {fake}}}, other: {{executor: codex}}}}"
    ));
    let lines = doctor(&machine, 0);
    let codex = lines.iter().find(|line| line.contains("codex")).unwrap();
    assert!(codex.starts_with('✗') && codex.contains("used by profile `other`"), "{codex}");
    let end = lines.last().unwrap();
    assert_eq!(end, "Ready: profile `default` (claude). Try `angelia run \"…\"`.");
}

#[test]
fn it_knows_another_program_from_an_agent() {
    let machine = Machine::with_shell();
    for executor in ["claude", "codex"] {
        machine.configure(&format!(
            "profiles: {{default: {{executor: {executor}, binary: /usr/bin/true}}}}"
        ));
        let lines = doctor(&machine, 1);
        let line = lines.iter().position(|line| line.contains(executor)).unwrap();
        assert!(lines[line].starts_with('✗'), "{lines:?}");
        assert!(lines[line + 1].contains("/usr/bin/true is not C"), "{lines:?}");
    }
}

#[test]
fn it_starts_nothing_but_what_tells_versions_and_logins() {
    let machine = Machine::with_shell();
    let place = machine.place.root();
    let log = place.join("started");
    let program = |name: &str, says: &str| {
        let path = place.join(name);
        let log = log.display();
        let script = format!("#!/bin/sh\necho {name} \"$@\" >> {log}\necho '{says}'\n");
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    };
    machine.configure(&format!(
        "profiles:\n  default: {{executor: claude, binary: {}}}\n  b: {{executor: codex, binary: {}}}\n  \
         c: {{executor: acp, command: [{}, --acp]}}\n",
        program("my-claude", "2.1.325 (Claude Code)"),
        program("my-codex", "codex-cli 0.166.0"),
        program("my-acp", "hello"),
    ));
    machine.angelia(&["doctor"]).assert_stdout("my-acp");
    let started = fs::read_to_string(&log).unwrap();
    let mut started: Vec<&str> = started.lines().collect();
    started.sort_unstable();
    let expected = [
        "my-claude --version",
        "my-claude auth status",
        "my-codex --version",
        "my-codex login status",
    ];
    assert_eq!(started, expected);
    machine.angelia(&["doctor", "--deep"]);
    assert!(fs::read_to_string(&log).unwrap().contains("my-acp --acp"));
}

#[test]
fn it_never_denies_a_daemon_that_runs() {
    let machine = Machine::new();
    let serving = machine.serve();
    machine.configure("profiles: {default: {permissions: unattended}}\n");
    until("it has seen the edit", || {
        let said = machine.angelia(&["doctor"]);
        said.assert_stdout("running, used by every command");
        said.stdout.contains("waits for your confirmation: profiles.default.permissions")
    });
    machine.angelia(&["doctor"]).assert_stdout("angelia config reload");
    machine.configure("profiles: [\n");
    let said = machine.angelia(&["doctor"]);
    said.assert_stdout("running, used by every command").assert_stdout("✗ config");
    // It does not answer, but it is there.
    serving.running.signal(Signal::STOP);
    let said = machine.angelia(&["doctor"]);
    said.assert_stdout(&format!("running (process {})", serving.running.pid()));
    serving.running.signal(Signal::CONT);
    serving.stop().assert_code(0);
    machine.configure("");
    machine.angelia(&["doctor"]).assert_stdout("- daemon   not running");
}

#[test]
fn it_looks_at_the_providers_of_profiles_and_asks_them_only_when_it_is_deep() {
    let mut machine = Machine::new();
    let lines = doctor(&machine, 1);
    let native = lines.iter().position(|line| line.starts_with("- native")).unwrap();
    assert!(lines[native + 1].contains("no profile uses it"), "{lines:?}");

    let refusal = r#"{"error":{"message":"that key is wrong"}}"#.to_owned();
    let server = PlainServer::start([("GET /v1/models", PlainAnswer::Json(401, refusal))]);
    machine.configure(&format!(
        "\
providers: {{home: {{api: chat, base_url: '{}/v1', keys: [{{env: HOME_KEY}}]}}}}
profiles: {{default: {{executor: native, model: home/m}}, local: {{executor: native, model: ollama/m}}}}
",
        server.address()
    ));
    let lines = doctor(&machine, 0);
    let home = lines.iter().position(|line| line.contains("home (chat)")).unwrap();
    assert!(lines[home].starts_with('✗') && lines[home].contains("profile `default`"), "{lines:?}");
    assert!(lines[home + 1].contains("the variable `HOME_KEY` is not set"), "{lines:?}");
    let local = lines.iter().find(|line| line.contains("ollama (chat)")).unwrap();
    assert!(local.starts_with('✓') && local.contains("local"), "{local}");
    assert_eq!(
        lines.last().unwrap(),
        "Ready: profile `local` (native). Try `angelia run -p local \"…\"`."
    );

    machine.set("HOME_KEY", "the-key-of-this-test");
    let lines = doctor(&machine, 0);
    assert!(lines.iter().any(|line| line.starts_with('✓') && line.contains("home (chat)")));
    assert!(server.requests().is_empty());
    let deep = machine.angelia(&["doctor", "--deep"]);
    deep.assert_stdout("that key is wrong");
    assert_eq!(server.requests().len(), 1);
    assert!(!deep.stdout.contains("the-key-of-this-test"), "{}", deep.stdout);
}

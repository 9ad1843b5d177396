//! A configuration that changes while the daemon runs: what it follows, what waits, and which
//! commands notice nothing of it.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use serde_json::{Value, json};

use crate::{
    agents::{bind, run_as_agent},
    http,
    machine::{Machine, RunningDaemon, until},
};

fn parrot(settings: &str) -> String {
    format!("profiles: {{default: {{executor: parrot, {settings}}}}}\n")
}

fn file(machine: &Machine) -> PathBuf {
    machine.home().join("config.yaml")
}

fn state(serving: &RunningDaemon) -> Value {
    let shown = http::request_api(&serving.socket, "GET", "/api/config", &Value::Null);
    assert_eq!(shown.status, 200, "{shown:?}");
    shown.body
}

/// Returns the model of a new session.
fn model(machine: &Machine) -> String {
    let ran = machine.angelia(&["run", "--json", "!who"]);
    assert_eq!(ran.assert_code(0).stderr, "", "the daemon is used, and nothing is said");
    let sessions = machine.list("sessions");
    sessions[0]["model"].as_str().unwrap_or_default().to_owned()
}

/// Returns the permissions of a new session of the daemon.
fn permissions(machine: &Machine, serving: &RunningDaemon) -> String {
    let id = http::session(machine, &serving.socket, "default");
    let path = format!("/api/sessions/{id}");
    let session = http::request_api(&serving.socket, "GET", &path, &Value::Null);
    session.body["permissions"].as_str().unwrap().to_owned()
}

#[test]
fn the_next_session_has_the_new_settings_however_the_file_was_written() {
    let machine = Machine::new();
    machine.configure(&parrot("model: a"));
    let serving = machine.serve();
    assert_eq!(model(&machine), "a");
    // Written in place.
    machine.configure(&parrot("model: b"));
    assert_eq!(model(&machine), "b");
    // Replaced, as most editors do.
    let draft = machine.home().join("config.yaml.swp");
    fs::write(&draft, parrot("model: c")).unwrap();
    fs::rename(&draft, file(&machine)).unwrap();
    assert_eq!(model(&machine), "c");
    // Moved away, and written again.
    fs::rename(file(&machine), machine.home().join("config.yaml~")).unwrap();
    machine.configure(&parrot("model: d"));
    assert_eq!(model(&machine), "d");
    let now = state(&serving);
    assert_eq!((&now["waiting"], &now["error"]), (&json!([]), &Value::Null), "{now}");
    assert_eq!(now["path"], file(&machine).display().to_string());
    assert_eq!(now["settings"]["profiles"]["default"]["model"], "d");
    serving.stop().assert_code(0);
}

#[test]
fn rapid_edits_end_with_the_last_one() {
    let machine = Machine::new();
    machine.configure(&parrot("model: m0"));
    let serving = machine.serve();
    for number in 1..=40 {
        // An editor that truncates first: an empty file is valid, and must not be used.
        fs::write(file(&machine), "").unwrap();
        fs::write(file(&machine), parrot(&format!("model: m{number}"))).unwrap();
        if number % 8 == 0 {
            assert_eq!(model(&machine), format!("m{number}"));
        }
    }
    assert_eq!(model(&machine), "m40");
    let log = serving.stop();
    log.assert_code(0);
    assert!(!log.stderr.contains("last good"), "{}", log.stderr);
}

#[test]
fn what_opens_a_door_waits_for_the_owner() {
    let machine = Machine::with_shell();
    machine.configure(&parrot("model: a"));
    let serving = machine.serve();
    assert_eq!(permissions(&machine, &serving), "ask");
    let wide = "model: b, permissions: unattended, env: {A: some-secret-value}";
    machine.configure(&format!("{}listen: 127.0.0.1:1\n", parrot(wide)));
    assert_eq!(permissions(&machine, &serving), "ask");
    let waiting = json!(["profiles.default.env", "profiles.default.permissions"]);
    // The flag of `serve` wins over `listen`, so that does not wait.
    assert_eq!(state(&serving)["waiting"], waiting);
    assert_eq!(state(&serving)["settings"]["profiles"]["default"]["permissions"], "ask");
    assert_eq!(model(&machine), "b", "the rest of the same edit is in force");

    // An agent can edit the file, but it cannot confirm it.
    let session = machine.list("sessions")[0]["id"].as_str().unwrap().to_owned();
    for mark in [bind(&machine, &session), "nonsense".to_owned()] {
        let refused = run_as_agent(&machine, &mark, &["config", "reload"]);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        refused.assert_stderr("an agent's process cannot");
    }
    let socket = serving.socket.display().to_string();
    let script = format!(
        "curl -s --unix-socket {socket} -X POST http://localhost/api/config/reload || true"
    );
    let mut curl = machine.program("/bin/sh");
    curl.args(["-c", &script]).env("ANGELIA_AGENT", bind(&machine, &session));
    let answer = crate::machine::RunningCommand::spawn(curl, std::process::Stdio::null()).wait();
    assert!(!answer.stdout.contains("applied"), "{answer:?}");
    assert_eq!(permissions(&machine, &serving), "ask");

    let reloaded = machine.angelia(&["config", "reload"]);
    reloaded.assert_code(0).assert_stdout(
        "in force for new sessions: profiles.default.permissions, profiles.default.env",
    );
    assert_eq!(permissions(&machine, &serving), "unattended");
    assert_eq!(state(&serving)["waiting"], json!([]));
    machine.angelia(&["config", "reload"]).assert_code(0).assert_stdout("already in force");

    // Taking the right away needs nobody.
    machine.configure(&parrot("model: b"));
    assert_eq!(permissions(&machine, &serving), "ask");

    let audit = machine.angelia(&["audit", "--json"]);
    let rows = &audit.assert_code(0).stdout;
    assert!(
        rows.contains("reload: profiles.default.permissions, profiles.default.env took"),
        "{rows}"
    );
    until("the edits are in the audit", || {
        let rows = machine.angelia(&["audit", "--json"]).stdout;
        rows.contains("in force: profiles.default.model; waiting: profiles.default.env")
    });
    let log = serving.stop();
    assert!(!log.stderr.contains("some-secret-value"), "{}", log.stderr);
}

#[test]
fn what_is_read_at_the_start_waits_for_a_restart() {
    let machine = Machine::new();
    machine.configure("");
    let serving = machine.serve();
    machine.configure("sessions: {idle_ttl: 1m}\nhttp: {agent_mode: true}\n");
    let reloaded = machine.angelia(&["config", "reload", "--json"]);
    let reloaded: Value = serde_json::from_str(&reloaded.assert_code(0).stdout).unwrap();
    assert_eq!(reloaded, json!({"applied": ["http.agent_mode"], "waiting": ["sessions.idle_ttl"]}));
    let reloaded = machine.angelia(&["config", "reload"]);
    reloaded.assert_stdout("waits for a restart of the daemon: sessions.idle_ttl");
    assert_eq!(state(&serving)["waiting"], json!(["sessions.idle_ttl"]));
    // A new exposure is reported in the same way as at the start.
    until("it warns", || {
        let log = serving.running.stderr();
        log.lines().any(|line| line.contains("WARN") && line.contains("http.agent_mode"))
    });
    serving.stop().assert_code(0);
    let serving = machine.serve();
    assert_eq!(state(&serving)["waiting"], json!([]));
    assert_eq!(state(&serving)["settings"]["sessions"]["idle_ttl"], "1m");
    serving.stop().assert_code(0);
    machine.angelia(&["config", "reload"]).assert_code(69).assert_stderr("no daemon");
}

#[test]
fn a_file_that_cannot_be_used_changes_nothing() {
    let machine = Machine::new();
    machine.configure(&parrot("model: a"));
    let serving = machine.serve();
    machine.angelia(&["run", "-s", "work", "hello"]).assert_code(0);
    machine.configure("profiles: {default: {executor: parrot, modle: b}}\n");
    // The daemon goes on; a person is told.
    let ran = machine.angelia(&["run", "hello"]);
    ran.assert_code(0).assert_stderr("did you mean").assert_stderr("last good");
    until("the daemon has seen it", || !state(&serving)["error"].is_null());
    let error = state(&serving)["error"].as_str().unwrap().to_owned();
    assert!(error.contains("config.yaml:1") && error.contains("modle"), "{error}");
    machine.angelia(&["config", "reload"]).assert_code(78).assert_stderr("modle");
    for command in [&["sessions", "list"][..], &["turns", "list"], &["approvals", "list"]] {
        machine.angelia(command).assert_code(0);
    }
    // A file that others can write.
    fs::write(file(&machine), parrot("model: b")).unwrap();
    fs::set_permissions(file(&machine), fs::Permissions::from_mode(0o666)).unwrap();
    until("the daemon refuses it", || {
        state(&serving)["error"].as_str().is_some_and(|error| error.contains("chmod go-w"))
    });
    machine.angelia(&["config", "reload"]).assert_code(78).assert_stderr("written by others");
    machine.angelia(&["run", "hello"]).assert_code(0);
    assert_eq!(machine.list("sessions")[0]["model"], "a");
    // The owner takes that back: the same content is used.
    fs::set_permissions(file(&machine), fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(model(&machine), "b");
    assert_eq!(state(&serving)["error"], Value::Null);
    // A file that is gone.
    fs::remove_file(file(&machine)).unwrap();
    until("the daemon misses it", || {
        state(&serving)["error"].as_str().is_some_and(|error| error.contains("is gone"))
    });
    machine.angelia(&["run", "hello"]).assert_code(0);
    assert_eq!(machine.list("sessions")[0]["model"], "b");
    let log = serving.stop();
    log.assert_code(0).assert_stderr("the last good configuration stays in force");
}

#[test]
fn a_daemon_is_not_started_with_a_file_that_others_can_write() {
    let machine = Machine::new();
    machine.configure("");
    fs::set_permissions(file(&machine), fs::Permissions::from_mode(0o646)).unwrap();
    let refused = machine.angelia(crate::machine::SERVE);
    refused.assert_code(78).assert_stderr("chmod go-w");
}

#[test]
fn a_running_turn_is_decided_and_stopped_whatever_the_file_says() {
    let machine = Machine::new();
    let serving = machine.serve();
    let session = http::session(&machine, &serving.socket, "default");
    for text in ["profiles: {default: {model: other}}\n", "profiles: [broken\n"] {
        machine.configure("");
        let turn = http::submit(&serving.socket, &session, "!ask rm x");
        until("it asks", || http::turn(&serving.socket, &turn)["status"] == "awaiting_approval");
        machine.configure(text);
        let listed = machine.angelia(&["approvals", "list", "--json"]);
        let pending: Value = serde_json::from_str(&listed.assert_code(0).stdout).unwrap();
        machine.angelia(&["approvals", "deny", pending["id"].as_str().unwrap()]).assert_code(0);
        until("it ends", || http::turn(&serving.socket, &turn)["status"] == "completed");
        let turn = http::submit(&serving.socket, &session, "!hang");
        until("it runs", || http::turn(&serving.socket, &turn)["status"] == "running");
        machine.angelia(&["turns", "interrupt", &turn]).assert_code(0);
        until("it is over", || http::turn(&serving.socket, &turn)["status"] == "interrupted");
        machine.angelia(&["turns", "watch", &turn]);
        let fork = machine.angelia(&["sessions", "fork", &session]);
        machine.angelia(&["sessions", "delete", fork.assert_code(0).stdout.trim()]).assert_code(0);
        for shows in [&["status"][..], &["usage"], &["bus", "status"], &["bus", "dead", "list"]] {
            machine.angelia(shows).assert_code(0);
        }
    }
    until("status says why", || {
        let status = machine.angelia(&["status"]).stdout;
        status.contains("not used as it is now") && status.contains("not valid YAML")
    });
    serving.stop().assert_code(0);
}

#[test]
fn a_command_with_settings_of_its_own_works_without_the_daemon() {
    let machine = Machine::new();
    machine.configure(&parrot("model: a"));
    let serving = machine.serve();
    let other = machine.home().join("other.yaml");
    fs::write(&other, parrot("model: mine")).unwrap();
    let ran = machine.angelia(&["run", "--json", "--config", other.to_str().unwrap(), "!who"]);
    ran.assert_code(0).assert_stderr("other settings").assert_stderr("without it");
    assert!(ran.stdout.contains(r#""model":"mine""#), "{ran:#?}");
    let own = file(&machine);
    let ran = machine.angelia(&["run", "--config", own.to_str().unwrap(), "hello"]);
    assert_eq!(ran.assert_code(0).stderr, "", "it is the daemon's own file");
    // It concerns new sessions only.
    machine.angelia(&["sessions", "list", "--config", other.to_str().unwrap()]).assert_code(0);
    serving.stop().assert_code(0);
}

#[test]
fn a_session_keeps_the_settings_it_began_with_and_run_says_so() {
    let machine = Machine::new();
    machine.configure(&parrot("model: a, timeout: 1h"));
    let serving = machine.serve();
    let run = || machine.angelia(&["run", "-s", "work", "hello"]);
    run().assert_code(0);
    assert_eq!(run().assert_code(0).stderr, "");
    machine.configure(&parrot("model: b, timeout: 2h"));
    let ran = run();
    ran.assert_code(0).assert_stderr("keeps the settings it began with");
    ran.assert_stderr("(model, clocks)").assert_stderr("a new session");
    assert_eq!(machine.list("sessions")[0]["model"], "a");
    let said = machine.angelia(&["run", "-s", "fresh", "hello"]);
    assert_eq!(said.assert_code(0).stderr, "");
    assert_eq!(machine.angelia(&["run", "-s", "fresh", "hello"]).stderr, "");
    serving.stop().assert_code(0);
    // The same without a daemon.
    run().assert_code(0).assert_stderr("(model, clocks)");
}

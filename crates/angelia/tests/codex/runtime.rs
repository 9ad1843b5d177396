//! Tests of the use of Codex: E01 by the profile, without touching anything else; E02 the status
//! command.

use crate::{daemon_fixture::CodexFixture, machine::until};

fn executor_of(turn: &crate::transcript::Transcript) -> String {
    let started = turn.completed().first("turn.started");
    started["executor"].as_str().unwrap().to_owned()
}

#[test]
fn real_e01_only_who_asks_for_codex_gets_it() {
    let ours = "profiles: {default: {executor: parrot}, work: {executor: codex}}\n";
    let lab = CodexFixture::new(ours, "");
    assert_eq!(executor_of(&lab.machine.turn(&["hello"])), "parrot");
    assert!(lab.server.requests().is_empty(), "the other path is untouched");
    assert_eq!(executor_of(&lab.machine.turn(&["-p", "work", "ECHO:hello"])), "codex");
    assert_eq!(lab.server.model_requests().len(), 1);
    assert_eq!(executor_of(&lab.machine.turn(&["hello"])), "parrot");
    assert_eq!(lab.server.model_requests().len(), 1);

    // Enabling Angelia in Codex's configuration does not change which agent a profile uses.
    lab.machine.angelia(&["codex", "enable"]).assert_code(0);
    assert_eq!(executor_of(&lab.machine.turn(&["hello"])), "parrot");
}

#[test]
fn real_e02_nothing_changes_under_a_running_turn() {
    let ours = "profiles: {default: {executor: codex}}\n";
    let lab = CodexFixture::new(ours, "");
    let before = lab.config();
    let running = lab.machine.start(&["run", "--json", "HANG_HEADERS"]);
    until("the model is asked", || !lab.server.model_requests().is_empty());
    for command in ["enable", "disable"] {
        let refused = lab.machine.angelia(&["codex", command]);
        refused.assert_code(75).assert_stderr("Codex is working on turn");
    }
    lab.machine.angelia(&["codex", "status"]).assert_code(1);
    assert_eq!(lab.config(), before);
    running.signal(rustix::process::Signal::INT);
    running.wait().assert_code(130);
    lab.machine.angelia(&["codex", "enable"]).assert_code(0);
    assert_ne!(lab.config(), before);
    lab.machine.angelia(&["codex", "disable"]).assert_code(0);
    assert_eq!(lab.config(), before);
}

/// A session that is created afterwards has the enabled settings.
#[test]
fn real_e02_what_is_enabled_is_there_in_the_next_session() {
    let lab = CodexFixture::new("profiles: {default: {executor: codex}}\n", "");
    let started = lab.machine.place.root().join("started");
    let ours = format!(
        "mcp_servers: {{late: {{command: /bin/sh, args: [-c, 'touch {}; cat'], startup_timeout_sec: 2}}}}\n",
        started.display()
    );
    let file = lab.machine.place.root().join("enabling.yaml");
    std::fs::write(&file, ours).unwrap();
    lab.machine.turn(&["ECHO:before"]).completed();
    assert!(!started.exists());
    let file = file.to_str().unwrap();
    lab.machine.angelia(&["--config", file, "codex", "enable", "--no-tools"]).assert_code(0);
    lab.machine.turn(&["ECHO:after"]).completed();
    until("the server is started", || started.exists());
}

/// E08: silence ends a turn with the text so far, a reason, and a hint about using another agent;
/// the next turn has a new process.
#[test]
fn real_e08_silence_ends_the_turn_and_the_next_one_works() {
    let ours = "profiles: {default: {executor: codex, permissions: unattended, \
                post_tool_quiet_timeout: 3}}\n";
    let lab = CodexFixture::new(ours, "");
    let call = r#"TOOL:{"name":"exec_command","input":{"cmd":"echo ran"}}:END HANG_HEADERS"#;
    let turn = lab.machine.turn(&["-s", "one", call]);
    let failure = turn.failed("timeout");
    let words = failure.to_string();
    assert!(words.contains("post_tool_quiet_timeout"), "{failure:#}");
    assert_eq!(turn.of_type("tool.finished").len(), 1);
    let next = lab.machine.turn(&["-s", "one", "ECHO:going on"]);
    assert_eq!(next.completed().text(), "going on");
    assert_eq!(next.session(), turn.session());
    let told = lab.server.model_requests().last().unwrap().json();
    assert!(told.to_string().contains("echo ran"), "{told:#}");
}

/// E16: Codex's work counts towards the budgets of a turn.
#[test]
fn real_e16_tools_of_codex_are_counted() {
    let ours = "profiles: {default: {executor: codex, permissions: unattended, \
                budget_tool_count: 2, auto_resume_budget_guard: false}}\n";
    let lab = CodexFixture::new(ours, "");
    let call = r#"TOOL:{"name":"exec_command","input":{"cmd":"echo ran"}}:END ROUNDS:6 ECHO:done"#;
    let turn = lab.machine.turn(&[call]);
    assert_eq!(turn.end()["status"], "partial", "{:#}", turn.end());
    let tools = turn.of_type("tool.started").len();
    assert!((2..6).contains(&tools), "{tools}");
}

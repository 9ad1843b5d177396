//! `config` and `completions`.

use std::fs;

use angelia_testkit::programs;
use serde_json::Value;

use crate::machine::Machine;

#[test]
fn the_first_file_is_valid_and_is_not_written_twice() {
    let machine = Machine::new();
    let file = machine.home().join("config.yaml");
    machine.angelia(&["config", "init"]).assert_code(0).assert_stdout(file.to_str().unwrap());
    machine.angelia(&["config", "check"]).assert_code(0);
    let before = machine.angelia(&["config", "show"]);
    fs::write(&file, "# mine\n").unwrap();
    machine.angelia(&["config", "init"]).assert_code(2).assert_stderr("--force");
    assert_eq!(fs::read_to_string(&file).unwrap(), "# mine\n");
    machine.angelia(&["config", "init", "--force"]).assert_code(0);
    assert_eq!(machine.angelia(&["config", "show"]).stdout, before.stdout);
    let other = machine.work().join("other.yaml");
    machine.angelia(&["--config", "other.yaml", "config", "init"]).assert_code(0);
    assert!(other.exists());
}

#[test]
fn a_mistake_is_named_by_its_line_and_the_nearest_key() {
    let machine = Machine::new();
    machine.configure("listen: 127.0.0.1:0\nprofiles:\n  default:\n    executer: parrot\n");
    for command in [&["config", "check"][..], &["config", "show"], &["run", "hi"], &["doctor"]] {
        let ran = machine.angelia(command);
        ran.assert_code(78)
            .assert_stderr("config.yaml:4")
            .assert_stderr("executer")
            .assert_stderr("`executor`");
        assert_eq!(ran.stdout, "");
    }
    machine.configure("profiles: [\n");
    machine.angelia(&["config", "check"]).assert_code(78).assert_stderr("config.yaml:");
    machine.configure("profiles: {default: {executor: nonsense}}\n");
    machine
        .angelia(&["config", "check"])
        .assert_code(78)
        .assert_stderr("config.yaml:1")
        .assert_stderr("parrot");
    // The commands that repair a broken configuration work despite it.
    machine.angelia(&["config", "init", "--force"]).assert_code(0);
    machine.angelia(&["config", "check"]).assert_code(0);
}

#[test]
fn every_value_has_its_origin() {
    let mut machine = Machine::new();
    machine.configure("profiles:\n  default:\n    model: mine\n");
    machine.set("HERMES_CLAUDE_CODE_BRIDGE", "1");
    machine.set("HERMES_CLAUDE_CODE_MODEL", "theirs");
    let shown = machine.angelia(&["config", "show", "--origin"]);
    shown.assert_code(0);
    let line = |key: &str| {
        let found = shown.stdout.lines().find(|line| line.starts_with(&format!("{key}:")));
        found.unwrap_or_else(|| panic!("no {key} in {}", shown.stdout)).to_owned()
    };
    assert!(line("listen").ends_with("# default"));
    assert!(line("profiles.default.model").contains("config.yaml:3"));
    assert!(line("claude_code_bridge.model").contains("HERMES_CLAUDE_CODE_MODEL"));
}

#[test]
fn secrets_are_not_shown() {
    let machine = Machine::new();
    machine.configure("profiles: {default: {env: {ANTHROPIC_API_KEY: my-own-secret}}}");
    for arguments in
        [&["config", "show"][..], &["config", "show", "--origin"], &["config", "check"]]
    {
        let ran = machine.angelia(arguments);
        ran.assert_code(0);
        assert!(!ran.stdout.contains("my-own-secret"), "{ran:#?}");
    }
}

#[test]
fn the_schema_is_a_schema() {
    let schema = Machine::new().angelia(&["config", "schema"]);
    let schema: Value = serde_json::from_str(&schema.assert_code(0).stdout).unwrap();
    assert!(schema["properties"]["profiles"].is_object());
}

#[test]
fn an_agent_that_is_installed_and_logged_in_is_taken_by_itself() {
    let mut machine = Machine::with_shell();
    let bin = machine.place.root().join("bin");
    fs::create_dir(&bin).unwrap();
    fs::copy(programs::fake_cli().unwrap(), bin.join("claude")).unwrap();
    machine.set("PATH", &bin);
    let turn = machine.turn(&["ECHO:from the agent"]);
    assert_eq!(turn.first("turn.started")["executor"], "claude");
    assert_eq!(turn.text(), "from the agent");
    machine.angelia(&["doctor"]).assert_code(0);
}

#[test]
fn completions_are_there_for_every_shell() {
    let machine = Machine::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = machine.angelia(&["completions", shell]);
        ran.assert_code(0).assert_stdout("sessions").assert_stdout("doctor");
        assert!(!ran.stdout.contains("parrot"), "{shell}: the demo agent is nobody's command");
    }
    machine.angelia(&["completions", "nonsense"]).assert_code(2).assert_stderr("bash");
}

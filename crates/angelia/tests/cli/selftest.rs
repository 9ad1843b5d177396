//! `angelia selftest`, on the real programs. That every check can fail is shown by the conformance
//! tests of the executors.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf, time::Duration};

use angelia_executors::selftest::CHECKS;
use angelia_testkit::{
    acp_agents::AcpAgent,
    process_table,
    real::{RealClaude, RealCodex},
};
use rustix::process::Signal;
use serde_json::Value;

use crate::{
    agent_processes::home_id,
    machine::{Machine, ProgramOutput, until},
};

/// A part of everything of the owner's that must not be recorded.
const MARKER: &str = "OWNERS-SECRET";

/// Longer than all checks take, also on a busy machine.
const SELFTEST_LIMIT: Duration = Duration::from_mins(10);

/// A machine with a shell, whose configuration runs this program.
fn machine(executor: &str, settings: &str) -> Machine {
    let machine = Machine::with_shell();
    machine.configure(&format!("profiles: {{tested: {{executor: {executor}, {settings}}}}}\n"));
    machine
}

fn selftest(machine: &Machine, arguments: &[&str]) -> ProgramOutput {
    let running = machine.start(&[&["selftest"], arguments].concat());
    let ran = running.wait_within(SELFTEST_LIMIT);
    assert_eq!(left_folders(machine), Vec::<PathBuf>::new());
    ran
}

/// Returns the folders of self-tests that are still there.
fn left_folders(machine: &Machine) -> Vec<PathBuf> {
    let entries = machine.place.root().join("tmp").read_dir().unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.to_string_lossy().contains("angelia-selftest-")).collect()
}

/// Returns the verdict of every check, in the order of the report.
fn verdicts(ran: &ProgramOutput) -> Vec<(String, String)> {
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let rows = report["agents"][0]["checks"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    rows.iter().map(|row| (text(&row["id"]), text(&row["verdict"]))).collect()
}

fn assert_all(ran: &ProgramOutput, not_applicable: &[&str]) {
    let expected: Vec<(String, String)> = CHECKS
        .iter()
        .map(|check| {
            let applies = !not_applicable.contains(&check.id);
            (check.id.to_owned(), if applies { "passed" } else { "not_applicable" }.to_owned())
        })
        .collect();
    assert_eq!(verdicts(ran), expected, "{ran:#?}");
}

#[test]
fn real_both_versions_of_claude_pass() {
    for claude in RealClaude::for_product_tests().unwrap() {
        let machine = machine("claude", &format!("binary: {}", claude.path.display()));
        let ran = selftest(&machine, &["claude"]);
        ran.assert_code(0);
        let path = claude.path.display().to_string();
        let name = format!("claude {}", claude.version);
        let shown = ran.stdout.replace(&path, "PROGRAM").replace(&name, "claude VERSION");
        insta::allow_duplicates! {
            insta::assert_snapshot!("table_of_claude", shown);
        }
    }
}

#[test]
fn real_codex_passes() {
    let codex = RealCodex::find().unwrap();
    let machine = machine("codex", &format!("binary: {}", codex.path.display()));
    let ran = selftest(&machine, &["codex", "--json"]);
    ran.assert_code(0);
    assert_all(&ran, &[]);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(report["ok"], true);
    let agent = &report["agents"][0];
    assert_eq!(agent["version"], codex.version);
    assert_eq!(agent["newest_tested"], RealCodex::VERSION, "the program knows what is tested");
    assert_eq!(agent["profiles"][0], "tested");
}

#[test]
fn real_opencode_passes_where_acp_has_something_to_check() {
    let agent = AcpAgent::opencode("").unwrap();
    let machine = machine("acp", &format!("command: [{}]", agent.command.join(", ")));
    let ran = selftest(&machine, &["acp", "tested", "--json"]);
    assert_all(&ran, &["caller_tools", "sealed_model_mode"]);
    ran.assert_code(0);
}

/// The owner's keys, settings and instructions are neither used nor recorded.
#[test]
fn real_a_recording_has_the_wire_and_nothing_of_the_owner() {
    let claude = RealClaude::newest().unwrap();
    let mut machine = machine(
        "claude",
        &format!("binary: {}, env: {{MY_TOKEN: {MARKER}-1}}", claude.path.display()),
    );
    machine.set("ANTHROPIC_API_KEY", format!("{MARKER}-2"));
    machine.set("ANTHROPIC_BASE_URL", format!("http://{MARKER}-3.invalid"));
    machine.set("HTTPS_PROXY", format!("http://{MARKER}-4.invalid"));
    let settings = machine.place.home().join(".claude");
    fs::create_dir(&settings).unwrap();
    fs::write(settings.join("CLAUDE.md"), format!("{MARKER}-5")).unwrap();
    fs::write(machine.work().join("CLAUDE.md"), format!("{MARKER}-6")).unwrap();

    let path = machine.work().join("wire.jsonl");
    let ran = selftest(&machine, &["claude", "--record", "wire.jsonl"]);
    ran.assert_code(0).assert_stderr("recorded in wire.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let home = machine.place.home();
    for own in [MARKER, home.to_str().unwrap(), "angelia-selftest-"] {
        assert!(!text.contains(own), "{own} in the recording");
    }
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["version"], claude.version);
    for check in CHECKS {
        let of_check = || lines.iter().filter(|line| line["check"] == check.id);
        for direction in ["to_agent", "from_agent", "to_model"] {
            let found = of_check().any(|line| line["direction"] == direction);
            assert!(found, "{direction} of {}", check.id);
        }
        assert!(of_check().any(|line| line["verdict"] == "passed"), "{}", check.id);
    }
    let asks = lines.iter().any(|line| line["line"]["request"]["subtype"] == "can_use_tool");
    assert!(asks, "the lines themselves are there");
    let kept: Vec<_> = settings.read_dir().unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(kept, ["CLAUDE.md"], "the owner's own folder is as it was");

    let again = selftest(&machine, &["claude", "--record", "wire.jsonl"]);
    again.assert_code(2).assert_stderr("exists already");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn a_program_that_does_not_start_is_not_tried_again_and_again() {
    let place = Machine::with_shell();
    let program = place.place.root().join("claude");
    let script = "#!/bin/sh\n[ \"$1\" = --version ] && echo '2.1.325 (Claude Code)' && exit\n\
                  echo 'no license today' >&2\nexit 3\n";
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let machine = machine("claude", &format!("binary: {}", program.display()));
    let ran = selftest(&machine, &["claude"]);
    ran.assert_code(1)
        .assert_stdout("no license today")
        .assert_stdout("not tried, because the agent did not start")
        .assert_stderr("angelia selftest claude tested --record wire.jsonl");
    insta::assert_snapshot!(
        "table_without_a_start",
        ran.stdout.replace(program.to_str().unwrap(), "PROGRAM")
    );
}

#[test]
fn what_is_not_there_is_said() {
    let machine = Machine::new();
    selftest(&machine, &[]).assert_code(69).assert_stderr("angelia agents install claude");
    selftest(&machine, &["claude"]).assert_code(69).assert_stderr("Claude Code is not installed");
    selftest(&machine, &["codex"]).assert_code(69).assert_stderr("Codex is not installed");
    selftest(&machine, &["acp"]).assert_code(69).assert_stderr("no profile runs an ACP agent");
    selftest(&machine, &["parrot"]).assert_code(2).assert_stderr("claude, codex, acp");
    selftest(&machine, &["claude", "nobody"]).assert_code(2).assert_stderr("no profile `nobody`");
    let record = ["claude", "--record", "wire.jsonl"];
    selftest(&machine, &record).assert_code(69);
    assert!(!machine.work().join("wire.jsonl").exists(), "nothing was recorded");
}

#[test]
fn real_an_interrupt_leaves_nothing() {
    let claude = RealClaude::newest().unwrap();
    let machine = machine("claude", &format!("binary: {}", claude.path.display()));
    let running = machine.start(&["selftest", "claude", "--record", "wire.jsonl"]);
    // The program runs, and not only to tell its version.
    until("the agent runs", || {
        let folders = left_folders(&machine);
        folders.iter().any(|folder| folder.join("home/.claude.json").exists())
    });
    running.signal(Signal::INT);
    let ran = running.wait();
    ran.assert_code(130);
    assert_eq!(left_folders(&machine), Vec::<PathBuf>::new());
    assert!(!machine.work().join("wire.jsonl").exists());
    let mark = format!("{}:", home_id(&machine));
    until("no process is left", || process_table::find_marked(&mark).is_empty());
}

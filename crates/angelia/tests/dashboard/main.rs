//! The dashboard in a real browser, against the real daemon: with the demo agent, and with the real Claude
//! Code on a scripted model. The scripts are in `tests/dashboard`; what needs no browser is tested by
//! Node.js alone, or in `angelia-frontends`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "shared with the tests of the commands")]
#[path = "../cli/machine.rs"]
mod machine;
mod pictures;
#[expect(dead_code, reason = "shared with the tests of the commands")]
#[path = "../cli/transcript.rs"]
mod transcript;

use std::{
    ffi::OsString,
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use angelia_testkit::{
    model_server::ModelServer,
    programs::workspace_root,
    real::RealClaude,
    telegram_server::{TOKEN, TelegramServer},
};

use crate::machine::{ANGELIA, Machine, RunningCommand};

/// A browser, two themes and every page.
const SCRIPT_TIMEOUT: Duration = Duration::from_mins(4);

const SOAK_SECONDS: &str = "DASHBOARD_SOAK_SECONDS";

/// Our own variables that a script may get.
const VARIABLES: [&str; 4] =
    ["ANGELIA_TEST_CHROMIUM", "DASHBOARD_SHOTS", SOAK_SECONDS, "UPDATE_DOCS"];

fn packages() -> PathBuf {
    let packages = workspace_root().join("target/npm/dashboard");
    let has_browser = packages.join("node_modules/playwright-core").exists();
    assert!(has_browser, "run `cargo xtask setup` first");
    packages
}

/// A machine on which the scripts find Node.js.
fn machine() -> Machine {
    Machine::with_shell()
}

/// Returns a variable with which a person changes how a test runs.
#[expect(clippy::disallowed_methods, reason = "a person sets it for one run of the tests")]
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// Returns how long the soak test is to run besides.
fn soak_time() -> Duration {
    let seconds = variable(SOAK_SECONDS).and_then(|seconds| seconds.to_str()?.parse().ok());
    Duration::from_secs(seconds.unwrap_or(0))
}

/// Runs a script of `tests/dashboard` and asserts that it succeeds.
#[track_caller]
fn run_script(machine: &Machine, script: &str) {
    run_script_with(machine, script, |_| {});
}

/// The same, with more arguments and variables.
#[track_caller]
fn run_script_with(machine: &Machine, script: &str, change: impl FnOnce(&mut Command)) {
    let mut command = machine.program("node");
    if script == "pure.mjs" {
        command.arg("--test");
    }
    command
        .arg(workspace_root().join("tests/dashboard").join(script))
        .env("ANGELIA", ANGELIA)
        .env("ANGELIA_HOME", machine.home())
        .env("DASHBOARD_MODULES", packages())
        .env("WORK", machine.work());
    for name in VARIABLES {
        if let Some(value) = variable(name) {
            command.env(name, value);
        }
    }
    change(&mut command);
    let ran =
        RunningCommand::spawn(command, Stdio::null()).wait_within(SCRIPT_TIMEOUT + soak_time());
    assert!(ran.status.success(), "{}{}", ran.stdout, ran.stderr);
}

#[test]
fn real_browser_is_used_by_a_person() {
    let machine = machine();
    let _serving = machine.serve();
    run_script(&machine, "use.mjs");
}

#[test]
fn real_browser_decides_with_care() {
    let machine = machine();
    let _serving = machine.serve();
    run_script(&machine, "decide.mjs");
}

#[test]
fn real_browser_needs_no_mouse() {
    let machine = machine();
    let _serving = machine.serve();
    run_script(&machine, "keyboard.mjs");
}

#[test]
fn real_browser_fits_every_screen() {
    let machine = machine();
    let _serving = machine.serve();
    run_script(&machine, "screens.mjs");
}

#[test]
fn real_browser_sends_dead_letters_again() {
    let machine = machine();
    machine.configure("bus:\n  message_ttl: 25s\n");
    let _serving = machine.serve();
    run_script(&machine, "bus.mjs");
}

/// A stranger writes to the bot before the page is opened.
#[test]
fn real_browser_shows_who_asks_to_be_let_in() {
    let server = TelegramServer::start();
    let mut machine = machine();
    machine.set("BOT_TOKEN", TOKEN);
    machine.configure(&format!(
        "channels:\n  telegram:\n    token: {{env: BOT_TOKEN}}\n    base_url: {}\n    allow: [7]\n",
        server.base_url()
    ));
    let _serving = machine.serve();
    server.say(8, "hello there");
    run_script(&machine, "channels.mjs");
}

/// `cargo xtask soak dashboard` runs it for an hour.
#[test]
fn real_browser_stays_small() {
    let machine = machine();
    let _serving = machine.serve();
    run_script(&machine, "soak.mjs");
}

#[test]
fn real_browser_keeps_a_foreign_page_out() {
    let machine = machine();
    let _serving = machine.serve();
    run_script(&machine, "foreign.mjs");
}

#[test]
fn real_browser_resumes_after_a_kill() {
    run_script(&machine(), "resume.mjs");
}

#[test]
fn real_browser_shows_ten_thousand_sessions() {
    let machine = machine();
    let _serving = machine.serve();
    run_script(&machine, "many.mjs");
}

#[test]
fn real_browser_shows_the_real_claude_code() {
    let server = ModelServer::start().unwrap();
    let machine = machine();
    let claude = RealClaude::newest().unwrap();
    machine.configure(&format!(
        "profiles:\n  default:\n    executor: claude\nexecutors:\n  claude:\n{}",
        claude.config_lines(&machine.place, &server.base_url())
    ));
    let _serving = machine.serve();
    run_script(&machine, "claude.mjs");
}

/// The parts that need no browser, by Node.js' own runner.
#[test]
fn real_node_tests_the_pure_parts() {
    run_script(&machine(), "pure.mjs");
}

/// The types of the page, by the compiler of TypeScript.
#[test]
fn real_compiler_checks_the_types() {
    let machine = machine();
    let compiler = workspace_root().join("target/npm/typescript/node_modules/typescript/bin/tsc");
    assert!(compiler.exists(), "run `cargo xtask setup` first");
    let mut command = machine.program("node");
    command.arg(compiler).arg("-p").arg(workspace_root().join("crates/angelia-frontends/ui"));
    let ran = RunningCommand::spawn(command, Stdio::null()).wait_within(SCRIPT_TIMEOUT);
    assert!(ran.status.success(), "{}{}", ran.stdout, ran.stderr);
}

//! The example hosts of `examples/` do what they say.

use std::{fs, path::PathBuf, process::Stdio};

use angelia_testkit::programs::workspace_root;

use crate::machine::{ANGELIA, Machine, ProgramOutput, RunningCommand};

/// Runs text, tools, an approval and a question twice, the second time in the same conversation.
fn assert_example_runs(machine: &Machine, program: &str, script: &PathBuf) {
    let run = |more: &[&str]| -> ProgramOutput {
        let mut command = machine.program(program);
        command.arg(script).args(["--angelia", ANGELIA]).args(more);
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        RunningCommand::spawn(command, Stdio::null()).wait()
    };
    let ran = run(&["--yes", "hello", "!tool Read\nmore", "!ask rm x", "!question", "!who"]);
    ran.assert_code(0)
        .assert_stdout("You said: hello")
        .assert_stdout("[tool] Read pretended.txt")
        .assert_stdout("rm x -> yes")
        .assert_stdout("You allowed `rm x`")
        .assert_stdout("You chose Green")
        .assert_stdout("[completed]");
    let (_, conversation) = ran.stdout.split_once(", session ").unwrap();
    let conversation = format!(", session {}", &conversation[..36]);
    let ran = run(&["!ask rm x", "!who"]);
    ran.assert_code(0).assert_stdout("You refused `rm x`").assert_stdout(&conversation);
    run(&["!fail auth"]).assert_code(1).assert_stdout("[failed]");
}

#[test]
fn the_host_in_python_plays() {
    let machine = Machine::with_shell();
    assert_example_runs(
        &machine,
        "python3",
        &workspace_root().join("examples/host-python/host.py"),
    );
}

#[test]
fn the_host_in_typescript_compiles_and_plays() {
    let place = tempfile::tempdir().unwrap();
    let installed = workspace_root().join("target/npm/typescript/node_modules");
    assert!(installed.exists(), "run `cargo xtask setup` first");
    let mut machine = Machine::with_shell();
    machine.set("PATH", search_path());
    let mut compile = machine.program("node");
    compile
        .arg(installed.join("typescript/bin/tsc"))
        .arg("-p")
        .arg(workspace_root().join("examples/host-typescript"))
        .arg("--outDir")
        .arg(place.path())
        .arg("--typeRoots")
        .arg(installed.join("@types"));
    RunningCommand::spawn(compile, Stdio::null()).wait().assert_code(0);
    fs::write(place.path().join("package.json"), r#"{"type":"module"}"#).unwrap();
    assert_example_runs(&machine, "node", &place.path().join("host.js"));
}

#[expect(clippy::disallowed_methods, reason = "a test still has to find node")]
fn search_path() -> std::ffi::OsString {
    std::env::var_os("PATH").unwrap_or_default()
}

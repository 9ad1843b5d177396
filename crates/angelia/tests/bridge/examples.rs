//! The example hosts of `examples/` do what they say.

use std::{fs, path::PathBuf, process::Stdio};

use angelia_testkit::programs::workspace;

use crate::stage::{ANGELIA, Machine, Ran, Running};

/// Runs text, tools, an approval and a question twice, the second time in the same conversation.
fn plays(machine: &Machine, program: &str, script: &PathBuf) {
    let run = |more: &[&str]| -> Ran {
        let mut command = machine.program(program);
        command.arg(script).args(["--angelia", ANGELIA]).args(more);
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        Running::of(command, Stdio::null()).wait()
    };
    let ran = run(&["--yes", "hello", "!tool Read\nmore", "!ask rm x", "!question", "!who"]);
    ran.is(0)
        .says("You said: hello")
        .says("[tool] Read pretended.txt")
        .says("rm x -> yes")
        .says("You allowed `rm x`")
        .says("You chose Green")
        .says("[completed]");
    let (_, conversation) = ran.stdout.split_once(", session ").unwrap();
    let conversation = format!(", session {}", &conversation[..36]);
    let ran = run(&["!ask rm x", "!who"]);
    ran.is(0).says("You refused `rm x`").says(&conversation);
    run(&["!fail auth"]).is(1).says("[failed]");
}

#[test]
fn the_host_in_python_plays() {
    let machine = Machine::with_shell();
    plays(&machine, "python3", &workspace().join("examples/host-python/host.py"));
}

#[test]
fn the_host_in_typescript_compiles_and_plays() {
    let place = tempfile::tempdir().unwrap();
    let installed = workspace().join("target/npm/typescript/node_modules");
    assert!(installed.exists(), "run `cargo xtask setup` first");
    let mut machine = Machine::with_shell();
    machine.set("PATH", search_path());
    let mut compile = machine.program("node");
    compile
        .arg(installed.join("typescript/bin/tsc"))
        .arg("-p")
        .arg(workspace().join("examples/host-typescript"))
        .arg("--outDir")
        .arg(place.path())
        .arg("--typeRoots")
        .arg(installed.join("@types"));
    Running::of(compile, Stdio::null()).wait().is(0);
    fs::write(place.path().join("package.json"), r#"{"type":"module"}"#).unwrap();
    plays(&machine, "node", &place.path().join("host.js"));
}

#[expect(clippy::disallowed_methods, reason = "a test still has to find node")]
fn search_path() -> std::ffi::OsString {
    std::env::var_os("PATH").unwrap_or_default()
}

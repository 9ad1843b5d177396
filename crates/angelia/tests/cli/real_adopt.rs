//! Conversations begun in the real Claude Code and Codex, in a home of their own, and taken up here.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use angelia_testkit::{
    codex_home::{self, CodexLogin, KEY_VARIABLE},
    model_server::ModelServer,
    real::{CLAUDE_KEY, RealClaude, RealCodex},
};
use serde_json::Value;

use crate::machine::{Machine, ProgramOutput, RunningCommand};

/// Returns the content of every file below a folder whose name ends so.
fn files(folder: &Path, suffix: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path, suffix));
        } else if path.to_string_lossy().ends_with(suffix) {
            found.insert(path.clone(), fs::read(path).unwrap());
        }
    }
    found
}

/// Runs the agent's own program with one prompt, as a person does.
fn run_plain(
    machine: &Machine,
    program: &Path,
    arguments: &[&str],
    variables: &[(&str, String)],
) -> ProgramOutput {
    let mut command = machine.program(program);
    command.args(arguments).envs(variables.iter().map(|(name, value)| (*name, value)));
    let ran = RunningCommand::spawn(command, Stdio::null()).wait();
    ran.assert_code(0);
    ran
}

fn last_request(server: &ModelServer) -> String {
    server.model_requests().pop().unwrap().json().to_string()
}

/// Adopts the only conversation of this directory in every way, and asks on.
fn check_adoption(machine: &Machine, server: &ModelServer, agent: &str, transcripts: &Path) {
    let before = files(transcripts, ".jsonl");
    assert_eq!(before.len(), 1, "{:?}", before.keys());
    let list = ["sessions", "adopt", agent, "--list", "--json"];
    let listed = machine.angelia(&list);
    let listed: Value = serde_json::from_str(&listed.assert_code(0).stdout).unwrap();
    assert_eq!(listed["first_words"], "remember the word plum ECHO:kept");
    assert_eq!(listed["cwd"].as_str(), machine.work().canonicalize().unwrap().to_str());
    let native = listed["id"].as_str().unwrap();

    let hint = machine.angelia(&["run", "-s", native, "hi"]);
    hint.assert_code(2).assert_stderr(&format!("`angelia sessions adopt {agent} {native}`"));

    let table = machine.angelia(&["sessions", "adopt", agent]);
    table.assert_code(0).assert_stdout("FIRST WORDS").assert_stdout("remember the word plum");
    let short = table.stdout.lines().nth(1).unwrap().split_whitespace().next().unwrap();
    machine.angelia(&["sessions", "adopt", agent, "0000-no"]).assert_code(2);

    let adopted = machine.angelia(&["sessions", "adopt", agent, short, "--name", "plum"]);
    let session = adopted.assert_code(0).stdout.trim().to_owned();
    let exported = machine.export("plum");
    assert_eq!(exported.len(), 1, "what was said before is a turn of the record");
    assert_eq!(exported[0].session(), session);
    assert_eq!(exported[0].text(), "kept");

    let asked = machine.turn(&["-s", "plum", "which word? ECHO:plum"]);
    asked.completed();
    assert_eq!(asked.session(), session);
    let sent = last_request(server);
    for said in ["remember the word plum", "kept", "which word?"] {
        assert!(sent.contains(said), "{said} is missing in {sent}");
    }
    for (path, content) in &before {
        assert!(fs::read(path).unwrap() == *content, "{} was changed", path.display());
    }
    let sessions = machine.list("sessions");
    assert_eq!(sessions[0]["source"].as_str(), Some(&*format!("adopted:{agent}")));
    assert_eq!(sessions[0]["name"], "plum");

    // It can be taken up again, but our own copy is no conversation of the person's.
    let listed = machine.angelia(&list);
    assert_eq!(listed.assert_code(0).stdout.lines().count(), 1);
    let again = machine.angelia(&["sessions", "adopt", agent, "--last"]);
    assert_ne!(again.assert_code(0).stdout.trim(), session);
    machine.angelia(&["sessions", "delete", &session]).assert_code(0);
    assert!(before.keys().all(|path| path.exists()), "the original stays when its copy goes");
}

#[test]
fn real_a_conversation_of_claude_code_goes_on_here() {
    for claude in RealClaude::for_product_tests().unwrap() {
        let machine = Machine::with_shell();
        let server = ModelServer::start().unwrap();
        machine.configure(&format!(
            "profiles:\n  default:\n    executor: claude\n{}",
            claude.config_lines(&machine.place, &server.base_url())
        ));
        let mut variables = RealClaude::variables(&machine.place, &server.base_url());
        variables.push(("ANTHROPIC_API_KEY", CLAUDE_KEY.to_owned()));
        let arguments = ["-p", "--model", "sonnet", "remember the word plum ECHO:kept"];
        run_plain(&machine, &claude.path, &arguments, &variables).assert_stdout("kept");
        let transcripts = machine.place.home().join(".claude/projects");
        check_adoption(&machine, &server, "claude", &transcripts);
    }
}

#[test]
fn real_a_conversation_of_codex_goes_on_here() {
    let codex = RealCodex::find().unwrap();
    let machine = Machine::with_shell();
    let server = ModelServer::start().unwrap();
    let home = machine.place.home().join(".codex");
    codex_home::create(home.clone(), &server.base_url(), CodexLogin::Key, "").unwrap();
    machine.configure(&format!(
        "profiles:\n  default:\n    executor: codex\n    binary: {}\n    warm: 0\n    env:\n      \
         {KEY_VARIABLE}: dummy\n",
        codex.path.display()
    ));
    let variables = [(KEY_VARIABLE, "dummy".to_owned())];
    let arguments = ["exec", "--skip-git-repo-check", "remember the word plum ECHO:kept"];
    run_plain(&machine, &codex.path, &arguments, &variables).assert_stdout("kept");
    check_adoption(&machine, &server, "codex", &home.join("sessions"));
}

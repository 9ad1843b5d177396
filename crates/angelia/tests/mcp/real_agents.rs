//! The real Claude Code and the real Codex, which get our tools from their profile.

use std::{fs, path::Path};

use angelia_testkit::{
    codex_home,
    model_server::ModelServer,
    real::{RealClaude, RealCodex},
};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    agent_processes::agent_pids,
    machine::{Machine, RunningDaemon, until},
    transcript::Transcript,
};

/// A machine with both programs, whose models follow the prompt's directives.
struct McpFixture {
    machine: Machine,
    _server: ModelServer,
}

impl McpFixture {
    /// Creates the setup; `profiles` is a block of the configuration.
    fn new(profiles: &str) -> Self {
        let server = ModelServer::start().unwrap();
        let mut machine = Machine::with_shell();
        machine.set("HERMES_BUS_ROOT", machine.place.root().join("hermes"));
        let claude = RealClaude::newest().unwrap();
        let codex = RealCodex::find().unwrap();
        let home = machine.place.root().join("codex");
        let base_url = server.base_url();
        let home = codex_home::create(home, &base_url, codex_home::CodexLogin::Key, "").unwrap();
        machine.configure(&format!(
            "executors:
  claude:
{}  codex:
    warm: 0
    binary: {}
    env:
      CODEX_HOME: {}
      {}: dummy
{profiles}",
            claude.config_lines(&machine.place, &base_url),
            codex.path.display(),
            home.display(),
            codex_home::KEY_VARIABLE,
        ));
        Self { machine, _server: server }
    }

    /// Runs a turn and asserts that it completes.
    #[track_caller]
    fn turn(&self, arguments: &[&str]) -> Transcript {
        let turn = self.machine.turn(arguments);
        assert_eq!(turn.end()["status"], "completed", "{turn:#?}");
        turn
    }

    #[track_caller]
    fn end(self, serving: Option<RunningDaemon>) {
        if let Some(serving) = serving {
            serving.stop().assert_code(0);
        }
        until("no agent is left", || agent_pids(&self.machine).is_empty());
    }
}

/// Returns a prompt that makes the model call one of our tools.
fn tool_call_prompt(tool: &str, input: &Value) -> String {
    let call = json!({"name": format!("mcp__angelia__{tool}"), "input": input});
    format!("TOOL:{call}:END ECHO:the caller is done")
}

fn delegate_prompt(profile: &str, task: &str) -> String {
    tool_call_prompt("delegate", &json!({"profile": profile, "task": task}))
}

/// Returns the result of the turn's only tool call.
#[track_caller]
fn result(turn: &Transcript) -> (bool, String) {
    let finished = turn.of_type("tool.finished");
    assert_eq!(finished.len(), 1, "{turn:#?}");
    let ok = finished[0]["ok"].as_bool().unwrap();
    (ok, finished[0]["output"].as_str().unwrap().to_owned())
}

#[track_caller]
fn assert_refused(turn: &Transcript, with: &str) {
    let (ok, output) = result(turn);
    assert!(!ok && output.contains(with), "no {with:?} in {output}");
}

#[test]
fn real_claude_hands_work_on_and_gets_the_answer() {
    let lab = McpFixture::new(
        "profiles:
  default: {executor: claude, delegate_to: [helper]}
  helper: {executor: parrot}
",
    );
    let prompt = delegate_prompt("helper", "words for the helper");
    let mut prefixes = Vec::new();
    let mut check = |turn: &Transcript| {
        let (ok, output) = result(turn);
        assert!(ok, "{output}");
        assert!(output.contains("You said: words for the helper"), "{output}");
        // No approval was requested, which is required because nobody could have answered.
        assert!(turn.of_type("approval.requested").is_empty(), "{turn:#?}");
        prefixes.push(turn.end()["usage"]["prefix_sha256"].clone());
    };
    // First without, then with a daemon: the launch is the same.
    check(&lab.turn(&[&prompt]));
    until("no agent is left", || agent_pids(&lab.machine).is_empty());
    let serving = lab.machine.serve();
    check(&lab.turn(&[&prompt]));
    check(&lab.turn(&[&prompt]));
    assert!(prefixes[0].is_string());
    assert!(prefixes.iter().all(|one| *one == prefixes[0]), "{prefixes:?}");
    lab.end(Some(serving));
}

#[test]
fn real_claude_hands_work_on_three_times_and_no_further() {
    let lab = McpFixture::new("profiles:\n  default: {executor: claude, delegate_to: [default]}\n");
    let serving = lab.machine.serve();
    let mut prompt = "ECHO:too deep".to_owned();
    for _ in 0..4 {
        prompt = delegate_prompt("default", &prompt);
    }
    lab.turn(&[&prompt]);
    // The requested turn and three levels below it ran; the fourth was refused.
    let sessions = lab.machine.list("sessions");
    assert_eq!(sessions.len(), 4);
    // The outermost turn ended last, and the list begins with the session that was used last.
    let deepest = lab.machine.export(sessions[3]["id"].as_str().unwrap());
    assert_refused(&deepest[0], "handed on 3 times, which is the limit");
    lab.end(Some(serving));
}

#[test]
fn real_claude_may_not_choose_whom_it_likes_nor_look_around() {
    let lab = McpFixture::new(
        "profiles:
  default: {executor: claude, delegate_to: [helper, outside]}
  helper: {executor: parrot}
  other: {executor: parrot}
  outside: {executor: parrot, cwd: /}
",
    );
    let serving = lab.machine.serve();
    lab.machine.angelia(&["run", "-p", "other", "what nobody else should read"]).assert_code(0);
    let foreign = lab.machine.list("sessions").remove(0);
    let other = lab.turn(&[&delegate_prompt("other", "x")]);
    assert_refused(&other, "may not hand work to `other`");
    // Only this refusal shows that the profile works in another directory.
    let outside = lab.turn(&[&delegate_prompt("outside", "x")]);
    assert_refused(&outside, "`outside` may do more than this session: it works in /");

    let list = lab.turn(&[&tool_call_prompt("sessions_list", &json!({}))]);
    let (ok, output) = result(&list);
    assert!(ok, "{output}");
    let own = list.end()["session_id"].as_str().unwrap();
    let seen: Value = serde_json::from_str(&output).unwrap();
    let seen = seen["sessions"].as_array().unwrap();
    assert_eq!(seen.len(), 1, "{output}");
    assert_eq!(seen[0]["id"], own);
    let show = json!({"session": foreign["id"]});
    let show = lab.turn(&[&tool_call_prompt("sessions_show", &show)]);
    assert_refused(&show, "there is no session");
    lab.end(Some(serving));
}

#[test]
fn real_claude_that_is_interrupted_gives_up_what_it_handed_on() {
    for daemon in [true, false] {
        let lab = McpFixture::new(
            "profiles:
  default: {executor: claude, delegate_to: [helper]}
  helper: {executor: parrot, warm: 0}
",
        );
        let serving = daemon.then(|| lab.machine.serve());
        let prompt = delegate_prompt("helper", "!tool Look\n!hang");
        let running = lab.machine.start(&["run", "--json", &prompt]);
        let states = || -> Vec<String> {
            let turns = lab.machine.list("turns");
            let states = turns.iter();
            states.map(|turn| turn["status"].as_str().unwrap().to_owned()).collect()
        };
        until("both run", || states() == ["running", "running"]);
        running.signal(Signal::INT);
        running.wait().assert_code(130);
        until("both are interrupted", || states() == ["interrupted", "interrupted"]);
        lab.end(serving);
    }
}

#[test]
fn real_codex_sends_a_message_and_hands_work_on() {
    let lab = McpFixture::new(
        "profiles:
  default: {executor: codex, delegate_to: [helper]}
  helper: {executor: parrot}
",
    );
    let serving = lab.machine.serve();
    let message = json!({"target": "somebody", "type": "note", "text": "--from codex"});
    let sent = lab.turn(&[&tool_call_prompt("bus_send", &message)]);
    let (ok, output) = result(&sent);
    assert!(ok && output.contains("queued for somebody"), "{output}");
    assert!(sent.of_type("approval.requested").is_empty(), "{sent:#?}");
    let heard = lab.machine.start(&["bus", "listen", "somebody", "--json"]);
    heard.wait_for_stdout("--from codex");
    let handed = lab.turn(&[&delegate_prompt("helper", "words of codex")]);
    let (ok, output) = result(&handed);
    assert!(ok && output.contains("words of codex"), "{output}");
    lab.end(Some(serving));
}

/// D48: an agent that is reached over the bus knows its endpoint, and answers under it.
#[test]
fn real_claude_on_the_bus_knows_its_endpoint() {
    let lab = McpFixture::new("profiles:\n  default: {executor: claude, cwd: WORK}\n");
    let work = lab.machine.work();
    let file = lab.machine.home().join("config.yaml");
    let yaml = fs::read_to_string(&file).unwrap();
    fs::write(&file, yaml.replace("WORK", &work.display().to_string())).unwrap();
    write_rules(&lab.machine.home());
    let serving = lab.machine.serve();
    let prompt = tool_call_prompt("bus_info", &json!({}));
    until("the endpoint listens", || serving.running.stderr().contains("listening on the bus as"));
    lab.machine.angelia(&["notify", "--to", "angelia", "--type", "task", &prompt]).assert_code(0);
    until("the turn has ended", || {
        let turns = lab.machine.list("turns");
        turns.iter().any(|turn| turn["status"] == "completed")
    });
    let session = lab.machine.list("sessions").remove(0);
    let id = session["id"].as_str().unwrap();
    let turns = lab.machine.export(id);
    let (ok, output) = result(&turns[0]);
    assert!(ok, "{output}");
    let info: Value = serde_json::from_str(&output).unwrap();
    assert_eq!(info["endpoint"], "angelia");
    assert_eq!(info["endpoint_listening"], true);
    assert_eq!(info["session_id"], id);
    lab.end(Some(serving));
}

fn write_rules(home: &Path) {
    let rules = "callbacks:\n- {match_type: task, context: true}\n";
    fs::write(home.join("bus-rules.yaml"), rules).unwrap();
}

/// Codex tells its model only that a call was rejected, so the reason stands in a notice.
#[test]
fn real_codex_is_refused_what_its_profile_disallows() {
    let lab = McpFixture::new(
        "profiles:
  default: {executor: codex, delegate_to: [helper], disallowed_tools: [mcp__angelia__delegate]}
  helper: {executor: parrot, disallowed_tools: [mcp__angelia__delegate]}
",
    );
    let handed = lab.turn(&[&delegate_prompt("helper", "words of codex")]);
    assert!(!result(&handed).0, "{handed:#?}");
    let reason = "`mcp__angelia__delegate` is in disallowed_tools";
    let is_reason = |notice: &&Value| {
        notice["code"] == "declined" && notice["text"].as_str().unwrap().contains(reason)
    };
    assert!(handed.of_type("notice").iter().any(is_reason), "{handed:#?}");
    let looked = lab.turn(&[&tool_call_prompt("bus_info", &json!({}))]);
    let (ok, output) = result(&looked);
    assert!(ok, "{output}");
    lab.end(None);
}

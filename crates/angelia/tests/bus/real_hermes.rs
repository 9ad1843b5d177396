//! hermes-bus 0.7.0, hermes-notify 0.8.1 and hermes-bus-plugin 0.8.0 from `PyPI`, unmodified,
//! against our bus.

use std::{
    path::PathBuf,
    process::{Command, Output},
};

use angelia_testkit::programs;
use serde_json::json;

use crate::{
    bus_machine::{BusMachine, text},
    serving::serving,
};

fn installed(program: &str) -> PathBuf {
    let path = programs::workspace_root().join("target/python/hermes/bin").join(program);
    assert!(path.exists(), "{} is missing; run `cargo xtask setup`", path.display());
    path
}

fn python(machine: &BusMachine, script: &str) -> Command {
    let mut command = machine.program(installed("python"));
    command.args(["-c", script]);
    command
}

fn run(mut command: Command) -> Output {
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{}\n{}", text(&ran.stdout), text(&ran.stderr));
    ran
}

const PYTHON_PRELUDE: &str = "
import json, os, sys, threading, time
from hermes_bus.client import BusClient, send_message

def until(condition, what):
    deadline = time.time() + 60
    while not condition():
        assert time.time() < deadline, what
        time.sleep(0.01)
";

#[test]
fn clients_of_the_library_send_and_receive() {
    let machine = BusMachine::new();
    let _running = machine.start_in_background();
    let script = format!(
        "{PYTHON_PRELUDE}
a, b = BusClient('a'), BusClient('b')
assert a.connect() and b.connect()
assert a.bus_session_id and len(a.bus_session_id) == 36
for n in range(500):
    assert a.send('b', {{'text': n}})
got = []
until(lambda: got.extend(b.poll()) or len(got) >= 500, 'not all came')
assert [m['body']['text'] for m in got] == list(range(500)), got[:3]
assert {{m['from'] for m in got}} == {{'a'}}
assert b.send('a', {{'text': 'back'}})
back = []
until(lambda: back.extend(a.poll()) or back, 'no answer')
assert back[0]['body'] == {{'text': 'back'}}
a.disconnect(); b.disconnect()
"
    );
    run(python(&machine, &script));
}

/// The library reconnects every two seconds when no message arrives. With its own daemon, half of
/// these messages are lost.
#[test]
fn a_client_that_comes_and_goes_misses_nothing() {
    let machine = BusMachine::new();
    let _running = machine.start_in_background();
    let script = format!(
        "{PYTHON_PRELUDE}
b = BusClient('b')
assert b.connect()
for n in range(8):
    assert send_message('b', {{'text': n}}, from_ep='a') or True
    time.sleep(0.2)
got, seen = [], []
def all_came():
    got.extend(b.poll())
    for m in got:
        if m['id'] not in seen:
            seen.append(m['id'])
    return len(seen) == 8
until(all_came, 'only %d came' % len(seen))
"
    );
    run(python(&machine, &script));
}

#[test]
fn a_message_to_somebody_absent_is_taken_and_waits() {
    let machine = BusMachine::new();
    let _running = machine.start_in_background();
    let script = format!(
        "{PYTHON_PRELUDE}
assert send_message('late', {{'text': 'early'}}, from_ep='me')
late = BusClient('late')
assert late.connect()
got = []
until(lambda: got.extend(late.poll()) or got, 'nothing waited')
assert got[0]['body'] == {{'text': 'early'}} and got[0]['from'] == 'me', got
"
    );
    run(python(&machine, &script));
}

#[tokio::test]
async fn notify_hermes_reaches_our_clients() {
    let machine = BusMachine::new();
    let _running = machine.start_in_background();
    let mut receiver = machine.register("r").await;
    let mut notify = machine.program(installed("notify-hermes"));
    notify.args(["--to", "r", "--type", "done", "--channel", "x:y", "--from", "me", "hello"]);
    let ran = run(notify);
    assert_eq!(text(&ran.stdout).trim(), "OK: notified r");
    let got = receiver.expect_frame().await;
    assert_eq!(got["body"], json!({"text": "hello", "type": "done", "channel": "x:y"}));
    assert_eq!((&got["from"], &got["verified"]), (&json!("me"), &json!(false)));
}

/// Their daemon sends nothing on success, and passes every field of a message on.
#[test]
fn our_notify_is_quick_with_their_daemon() {
    let machine = BusMachine::new();
    let busd = |verb: &str| {
        let mut command = machine.program(installed("hermes-busd"));
        command.arg(verb).env("PATH", installed("python").parent().unwrap());
        run(command)
    };
    busd("start");
    let script = format!(
        "{PYTHON_PRELUDE}
import subprocess
r = BusClient('r')
assert r.connect()
began = time.time()
sent = subprocess.run([sys.argv[1], 'notify', '--to', 'r', 'hello'], capture_output=True, text=True)
took = time.time() - began
assert sent.returncode == 0 and 'does not report' in sent.stdout, sent
assert took < 1, took
got = []
until(lambda: got.extend(r.poll()) or got, 'nothing came')
assert 'ack' not in got[0] and got[0]['body'] == {{'text': 'hello'}}, got
absent = subprocess.run([sys.argv[1], 'notify', '--to', 'x', 'hello'], capture_output=True, text=True)
assert absent.returncode == 1 and 'rejected' in absent.stderr, absent
"
    );
    let mut command = python(&machine, &script);
    command.arg(env!("CARGO_BIN_EXE_angelia"));
    let ran = command.output().unwrap();
    busd("stop");
    assert!(ran.status.success(), "{}\n{}", text(&ran.stdout), text(&ran.stderr));
}

/// The sender has listened before and is away when the agent answers: the answer waits for it. The
/// other sender has never listened: its answer becomes a dead letter.
#[test]
fn an_agents_reply_waits_for_a_sender_that_is_away() {
    let machine = BusMachine::new();
    std::fs::create_dir_all(machine.home()).unwrap();
    let config = format!(
        "profiles:\n  default: {{executor: parrot, cwd: {}}}\n",
        machine.root().join("hermes").display()
    );
    std::fs::create_dir_all(machine.root().join("hermes")).unwrap();
    std::fs::write(machine.home().join("config.yaml"), config).unwrap();
    let rules = "callbacks:\n- {match_type: ask, context: true}\n";
    std::fs::write(machine.home().join("bus-rules.yaml"), rules).unwrap();
    let _daemon = serving(&machine);
    let agent = loop {
        if let Some(name) = machine.status()["endpoints"][0]["endpoint"].as_str() {
            break name.to_owned();
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    let script = format!(
        "{PYTHON_PRELUDE}
agent = sys.argv[1]
asker = BusClient('asker')
assert asker.connect()
asker.disconnect()
for name in ('asker', 'stranger'):
    assert send_message(agent, {{'type': 'ask', 'text': 'from ' + name}}, from_ep=name)
time.sleep(3)
asker = BusClient('asker')
assert asker.connect()
got = []
until(lambda: got.extend(asker.poll()) or got, 'no reply waited')
assert got[0]['body']['type'] == 'reply' and 'from asker' in got[0]['body']['text'], got
asker.disconnect()
"
    );
    let mut command = python(&machine, &script);
    command.arg(&agent);
    run(command);
    let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
    let dead = loop {
        let listed = machine.angelia(&["bus", "dead", "list", "--json"]);
        if !listed.stdout.is_empty() {
            break text(&listed.stdout);
        }
        assert!(std::time::Instant::now() < deadline, "{listed:?}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    };
    let dead: serde_json::Value = serde_json::from_str(dead.lines().next().unwrap()).unwrap();
    assert_eq!(dead["to"], "stranger");
    let said = dead["message"]["body"]["text"].as_str().unwrap();
    assert!(said.contains("from stranger"), "{said}");
}

#[test]
fn a_sender_starts_our_daemon_when_none_runs() {
    let machine = BusMachine::new();
    let script = format!("{PYTHON_PRELUDE}\nassert send_message('x', {{'text': 'hello'}})\n");
    run(python(&machine, &script));
    let _stopped_at_the_end = machine.start_in_background();
    let status = machine.status();
    assert_eq!((&status["running"], &status["queued"]), (&json!(true), &json!(1)));
}

/// hermes-bus's own `hermes-busd` treats our daemon as its own, and gets correct answers from it.
#[test]
fn their_own_daemon_command_knows_ours() {
    let machine = BusMachine::new();
    let _running = machine.start_in_background();
    let pid = machine.status()["pid"].clone();
    let busd = |verb: &str| {
        let mut command = machine.program(installed("hermes-busd"));
        command.arg(verb);
        run(command)
    };
    assert!(text(&busd("status").stdout).contains(&pid.to_string()));
    busd("start");
    assert_eq!(machine.status()["pid"], pid, "it was not displaced");
    busd("stop");
    assert_eq!(machine.status()["running"], json!(false));
}

#[tokio::test]
async fn the_plugin_registers_listens_and_sends() {
    let machine = BusMachine::new();
    let _running = machine.start_in_background();
    let mut peer = machine.register("peer").await;
    let script = format!(
        "{PYTHON_PRELUDE}
import hermes_bus_plugin as plugin

class Context:
    def __init__(self):
        self.tools = {{}}
    def register_hook(self, *args, **kwargs):
        pass
    def register_skill(self, *args, **kwargs):
        pass
    def register_tool(self, name, group, schema, handler, *args, **kwargs):
        self.tools[name] = handler

context = Context()
plugin.register(context)
until(lambda: os.environ.get('HERMES_BUS_PLUGIN_SID'), 'not registered')
print('INFO', context.tools['bus_info']({{}}), flush=True)
print('STATUS', context.tools['bus_status']({{}}), flush=True)
sent = context.tools['bus_send']({{'target': 'peer', 'type': 'ask', 'text': 'from the plugin'}})
print('SENT', sent, flush=True)
sys.stdin.readline()
"
    );
    let mut command = python(&machine, &script);
    command
        .env("HERMES_BUS_ENDPOINT", "plugged")
        // `hermes-busd` is ours, `notify-hermes` is theirs.
        .env("PATH", machine.search_path(&installed("python")))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let heard = tokio::time::timeout(std::time::Duration::from_mins(1), peer.next_frame()).await;
    let Ok(Ok(Some(got))) = heard else {
        let _gone = child.kill();
        panic!("{heard:?}: {:?}", child.wait_with_output());
    };
    assert_eq!(got["body"]["text"], "from the plugin");
    let ack = json!({"type": "ack", "id": got["id"]});
    peer.send(&ack).await.unwrap();
    let sent = json!({"type": "message", "to": "plugged", "id": "1", "body": {"text": "to the plugin", "type": "unknown"}});
    peer.send(&sent).await.unwrap();
    // The plugin waits three seconds before it reads; the message is delivered once it has read it.
    peer.expect_frame_of_type("delivered").await;
    let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
    while machine.status()["queued"] != json!(0) {
        assert!(std::time::Instant::now() < deadline);
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    drop(child.stdin.take());
    let ended = child.wait_with_output().unwrap();
    let output = text(&ended.stdout);
    for expected in ["INFO", "STATUS", "plugged", "SENT"] {
        assert!(output.contains(expected), "{output}\n{}", text(&ended.stderr));
    }
}

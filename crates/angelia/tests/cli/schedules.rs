//! `angelia schedule`, with a real daemon and without one.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, thread,
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    agents::{bind, run_as_agent},
    http,
    machine::{Machine, ProgramOutput, until},
};

fn machine() -> Machine {
    let machine = Machine::with_shell();
    machine.configure("profiles:\n  default: {executor: parrot}\n");
    machine
}

fn schedules(machine: &Machine) -> Vec<Value> {
    let listed = machine.angelia(&["schedule", "list", "--json"]);
    listed.assert_code(0);
    listed.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn show(machine: &Machine, id: &str) -> Value {
    let shown = machine.angelia(&["schedule", "show", id, "--json"]);
    serde_json::from_str(&shown.assert_code(0).stdout).unwrap()
}

/// Returns the id that `schedule add --json` printed.
fn added_id(added: &ProgramOutput) -> String {
    let added: Value = serde_json::from_str(&added.assert_code(0).stdout).unwrap();
    added["id"].as_str().unwrap().to_owned()
}

#[test]
fn without_a_daemon_a_schedule_is_kept_and_says_that_nothing_runs() {
    let machine = machine();
    let added = machine.angelia(&[
        "schedule",
        "add",
        "0 9 * * 1-5",
        "--tz",
        "Europe/Berlin",
        "--to",
        "desk",
        "Good morning",
    ]);
    added.assert_code(0).assert_stdout("added ").assert_stdout("; next ");
    added.assert_stderr("nothing will run").assert_stderr("angelia start");
    added.assert_stderr("angelia service install");
    let one = &schedules(&machine)[0];
    let fields = ["id", "spec", "prompt", "profile", "session", "to", "next_at", "last", "paused"];
    for field in fields {
        assert!(one.get(field).is_some(), "{field}: {one}");
    }
    assert_eq!((&one["spec"], &one["tz"]), (&json!("0 9 * * 1-5"), &json!("Europe/Berlin")));
    assert_eq!((&one["missed"], &one["overlap"]), (&json!("run_once"), &json!("skip")));
    assert_eq!((&one["last"], &one["paused"]), (&Value::Null, &json!(false)));
    machine.angelia(&["schedule", "pause", "last"]).assert_code(0).assert_stdout("paused ");
    assert_eq!(schedules(&machine)[0]["next_at"], Value::Null);
    machine.angelia(&["schedule", "list"]).assert_stdout("paused").assert_stdout("Good morning");
    let short = one["short_id"].as_str().unwrap();
    machine.angelia(&["schedule", "resume", short]).assert_code(0).assert_stdout("; next ");
    machine.angelia(&["schedule", "show", short]).assert_stdout("it has not run yet");
    let status = machine.angelia(&["status"]);
    status.assert_code(69).assert_stdout("schedules").assert_stdout("Good morning");
    machine.angelia(&["schedule", "remove", &short[..6]]).assert_code(0);
    assert!(schedules(&machine).is_empty());
    machine.angelia(&["schedule", "show", "last"]).assert_code(2).assert_stderr("no schedule yet");
    let audit = machine.angelia(&["audit"]).stdout;
    for what in ["added", "paused", "resumed", "removed"] {
        assert!(audit.contains(&format!("terminal  schedule: {what} ")), "{what}: {audit}");
    }
}

#[test]
fn what_cannot_be_scheduled_is_refused_with_a_reason() {
    let machine = machine();
    let serving = machine.serve();
    for (arguments, reason) in [
        (&["61 * * * *", "x"][..], "is not a cron expression; write five fields"),
        (&["--tz", "Mars/Base", "0 9 * * *", "x"], "such as Europe/Berlin"),
        (&["0 0 30 2 *", "x"], "is never due"),
        (&["0 9 * * *"], "say when"),
        (&["0 9 * * *", "x", "--every", "1h"], "leave the cron expression out"),
        (&["--every", "500ms", "x"], "at least one second"),
        (&["--at", "2001-01-01 10:00", "x"], "has passed"),
        (&["--at", "tomorrow", "x"], "is not a time"),
        (&["--at", "2040-01-01 10:00", "--tz", "Mars/Base", "x"], "--tz"),
        (&["--every", "1h", "--cwd", "nowhere", "x"], "not a directory"),
        (&["--every", "1h", "--missed", "maybe", "x"], "run_once"),
        (&["--every", "1h", " "], "the prompt is empty"),
        (&["--every", "1h", "--at", "2040-01-01 10:00", "x"], "cannot be used with"),
    ] {
        let refused = machine.angelia(&[&["schedule", "add"], arguments].concat());
        refused.assert_code(2).assert_stderr(reason);
    }
    let inside = machine.home();
    let watch = machine.angelia(&["schedule", "add", "--watch", inside.to_str().unwrap(), "x"]);
    watch.assert_code(2).assert_stderr("changes with every turn");
    let unknown = machine.angelia(&["schedule", "add", "--every", "1h", "-p", "nobody", "x"]);
    unknown.assert_code(2).assert_stderr("there is no profile `nobody`");
    let body = json!({"spec": "often", "prompt": "x"});
    let answer = http::request_api(&serving.socket, "POST", "/api/schedules", &body);
    assert_eq!(answer.status, 400, "{answer:?}");
    assert!(schedules(&machine).is_empty());
}

#[test]
fn a_result_is_sent_only_where_something_can_be() {
    let machine = machine();
    let add = |to: &str| machine.angelia(&["schedule", "add", "--every", "1h", "--to", to, "x"]);
    for serving in [false, true] {
        let _serving = serving.then(|| machine.serve());
        let refused = add("pigeon:roof");
        refused.assert_code(2).assert_stderr("there is no platform `pigeon`");
        refused.assert_stderr("an endpoint");
        add("web hook:team").assert_code(2).assert_stderr("is not a channel");
        add(" desk").assert_code(2).assert_stderr("blank");
        // The endpoint has no listener, but the bus keeps its messages.
        add("desk").assert_code(0);
    }
    // Only the daemon knows that the webhook is not set up, and which endpoints there are.
    let _serving = machine.serve();
    let refused = add("webhook:team");
    refused.assert_code(2).assert_stderr("none is set up").assert_stderr("the bus knows angelia");
    assert_eq!(schedules(&machine).len(), 2);
}

#[test]
fn an_agent_cannot_schedule_anything() {
    let machine = machine();
    let _serving = machine.serve();
    machine.angelia(&["run", "hello"]).assert_code(0);
    let session = machine.list("sessions")[0]["id"].as_str().unwrap().to_owned();
    let mark = bind(&machine, &session);
    for arguments in [&["schedule", "add", "--every", "1s", "x"][..], &["schedule", "list"]] {
        let refused = run_as_agent(&machine, &mark, arguments);
        refused.assert_code(1).assert_stderr("an agent's process cannot");
    }
    assert!(schedules(&machine).is_empty());
}

#[test]
fn a_schedule_runs_in_the_daemon_and_its_session_is_named() {
    let machine = machine();
    let serving = machine.serve();
    let at = jiff::Timestamp::now() + Duration::from_secs(1);
    let add = ["schedule", "add", "--at", &at.to_string(), "-s", "nightly", "tell me", "--json"];
    let added = machine.angelia(&add);
    assert_eq!(added.assert_code(0).stderr, "");
    let id = added_id(&added);
    until("it has run", || show(&machine, &id)["last"]["status"] == "completed");
    let shown = show(&machine, &id);
    assert_eq!((&shown["next_at"], &shown["paused"]), (&Value::Null, &json!(false)));
    let turn = shown["last"]["turn_id"].as_str().unwrap();
    assert_eq!(shown["results"][0]["turn_id"], turn);
    machine.angelia(&["turns", "show", turn]).assert_code(0).assert_stdout("You said: tell me");
    let session = &machine.list("sessions")[0];
    assert_eq!((&session["name"], &session["source"]), (&json!("nightly"), &json!("schedule")));
    machine.angelia(&["schedule", "list"]).assert_stdout("done").assert_stdout("completed");
    let answer = http::request_api(&serving.socket, "GET", "/api/schedules", &json!(null));
    assert_eq!(answer.status, 200, "{answer:?}");
    machine.angelia(&["run", "-s", "nightly", "and now?"]).assert_code(0);
}

/// Every occurrence runs at most once, whenever the daemon is killed.
#[test]
fn kill_9_never_runs_an_occurrence_twice() {
    let machine = machine();
    let added = machine.angelia(&["schedule", "add", "--every", "1s", "tick", "--json"]);
    let id = added_id(&added);
    let mut results = 0;
    for round in 0..6_u64 {
        let serving = machine.serve();
        until("something has run", || {
            let shown = show(&machine, &id);
            let known = shown["results"].as_array().map_or(0, Vec::len);
            let has_run = known > results && shown["last"]["turn_id"].is_string();
            results = if has_run { known } else { results };
            has_run
        });
        // At another moment of the second each time.
        thread::sleep(Duration::from_millis(170 * round));
        serving.kill();
    }
    let serving = machine.serve();
    machine.angelia(&["schedule", "pause", &id]).assert_code(0);
    until("everything has ended", || {
        let shown = show(&machine, &id);
        let all = shown["results"].as_array().unwrap();
        all.iter().all(|one| one["ended_at"].is_string())
    });
    let shown = show(&machine, &id);
    let all = shown["results"].as_array().unwrap();
    let times: Vec<&str> = all.iter().map(|one| one["at"].as_str().unwrap()).collect();
    let different: BTreeSet<&str> = times.iter().copied().collect();
    assert_eq!(different.len(), times.len(), "{times:?}");
    assert!(times.is_sorted_by(|one, other| one > other), "{times:?}");
    // Each turn belongs to one occurrence, and no turn is without one.
    let mut of_turns: BTreeMap<&str, usize> = BTreeMap::new();
    for turn in all.iter().filter_map(|one| one["turn_id"].as_str()) {
        *of_turns.entry(turn).or_default() += 1;
    }
    assert!(of_turns.values().all(|count| *count == 1), "{of_turns:?}");
    assert!(of_turns.len() >= 6);
    assert_eq!(machine.list("turns").len(), of_turns.len(), "{all:#?}");
    serving.stop();
}

#[test]
fn a_changed_file_begins_a_turn() {
    let machine = machine();
    let serving = machine.serve();
    let folder = machine.work().join("notes");
    fs::create_dir(&folder).unwrap();
    let watch = ["schedule", "add", "--watch", "notes", "check", "--json"];
    let added = machine.angelia(&watch);
    let id = added_id(&added);
    fs::write(folder.join("todo.txt"), "one").unwrap();
    until("it has run", || show(&machine, &id)["last"]["status"] == "completed");
    let turn = show(&machine, &id)["last"]["turn_id"].as_str().unwrap().to_owned();
    machine.angelia(&["turns", "show", &turn]).assert_stdout("\"todo.txt\"");
    machine.angelia(&["status"]).assert_stdout("on change");
    serving.stop();
    let last = show(&machine, &id)["last"].clone();
    assert_eq!((&last["status"], &last["note"]), (&json!("completed"), &Value::Null));
}

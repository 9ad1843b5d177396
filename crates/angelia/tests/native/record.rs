//! The conversation of our own loop is our record: it survives a kill, and nothing of it is done twice.

use std::fs;

use angelia_executors::native::provider::Api;
use angelia_testkit::{
    model_server::{Fault, ModelServer, Reply},
    scripted_provider,
};
use rustix::process::Signal;
use serde_json::json;

use crate::{
    http,
    machine::{Machine, until},
    provider_config::configuration,
    transcript::Transcript,
};

struct RecordLab {
    machine: Machine,
    server: ModelServer,
}

impl RecordLab {
    fn new(api: Api) -> Self {
        let machine = Machine::with_shell();
        let server = ModelServer::start().unwrap();
        let base_url = scripted_provider::base_url(&server, api);
        machine.configure(&configuration(api, &base_url, &json!({})));
        Self { machine, server }
    }

    fn last_request(&self) -> String {
        let requests = self.server.model_requests();
        String::from_utf8_lossy(&requests.last().unwrap().body).into_owned()
    }

    fn runs(&self) -> usize {
        let runs = fs::read_to_string(self.machine.work().join("runs")).unwrap_or_default();
        runs.lines().count()
    }
}

fn run_once() -> Reply {
    Reply::tool("bash", json!({"command": "echo run >> runs; echo was-run"}))
}

#[test]
fn a_run_that_was_killed_in_its_second_request_is_remembered() {
    for api in Api::ALL {
        let lab = RecordLab::new(api);
        lab.server.script([Reply::text("the first answer")]);
        let first = lab.machine.turn(&["the first question"]);
        first.completed();
        // The command has run when the model is asked again, and that request never ends.
        lab.server.script([run_once(), Reply::fault(Fault::HangBody)]);
        let arguments = ["run", "--json", "-s", first.session(), "the second question"];
        let running = lab.machine.start(&arguments);
        until("the model is asked again", || lab.server.model_requests().len() == 3);
        running.wait_for_stdout("partial");
        running.signal(Signal::KILL);
        running.wait();

        lab.server.script([Reply::text("the third answer")]);
        let third = lab.machine.turn(&["-s", first.session(), "the third question"]);
        assert_eq!(third.completed().text(), "the third answer");
        let asked = lab.last_request();
        for text in ["the first question", "the first answer", "the second question", "was-run"] {
            assert!(asked.contains(text), "{api:?}: no {text} in {asked}");
        }
        assert_eq!(lab.runs(), 1, "{api:?}");
        let turns = lab.machine.export(first.session());
        assert_eq!(turns.len(), 3);
        turns.iter().for_each(Transcript::ends_once);
    }
}

#[test]
fn a_daemon_that_was_killed_finds_its_sessions_again() {
    let lab = RecordLab::new(Api::Messages);
    let serving = lab.machine.serve();
    let session = http::session(&lab.machine, &serving.socket, "default");
    lab.server.script([run_once(), Reply::text("it was run")]);
    let turn = http::submit(&serving.socket, &session, "run it");
    assert!(http::follow(&serving.socket, &turn).contains("it was run"));
    lab.server.script([Reply::fault(Fault::HangHeaders)]);
    http::submit(&serving.socket, &session, "and hang");
    until("the model is asked", || lab.server.model_requests().len() == 3);
    serving.kill();

    let serving = lab.machine.serve();
    lab.server.script([Reply::text("still here")]);
    let turn = http::submit(&serving.socket, &session, "are you there?");
    assert!(http::follow(&serving.socket, &turn).contains("still here"));
    let asked = lab.last_request();
    assert!(asked.contains("it was run") && asked.contains("was-run"), "{asked}");
    assert_eq!(lab.runs(), 1);
    serving.stop();
}

const SUMMARY: &str = "They asked some questions.";

impl RecordLab {
    /// A lab whose model has a window of 4,000 tokens, and a session with six questions in it.
    fn with_full_window(api: Api) -> (Self, String) {
        let lab = Self::new(api);
        let base_url = scripted_provider::base_url(&lab.server, api);
        let settings = json!({"tools": "none"});
        let mut config: serde_json::Value =
            serde_json::from_str(&configuration(api, &base_url, &settings)).unwrap();
        config["providers"]["local"]["models"] = json!({"m": {"context": 4_000, "output": 100}});
        lab.machine.configure(&config.to_string());
        lab.server.script([Reply::text("answer 1.").with_tokens(600, 10)]);
        let first = lab.machine.turn(&[&question(1)]);
        for number in 2..=6 {
            let tokens = if number == 6 { 3_400 } else { number * 600 };
            lab.server.script([Reply::text(format!("answer {number}.")).with_tokens(tokens, 10)]);
            lab.machine.turn(&["-s", first.session(), &question(number)]).completed();
        }
        let session = first.session().to_owned();
        (lab, session)
    }
}

fn question(number: u64) -> String {
    let words = if number < 3 { 2 } else { 150 };
    format!("question {number}: {}", "some words ".repeat(words))
}

#[test]
fn e17_a_compaction_survives_a_kill_and_belongs_to_forks() {
    for api in Api::ALL {
        let (lab, session) = RecordLab::with_full_window(api);
        lab.server.script([Reply::text(SUMMARY), Reply::fault(Fault::HangBody)]);
        let asked = lab.server.model_requests().len();
        let running = lab.machine.start(&["run", "--json", "-s", &session, &question(7)]);
        until("the model is asked again", || lab.server.model_requests().len() == asked + 2);
        running.wait_for_stdout("partial");
        let without_marks =
            |body: String| body.replace(r#","cache_control":{"type":"ephemeral"}"#, "");
        let before = without_marks(lab.last_request());
        running.signal(Signal::KILL);
        running.wait();

        lab.server.script([Reply::text("the eighth answer")]);
        let eighth = lab.machine.turn(&["-s", &session, "question 8: and now?"]);
        assert_eq!(eighth.completed().text(), "the eighth answer");
        let after = without_marks(lab.last_request());
        for (text, is_there) in [(SUMMARY, true), ("question 1", true), ("question 4", false)] {
            assert_eq!(before.contains(text), is_there, "{api:?}: {text} in {before}");
        }
        // Everything that was sent before the question that nobody has answered is sent again.
        let kept = &before[..before.find("question 7").unwrap()];
        assert!(after.starts_with(kept), "{api:?}:\n{before}\n{after}");

        let forked = lab.machine.angelia(&["sessions", "fork", &session]);
        let copy = forked.assert_code(0).stdout.trim();
        lab.server.script([Reply::text("in the copy")]);
        lab.machine.turn(&["-s", copy, "question 9: elsewhere?"]).completed();
        let elsewhere = lab.last_request();
        assert!(elsewhere.contains(SUMMARY) && !elsewhere.contains("question 4"), "{elsewhere}");

        // The record has every original message.
        let exported = lab.machine.angelia(&["sessions", "export", &session]);
        let exported = &exported.assert_code(0).stdout;
        assert!(exported.contains("answer 4.") && exported.contains("question 4"), "{exported}");
    }
}

#[test]
fn e17_a_person_compacts_over_http() {
    let (lab, session) = RecordLab::with_full_window(Api::Messages);
    let serving = lab.machine.serve();
    let path = format!("/api/sessions/{session}/compact");
    let compact = || http::request_api(&serving.socket, "POST", &path, &serde_json::Value::Null);
    lab.server.script([Reply::status_with(400, "no summaries today")]);
    let refused = compact();
    assert_eq!((refused.status, &refused.body["compacted"]), (200, &json!(false)), "{refused:?}");
    assert!(refused.text.contains("no summaries today"), "{refused:?}");
    lab.server.script([Reply::text(SUMMARY)]);
    let done = compact();
    assert_eq!((done.status, &done.body["compacted"]), (200, &json!(true)), "{done:?}");
    assert!(done.body["reason"].as_str().unwrap().contains("shortened from"), "{done:?}");

    lab.server.script([Reply::fault(Fault::HangBody)]);
    let asked = lab.server.model_requests().len();
    let turn = http::submit(&serving.socket, &session, "question 7: and now?");
    until("the model is asked", || lab.server.model_requests().len() == asked + 1);
    assert!(lab.last_request().contains(SUMMARY));
    let busy = compact();
    assert_eq!(busy.status, 409, "{busy:?}");
    let stop = format!("/api/turns/{turn}/interrupt");
    http::request_api(&serving.socket, "POST", &stop, &json!({}));
    http::follow(&serving.socket, &turn);

    let made = http::session(&lab.machine, &serving.socket, "default");
    let path = format!("/api/sessions/{made}/compact");
    let empty = http::request_api(&serving.socket, "POST", &path, &serde_json::Value::Null);
    assert_eq!((empty.status, &empty.body["compacted"]), (200, &json!(false)), "{empty:?}");
    assert!(empty.text.contains("nothing to shorten"), "{empty:?}");
    serving.stop();
}

#[test]
fn a_fork_has_the_conversation_and_goes_its_own_way() {
    let lab = RecordLab::new(Api::Responses);
    lab.server.script([Reply::text("the common answer")]);
    let first = lab.machine.turn(&["the common question"]);
    let forked = lab.machine.angelia(&["sessions", "fork", first.session()]);
    let copy = forked.assert_code(0).stdout.trim();
    lab.server.script([Reply::text("only in the original"), Reply::text("only in the copy")]);
    lab.machine.turn(&["-s", first.session(), "go on"]).completed();
    lab.machine.turn(&["-s", copy, "go on elsewhere"]).completed();
    let asked = lab.last_request();
    assert!(asked.contains("the common answer"), "{asked}");
    assert!(!asked.contains("only in the original"), "{asked}");
}

#[test]
fn e22_a_snapshot_of_the_session_is_a_file() {
    let lab = RecordLab::new(Api::Chat);
    let base_url = scripted_provider::base_url(&lab.server, Api::Chat);
    let mut config: serde_json::Value =
        serde_json::from_str(&configuration(Api::Chat, &base_url, &json!({}))).unwrap();
    config["sessions"] = json!({"snapshots": true});
    lab.machine.configure(&config.to_string());
    lab.server.script([run_once(), Reply::text("kept in a file")]);
    let turn = lab.machine.turn(&["run it"]);
    turn.completed();
    let path = lab.machine.home().join(format!("snapshots/{}.json", turn.session()));
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains("kept in a file") && text.contains("was-run"), "{text}");
}

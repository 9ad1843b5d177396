//! A request runs once, however often it is sent; the scripted model counts the runs.

use std::{collections::BTreeSet, path::Path, thread};

use serde_json::{Value, json};

use crate::{
    checklist::{ClaudeFixture, on_each_version},
    http::{self, PlainResponse},
    machine::until,
};

const REPEATS: usize = 50;

/// Sends the same request several times at once.
fn send(socket: &Path, session: &str, key: &str, input: &str) -> Vec<PlainResponse> {
    let path = format!("/api/sessions/{session}/turns");
    let header = format!("idempotency-key: {key}\r\n");
    let body = json!({"input": input});
    thread::scope(|scope| {
        let one = || http::request_api_with(socket, "POST", &path, &body, &header);
        let all: Vec<_> = (0..REPEATS).map(|_| scope.spawn(one)).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

/// Returns the one turn that all requests got.
#[track_caller]
fn assert_one_turn(answers: &[PlainResponse]) -> String {
    for answer in answers {
        assert!((200..300).contains(&answer.status), "{answer:?}");
    }
    let ids: BTreeSet<&str> =
        (answers.iter()).map(|answer| answer.body["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
    ids.first().unwrap().to_string()
}

fn wait_for_end(socket: &Path, turn: &str) -> Value {
    http::follow(socket, turn);
    http::turn(socket, turn)
}

fn count_model_requests(lab: &ClaudeFixture) -> usize {
    lab.server.model_requests().len()
}

#[test]
fn real_the_same_request_sent_50_times_runs_once() {
    on_each_version(|lab| {
        lab.configure(&[]);
        let serving = lab.machine.serve();
        let socket = serving.socket.clone();
        let session = http::session(&lab.machine, &socket, "default");
        let input = "SLOW:1000 ECHO:said once";
        let turn = assert_one_turn(&send(&socket, &session, "a key", input));
        assert_eq!(wait_for_end(&socket, &turn)["text"], "said once");
        // The same after the turn has ended.
        assert_eq!(assert_one_turn(&send(&socket, &session, "a key", input)), turn);
        assert_eq!(count_model_requests(lab), 1);
        serving.stop().assert_code(0);

        // The same after a restart, when nothing is in memory.
        let serving = lab.machine.serve();
        let again = send(&socket, &session, "a key", input);
        assert_eq!(assert_one_turn(&again), turn);
        assert!(again.iter().all(|one| one.body["status"] == "completed"));
        assert_eq!(wait_for_end(&socket, &turn)["text"], "said once");
        for answer in send(&socket, &session, "a key", "ECHO:something else") {
            assert_eq!(answer.status, 409, "{answer:?}");
        }
        assert_eq!(count_model_requests(lab), 1, "the agent ran once");

        // With another key it is a different request.
        let other = assert_one_turn(&send(&socket, &session, "another key", input));
        assert_ne!(other, turn);
        assert_eq!(wait_for_end(&socket, &other)["text"], "said once");
        assert_eq!(count_model_requests(lab), 2);
        serving.stop().assert_code(0);
    });
}

#[test]
fn real_a_request_lost_to_a_crash_is_reported_and_never_rerun() {
    on_each_version(|lab| {
        lab.configure(&[]);
        let serving = lab.machine.serve();
        let socket = serving.socket.clone();
        let session = http::session(&lab.machine, &socket, "default");
        let turn = assert_one_turn(&send(&socket, &session, "a key", "HANG_BODY"));
        until("the model is asked", || count_model_requests(lab) == 1);
        serving.kill();

        let serving = lab.machine.serve();
        assert_eq!(assert_one_turn(&send(&socket, &session, "a key", "HANG_BODY")), turn);
        let lost = wait_for_end(&socket, &turn);
        assert_eq!(lost["status"], "failed", "{lost}");
        assert_eq!(count_model_requests(lab), 1, "it was not rerun");
        let next = http::submit(&socket, &session, "ECHO:and on");
        assert_eq!(wait_for_end(&socket, &next)["text"], "and on");
        serving.stop().assert_code(0);
    });
}

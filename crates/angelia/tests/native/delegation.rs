//! `delegate` in our own loop: other profiles, several at once, never deeper than the limit, and paid from
//! the budget of the turn that hands work on.

use std::{
    thread,
    time::{Duration, Instant},
};

use angelia_executors::native::provider::Api;
use angelia_testkit::{
    model_server::{Fault, ModelServer, Reply, ReplyBlock},
    scripted_provider,
};
use serde_json::{Value, json};

use crate::{
    machine::{DEADLINE, Machine, until},
    provider_config::configuration,
};

struct DelegationLab {
    machine: Machine,
    model: ModelServer,
}

impl DelegationLab {
    /// `change`: modifies the configuration, in which `default` may hand work to `helper`.
    fn new(api: Api, change: impl FnOnce(&mut Value)) -> Self {
        let machine = Machine::with_shell();
        let model = ModelServer::start().unwrap();
        let base_url = scripted_provider::base_url(&model, api);
        let text = configuration(api, &base_url, &json!({"permissions": "ask"}));
        let mut config: Value = serde_json::from_str(&text).unwrap();
        config["profiles"]["helper"] = config["profiles"]["default"].clone();
        config["profiles"]["default"]["delegate_to"] = json!(["helper"]);
        change(&mut config);
        machine.configure(&config.to_string());
        Self { machine, model }
    }

    fn requests(&self) -> Vec<String> {
        let requests = self.model.model_requests();
        requests.iter().map(|one| String::from_utf8_lossy(&one.body).into_owned()).collect()
    }

    fn last_request(&self) -> String {
        self.requests().pop().unwrap()
    }
}

fn delegate(task: &str) -> ReplyBlock {
    ReplyBlock::Tool { name: "delegate".to_owned(), input: json!({"task": task}) }
}

#[test]
fn work_is_handed_to_another_profile_and_comes_back() {
    for api in Api::ALL {
        let lab = DelegationLab::new(api, |_| {});
        lab.model.script([
            Reply::message(vec![delegate("count the sheep")]),
            Reply::text("there are seven sheep"),
            Reply::text("done"),
        ]);
        let turn = lab.machine.turn(&["how many sheep are there?"]);
        assert_eq!(turn.completed().text(), "done", "{api:?}: {turn:#?}");
        let requests = lab.requests();
        assert!(requests[0].contains("`helper` (native local/m)"), "{api:?}: {}", requests[0]);
        assert!(!requests[1].contains("how many sheep"), "{api:?}: {}", requests[1]);
        assert!(requests[2].contains("there are seven sheep"), "{api:?}: {}", requests[2]);
        let sessions = lab.machine.list("sessions");
        let source = |session: &Value| session["source"].as_str().unwrap().to_owned();
        let sources: Vec<_> = sessions.iter().map(source).collect();
        assert!(sources.contains(&"agent".to_owned()), "{sources:?}");
    }
}

#[test]
fn several_tasks_of_one_answer_run_at_the_same_time_but_not_more_than_four() {
    let lab = DelegationLab::new(Api::Messages, |_| {});
    let tasks = (0..6).map(|number| delegate(&format!("task {number}")));
    let hang = || Reply::fault(Fault::HangHeaders);
    lab.model.script([Reply::message(tasks.collect()), hang(), hang(), hang(), hang()]);
    let running = lab.machine.start(&["run", "go on"]);
    until("four tasks run", || lab.requests().len() == 5);
    // The fifth waits for one of them. There is nothing to wait for, so a moment must do.
    let until = Instant::now() + Duration::from_millis(300);
    while Instant::now() < until {
        assert_eq!(lab.requests().len(), 5);
        thread::yield_now();
    }
    running.signal(rustix::process::Signal::INT);
    running.wait_within(DEADLINE).assert_code(130);
}

#[test]
fn work_is_handed_on_three_times_and_no_further() {
    let lab = DelegationLab::new(Api::Chat, |config| {
        config["profiles"]["helper"]["delegate_to"] = json!(["helper"]);
    });
    lab.model.script([
        Reply::message(vec![delegate("one")]),
        Reply::message(vec![delegate("two")]),
        Reply::message(vec![delegate("three")]),
        Reply::message(vec![delegate("four")]),
        Reply::text("the deepest"),
        Reply::text("second"),
        Reply::text("first"),
        Reply::text("done"),
    ]);
    let turn = lab.machine.turn(&["go on"]);
    assert_eq!(turn.completed().text(), "done", "{turn:#?}");
    let deepest = &lab.requests()[4];
    assert!(deepest.contains("has been handed on 3 times"), "{deepest}");
}

#[test]
fn what_others_cost_counts_against_the_limit_of_the_turn() {
    let lab = DelegationLab::new(Api::Messages, |config| {
        let price = json!({"input": 0, "output": 1_000_000, "cache_read": 0, "cache_write": 0});
        config["providers"]["local"]["models"] = json!({"m": {"price": price}});
        config["profiles"]["default"]["max_cost_usd"] = json!(100);
    });
    // Every answer reports 25 tokens, which are 25 dollars.
    lab.model.script([
        Reply::message(vec![delegate("one")]),
        Reply::text("one is done"),
        Reply::message(vec![delegate("two")]),
        Reply::text("two is done"),
        Reply::fault(Fault::HangHeaders),
    ]);
    let turn = lab.machine.turn(&["go on"]);
    let end = turn.end();
    assert_eq!((&end["status"], &end["reason"]), (&"partial".into(), &"max_cost_usd".into()));
    // A further request may have begun before the limit ended the turn.
    assert!((4..=5).contains(&lab.requests().len()));
    let own = end["usage"]["cost_usd"].as_f64().unwrap();
    assert!(own < 100.0, "its own usage is its own: {own}");
}

#[test]
fn a_task_has_at_most_fifty_requests() {
    let lab = DelegationLab::new(Api::Responses, |_| {});
    let step = |number| Reply::tool("bash", json!({"command": format!("echo {number}")}));
    let steps = (0..51).map(step);
    lab.model.script(
        [Reply::message(vec![delegate("work for long")])]
            .into_iter()
            .chain(steps)
            .chain([Reply::text("done")]),
    );
    let turn = lab.machine.turn(&["go on"]);
    assert_eq!(turn.completed().text(), "done", "{turn:#?}");
    // The task itself, fifty requests, one that must answer, and the answer to the person.
    assert_eq!(lab.requests().len(), 53);
    assert!(lab.last_request().contains(": partial]"), "{}", lab.last_request());
}

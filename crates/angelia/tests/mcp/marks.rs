//! Processes of agents that try to hide their mark.

use serde_json::{Value, json};

use crate::{
    agent_processes::home_id,
    client::{self, call},
    machine::Machine,
};

fn steps() -> [Value; 4] {
    [
        call("delegate", &json!({"profile": "helper", "task": "x"})),
        call("sessions_list", &json!({})),
        call("approvals_pending", &json!({})),
        call("bus_status", &json!({})),
    ]
}

/// An agent whose session is unknown may do nothing, whatever identity it claims.
#[test]
fn a_mark_that_belongs_to_no_session_opens_nothing() {
    let mut machine = Machine::new();
    machine.configure(
        "profiles:\n  default: {executor: parrot, delegate_to: [helper]}\n  helper: {executor: parrot}\n",
    );
    machine.angelia(&["run", "what nobody else should read"]).assert_code(0);
    let own = format!("{}:owner:agent", home_id(&machine));
    let marks = [own.as_str(), "another:owner:agent", "nonsense"];
    for mark in marks {
        machine.set("ANGELIA_AGENT", mark);
        check(&client::run(&machine, &[], &steps()));
    }
    // Removing the mark does not turn the process into the owner's.
    machine.set("ANGELIA_AGENT", "");
    for mark in marks {
        let client = client::start_unmarked(&machine, mark, &steps());
        check(&client::finish(client, &steps()));
    }
    assert_eq!(machine.list("turns").len(), 1);
    // A daemon that an agent started does not act for the owner.
    machine.set("ANGELIA_AGENT", "released");
    let owner = client::run(&machine, &[], &steps());
    assert!(owner[0].assert_success().contains("Parrot"));
}

#[track_caller]
fn check(answers: &[client::McpCallResult]) {
    for answer in &answers[..3] {
        answer.assert_tool_error("cannot tell which session is asking");
    }
    assert_eq!(answers[3].json()["running"], false);
}

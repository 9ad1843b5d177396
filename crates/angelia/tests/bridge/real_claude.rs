//! The bridge on the real Claude Code, oldest and newest, with a scripted model.

use angelia_testkit::{model_server::ModelServer, real::RealClaude};
use serde_json::{Value, json};

use crate::{
    host::{Host, NATIVE, assert_final, joined_text, of_type, response, run_request},
    machine::Machine,
};

struct BridgeFixture {
    machine: Machine,
    server: ModelServer,
}

impl BridgeFixture {
    fn new(claude: &RealClaude) -> Self {
        let machine = Machine::with_shell();
        let server = ModelServer::start().unwrap();
        machine.configure(&format!(
            "profiles:\n  default:\n    executor: claude\n{}",
            claude.config_lines(&machine.place, &server.base_url())
        ));
        Self { machine, server }
    }

    /// Returns the last request that the model received.
    fn last_model_request(&self) -> Value {
        self.server.model_requests().pop().unwrap().json()
    }
}

/// Runs a test on both versions.
#[expect(clippy::print_stderr, reason = "a failure has to say on which version")]
fn on_both(test: impl Fn(&BridgeFixture)) {
    for claude in RealClaude::for_product_tests().unwrap() {
        eprintln!("--- Claude Code {}", claude.version);
        test(&BridgeFixture::new(&claude));
    }
}

fn bash(command: &str) -> String {
    let input = json!({"command": command, "description": "a test's command"});
    format!("TOOL:{}:END", json!({"name": "Bash", "input": input}))
}

#[test]
fn real_b02_b06_a_conversation_goes_on_in_a_later_process() {
    on_both(|lab| {
        let mut host = Host::start(&lab.machine, &["--model", "sonnet"]);
        let events = host.run("r1", "s", "the number is 41 ECHO:noted");
        assert_eq!(response(&events), "noted");
        let end = assert_final(&events, "completed");
        assert!(end["usage"]["output_tokens"].as_u64().unwrap() > 0, "{end}");
        assert_eq!(end["api_calls"], 1);
        host.shut_down();
        let mut host = Host::start(&lab.machine, &[]);
        let events = host.run("r2", "s", "and now? ECHO:still");
        assert_eq!(response(&events), "still");
        host.shut_down();
        let asked = lab.last_model_request();
        let history = asked["messages"].to_string();
        assert!(history.contains("the number is 41"), "{history}");
        let model = asked["model"].as_str().unwrap();
        assert!(model.contains("sonnet"), "{model}");
    });
}

#[test]
fn real_b09_b12_deltas_are_the_models_own() {
    on_both(|lab| {
        let mut host = Host::start(&lab.machine, &NATIVE);
        let events = host.run("r", "s", "WORDS:20:5");
        assert_final(&events, "completed");
        assert_eq!(of_type(&events, "assistant_delta").len(), 20, "{events:#?}");
        assert_eq!(joined_text(&events, "assistant_delta").trim(), response(&events).trim());
        let synthetic = json!({"native_stream": false, "assistant_delta": true});
        let events = host.run_with("r", "s2", "WORDS:20", synthetic);
        let message = of_type(&events, "assistant_message")[0]["text"].as_str().unwrap();
        assert_eq!(joined_text(&events, "assistant_delta"), message);
        host.shut_down();
    });
}

#[test]
fn real_b14_approvals_let_a_tool_run_or_not() {
    on_both(|lab| {
        let mut host = Host::start(&lab.machine, &[]);
        for (verdict, ok) in [("once", true), ("deny", false)] {
            let file = lab.machine.work().join(verdict);
            let command = format!("touch '{}'", file.display());
            host.send(&run_request("r", verdict, &bash(&command)));
            let asked = host.read_until_type("approval_requested").pop().unwrap();
            assert_eq!(asked["kind"], "tool");
            assert!(asked["title"].as_str().unwrap().contains("touch"), "{asked}");
            let id = &asked["approval_id"];
            host.send(&json!({"type": "approve", "approval_id": id, "verdict": verdict}));
            let events = host.read_until_type("final");
            let end = assert_final(&events, "completed");
            assert_eq!(end["api_calls"], 2, "{end}");
            let finished = of_type(&events, "tool_finished");
            assert_eq!(finished[0]["ok"], ok, "{events:#?}");
            assert_eq!(file.exists(), ok);
        }
        host.shut_down();
    });
}

#[test]
fn real_b04_an_interrupted_conversation_goes_on() {
    on_both(|lab| {
        let mut host = Host::start(&lab.machine, &NATIVE);
        host.send(&run_request("r", "s", "WORDS:1000:50"));
        host.read_until_type("assistant_delta");
        host.send(&json!({"type": "interrupt", "session_id": "s", "message": "stop"}));
        let events = host.read_until_type("final");
        let end = assert_final(&events, "interrupted");
        assert_eq!(end["interrupt_message"], "stop");
        assert_eq!(of_type(&events, "interrupt_ack").len(), 1);
        let events = host.run("r2", "s", "ECHO:goes on");
        assert_final(&events, "completed");
        assert_eq!(response(&events), "goes on");
        host.shut_down();
    });
}

#[test]
fn real_b18_flags_reach_the_program() {
    on_both(|lab| {
        let flags = ["--toolsets", "Read,Glob", "--model", "haiku", "--max-iterations", "2"];
        let mut host = Host::start(&lab.machine, &flags);
        assert_final(&host.run("r", "s", "ECHO:hi"), "completed");
        host.shut_down();
        let asked = lab.last_model_request();
        let tools = asked["tools"].as_array().unwrap().iter();
        let mut tools: Vec<_> = tools.map(|tool| tool["name"].as_str().unwrap()).collect();
        tools.retain(|name| ["Bash", "Read", "Glob", "Edit", "Write"].contains(name));
        tools.sort_unstable();
        assert_eq!(tools, ["Glob", "Read"]);
        assert!(asked["model"].as_str().unwrap().contains("haiku"), "{}", asked["model"]);
    });
}

#[test]
fn real_b15_a_failure_of_the_model_is_told() {
    on_both(|lab| {
        let mut host = Host::start(&lab.machine, &[]);
        let events = host.run("r", "s", "STATUS:401");
        let end = assert_final(&events, "failed");
        assert_eq!(end["error"]["kind"], "auth", "{end}");
        host.shut_down();
    });
}

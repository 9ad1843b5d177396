//! MCP servers in our own loop through the program: the owner's patterns decide about their tools, and
//! nothing outlives a run, however it ends.

use std::{fs, path::PathBuf};

use angelia_executors::native::provider::Api;
use angelia_testkit::{
    mcp_servers,
    model_server::{ModelServer, Reply},
    scripted_provider,
};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    machine::{Machine, until},
    provider_config::configuration,
};

struct ServerLab {
    machine: Machine,
    model: ModelServer,
}

impl ServerLab {
    /// `change`: modifies the configuration, whose default profile is in `profiles.default`.
    fn new(api: Api, more: &Value, change: impl FnOnce(&Machine, &mut Value)) -> Self {
        let machine = Machine::with_shell();
        let model = ModelServer::start().unwrap();
        let base_url = scripted_provider::base_url(&model, api);
        let text = configuration(api, &base_url, more);
        let mut config = serde_json::from_str(&text).unwrap();
        change(&machine, &mut config);
        machine.configure(&config.to_string());
        Self { machine, model }
    }

    /// With the server that notes in a folder what happens to it.
    fn watched(api: Api, more: &Value) -> Self {
        Self::new(api, more, |machine, config| {
            let folder = notes(machine);
            fs::create_dir(&folder).unwrap();
            config["mcp_servers"] = json!({"watched": mcp_servers::watched(&folder, 0).unwrap()});
        })
    }

    fn last_request(&self) -> String {
        let requests = self.model.model_requests();
        String::from_utf8_lossy(&requests.last().unwrap().body).into_owned()
    }

    /// Whether the server that has noted this is gone.
    fn is_gone(&self, note: &str) -> bool {
        let pid = fs::read_to_string(notes(&self.machine).join(note)).unwrap();
        !PathBuf::from(format!("/proc/{}/environ", pid.lines().next_back().unwrap())).exists()
    }
}

fn notes(machine: &Machine) -> PathBuf {
    machine.place.root().join("notes")
}

#[test]
fn real_patterns_of_the_owner_decide_about_tools_of_servers() {
    let rules = json!({"permissions": "ask", "allowed_tools": ["mcp__watched__rep*"],
        "disallowed_tools": ["mcp__watched__die"]});
    for api in Api::ALL {
        let lab = ServerLab::watched(api, &rules);
        lab.model.script([
            Reply::tool("mcp__watched__repeat", json!({"text": "ha", "times": 3})),
            // Nobody is there to be asked about this one.
            Reply::tool("mcp__watched__alone", json!({"name": "x"})),
            Reply::tool("mcp__watched__die", json!({})),
            Reply::text("done"),
        ]);
        let turn = lab.machine.turn(&["go on"]);
        assert_eq!(turn.completed().text(), "done", "{api:?}: {turn:#?}");
        let started = turn.of_type("notice").into_iter().find(|one| one["code"] == "mcp_started");
        assert_eq!(started.unwrap()["detail"]["server"], "watched");
        let request = lab.last_request();
        assert!(request.contains("hahaha"), "{api:?}: {request}");
        assert!(request.contains("not allowed"), "{api:?}: {request}");
        assert!(request.contains("there is no tool"), "{api:?}: {request}");
        until("the server is gone", || lab.is_gone("started"));
    }
}

#[test]
fn real_a_killed_run_leaves_no_server() {
    let lab = ServerLab::watched(Api::Messages, &json!({}));
    lab.model.script([Reply::tool("mcp__watched__wait", json!({}))]);
    let running = lab.machine.start(&["run", "go on"]);
    until("the call runs", || notes(&lab.machine).join("waiting").exists());
    running.signal(Signal::KILL);
    running.wait();
    until("the server is gone", || lab.is_gone("waiting"));
}

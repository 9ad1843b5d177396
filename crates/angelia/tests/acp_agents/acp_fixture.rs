//! A machine whose default profile runs an ACP agent.

use std::collections::BTreeMap;

use angelia_testkit::{acp_agents::AcpAgent, model_server::ModelServer};
use serde_json::{Value, json};

use crate::{agent_processes::agent_pids, machine::Machine, transcript::Transcript};

pub(crate) struct AcpAgentFixture {
    pub(crate) machine: Machine,
    pub(crate) model: ModelServer,
}

impl AcpAgentFixture {
    /// Every permission request of the agent is allowed.
    pub(crate) fn new(agent: impl FnOnce(&Machine, &str) -> AcpAgent) -> Self {
        let mut machine = Machine::new();
        let path = machine.place.environment();
        let path = path.into_iter().find(|(name, _)| name == "PATH").unwrap().1;
        machine.set("PATH", path);
        let model = ModelServer::start().unwrap();
        let agent = agent(&machine, &model.base_url());
        let env: BTreeMap<String, String> = agent.env.into_iter().collect();
        let profile = json!({"executor": "acp", "command": agent.command, "env": env,
            "permissions": "unattended", "warm": 0});
        machine.configure(&json!({"profiles": {"default": profile}}).to_string());
        Self { machine, model }
    }

    #[track_caller]
    pub(crate) fn turn(&self, prompt: &str) -> Transcript {
        self.run_turn_with(&[prompt])
    }

    /// Runs one turn, and asserts that none of its processes is left.
    #[track_caller]
    pub(crate) fn run_turn_with(&self, arguments: &[&str]) -> Transcript {
        let turn = self.machine.turn(arguments);
        assert_eq!(agent_pids(&self.machine), [0_u32; 0], "{turn:#?}");
        turn
    }

    /// Runs a turn that calls one tool and then answers.
    #[track_caller]
    pub(crate) fn run_tool_turn(&self, name: &str, input: &Value) -> Transcript {
        let call = json!({"name": name, "input": input});
        self.turn(&format!("TOOL:{call}:END ECHO:done"))
    }

    /// Returns the last request that the model received, as text.
    pub(crate) fn last_model_request(&self) -> String {
        let requests = self.model.model_requests();
        requests.last().unwrap().json().to_string()
    }
}

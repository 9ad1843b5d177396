//! The suite on a real ACP agent: Claude's adapter with its bundled Claude Code, against the
//! scripted model on loopback.

use angelia_core::model::{NativeSessionId, SessionSpec};
use angelia_executors::{
    Registration, acp,
    selftest::{AgentProgram, CheckedAgent},
};
use angelia_testkit::{acp_agents::AcpAgent, isolated_home::IsolatedHome, real::RealClaude};

use crate::scripted::ScriptedProgram;

struct ClaudeAdapter;

fn spec_of(agent: AcpAgent, place: &IsolatedHome) -> SessionSpec {
    let mut spec = SessionSpec::new("acp", place.work_dir());
    spec.command = agent.command.into_iter().map(Into::into).collect();
    for (name, value) in agent.env {
        spec.env.insert(name.into(), value.into());
    }
    spec
}

impl ScriptedProgram for ClaudeAdapter {
    fn registration(&self) -> &'static Registration {
        &acp::REGISTRATION
    }

    fn program(&self) -> AgentProgram {
        let command = AcpAgent::claude_command().unwrap();
        AgentProgram { binary: None, command: command.into_iter().map(Into::into).collect() }
    }

    fn spec_without_login(&self, place: &IsolatedHome, base_url: &str) -> SessionSpec {
        spec_of(AcpAgent::claude(place, base_url).unwrap(), place)
    }

    /// The adapter keeps Claude Code running as a child.
    fn parts(&self) -> &'static [&'static str] {
        &["claude-agent-sdk"]
    }

    /// Kills the grandparent: a command's parent is Claude Code, and that one's parent is the
    /// adapter.
    fn die(&self, agent: &dyn CheckedAgent) -> String {
        agent.approval_prompt(
            "kill -9 $(awk '/^PPid:/{print $2}' /proc/$PPID/status); timeout 60 tail -f /dev/null",
        )
    }

    fn has_record(&self, place: &IsolatedHome, native: &NativeSessionId) -> bool {
        RealClaude::has_record(place, native.as_str())
    }
}

mod real_acp_claude {
    use angelia_testkit::executor_conformance;

    use super::ClaudeAdapter;
    use crate::scripted::RealFixture;

    executor_conformance!(RealFixture::new(ClaudeAdapter));
}

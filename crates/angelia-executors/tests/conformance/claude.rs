//! The real Claude Code, with a dummy key, against the scripted model on loopback.

use angelia_core::model::{NativeSessionId, SessionSpec};
use angelia_executors::{Registration, claude};
use angelia_testkit::{isolated_home::IsolatedHome, real::RealClaude};
use serde_json::{Value, json};

use crate::scripted::{ScriptedProgram, call};

pub(crate) fn bash(command: &str) -> String {
    let input = json!({"command": command, "description": "a test's command"});
    call("Bash", &input)
}

impl ScriptedProgram for RealClaude {
    fn registration(&self) -> &'static Registration {
        &claude::REGISTRATION
    }

    fn spec(&self, place: &IsolatedHome, base_url: &str) -> SessionSpec {
        self.spec(place, base_url)
    }

    fn spec_without_login(&self, place: &IsolatedHome, base_url: &str) -> SessionSpec {
        self.spec_without_login(place, base_url)
    }

    fn run(&self, command: &str) -> String {
        bash(command)
    }

    fn call(&self, tool: &str) -> Option<String> {
        Some(call(&format!("mcp__client__{tool}"), &json!({})))
    }

    fn structured(&self, value: &Value) -> Option<String> {
        Some(call("StructuredOutput", value))
    }

    fn has_record(&self, place: &IsolatedHome, native: &NativeSessionId) -> bool {
        Self::has_record(place, native.as_str())
    }
}

mod real_claude_oldest {
    use angelia_testkit::{executor_conformance, real::RealClaude};

    use crate::scripted::ScriptedFixture;

    executor_conformance!(ScriptedFixture::new(RealClaude::oldest().unwrap()));
}

mod real_claude_newest {
    use angelia_testkit::{executor_conformance, real::RealClaude};

    use crate::scripted::ScriptedFixture;

    executor_conformance!(ScriptedFixture::new(RealClaude::newest().unwrap()));
}

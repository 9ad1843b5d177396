//! The real Claude Code, with a dummy key, against the scripted model on loopback.

use angelia_core::model::{NativeSessionId, SessionSpec};
use angelia_executors::{
    Registration, claude, scripted_model::directive::tool_call_directive, selftest::AgentProgram,
};
use angelia_testkit::{isolated_home::IsolatedHome, real::RealClaude};
use serde_json::Value;

use crate::scripted::ScriptedProgram;

impl ScriptedProgram for RealClaude {
    fn registration(&self) -> &'static Registration {
        &claude::REGISTRATION
    }

    fn program(&self) -> AgentProgram {
        AgentProgram { binary: Some(self.path.clone()), command: Vec::new() }
    }

    fn spec_without_login(&self, place: &IsolatedHome, base_url: &str) -> SessionSpec {
        self.spec_without_login(place, base_url)
    }

    fn structured(&self, value: &Value) -> Option<String> {
        Some(format!("{} ECHO:done", tool_call_directive("StructuredOutput", value)))
    }

    fn has_record(&self, place: &IsolatedHome, native: &NativeSessionId) -> bool {
        Self::has_record(place, native.as_str())
    }
}

mod real_claude_oldest {
    use angelia_testkit::{executor_conformance, real::RealClaude};

    use crate::scripted::RealFixture;

    executor_conformance!(RealFixture::new(RealClaude::oldest().unwrap()));
}

mod real_claude_newest {
    use angelia_testkit::{executor_conformance, real::RealClaude};

    use crate::scripted::RealFixture;

    executor_conformance!(RealFixture::new(RealClaude::newest().unwrap()));
}

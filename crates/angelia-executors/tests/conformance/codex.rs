//! The real Codex, with a dummy key, against the scripted model on loopback.

use std::path::{Path, PathBuf};

use angelia_core::model::{NativeSessionId, SessionSpec};
use angelia_executors::{
    Registration, codex,
    scripted_model::directive::tool_call_directive,
    selftest::{AgentProgram, CheckedAgent},
};
use angelia_testkit::{
    codex_home::{self, CodexLogin},
    isolated_home::IsolatedHome,
    real::RealCodex,
};
use serde_json::{Value, json};

use crate::scripted::ScriptedProgram;

fn home(place: &IsolatedHome) -> PathBuf {
    place.root().join("codex")
}

fn spec_of(codex: &RealCodex, place: &IsolatedHome, home: &Path) -> SessionSpec {
    let mut spec = SessionSpec::new("codex", place.work_dir());
    spec.binary = Some(codex.path.clone());
    let home = home.to_str().unwrap();
    for (name, value) in [("CODEX_HOME", home), (codex_home::KEY_VARIABLE, "dummy")] {
        spec.env.insert(name.into(), value.into());
    }
    spec
}

impl ScriptedProgram for RealCodex {
    fn registration(&self) -> &'static Registration {
        &codex::REGISTRATION
    }

    fn program(&self) -> AgentProgram {
        AgentProgram { binary: Some(self.path.clone()), command: Vec::new() }
    }

    fn prepare(&self, place: &IsolatedHome) {
        codex_home::widen_context_window(&home(place)).unwrap();
    }

    fn spec_without_login(&self, place: &IsolatedHome, base_url: &str) -> SessionSpec {
        let folder = place.root().join("codex-without-login");
        let home = codex_home::create(folder, base_url, CodexLogin::Account, "").unwrap();
        spec_of(self, place, &home)
    }

    fn shares_processes(&self) -> bool {
        true
    }

    /// Outside the sandbox, a command's parent is the process that serves all threads.
    fn die(&self, _agent: &dyn CheckedAgent) -> String {
        let command = "kill -9 $PPID; timeout 60 tail -f /dev/null";
        let input = json!({"cmd": command, "sandbox_permissions": "require_escalated",
            "justification": "to see what happens"});
        tool_call_directive("exec_command", &input)
    }

    fn structured(&self, value: &Value) -> Option<String> {
        Some(format!("ECHO:{value}"))
    }

    fn has_record(&self, place: &IsolatedHome, native: &NativeSessionId) -> bool {
        codex_home::has_record(&home(place), native.as_str())
    }
}

mod real_codex {
    use angelia_testkit::{executor_conformance, real::RealCodex};

    use crate::scripted::RealFixture;

    executor_conformance!(RealFixture::new(RealCodex::find().unwrap()));
}

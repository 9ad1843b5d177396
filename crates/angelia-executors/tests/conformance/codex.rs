//! The real Codex, with a dummy key, against the scripted model on loopback.

use std::path::{Path, PathBuf};

use angelia_core::model::{NativeSessionId, SessionSpec};
use angelia_executors::{Registration, codex};
use angelia_testkit::{
    codex_home::{self, CodexLogin},
    isolated_home::IsolatedHome,
    real::RealCodex,
};
use serde_json::{Value, json};

use crate::scripted::{ScriptedProgram, call};

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

    fn prepare(&self, place: &IsolatedHome, base_url: &str) {
        let home = codex_home::create(home(place), base_url, CodexLogin::Key, "").unwrap();
        codex_home::widen_context_window(&home).unwrap();
    }

    fn spec(&self, place: &IsolatedHome, _base_url: &str) -> SessionSpec {
        spec_of(self, place, &home(place))
    }

    fn spec_without_login(&self, place: &IsolatedHome, base_url: &str) -> SessionSpec {
        let folder = place.root().join("codex-without-login");
        let home = codex_home::create(folder, base_url, CodexLogin::Account, "").unwrap();
        spec_of(self, place, &home)
    }

    fn shares_processes(&self) -> bool {
        true
    }

    fn run(&self, command: &str) -> String {
        call("exec_command", &json!({"cmd": command}))
    }

    /// Outside the sandbox, a command's parent is the process that serves all threads.
    fn die(&self) -> String {
        let command = "kill -9 $PPID; timeout 60 tail -f /dev/null";
        let input = json!({"cmd": command, "sandbox_permissions": "require_escalated",
            "justification": "to see what happens"});
        call("exec_command", &input)
    }

    fn call(&self, tool: &str) -> Option<String> {
        Some(call(tool, &json!({})))
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

    use crate::scripted::ScriptedFixture;

    executor_conformance!(ScriptedFixture::new(RealCodex::find().unwrap()));
}

//! The real Codex, with a dummy key, against the scripted model on loopback.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use angelia_core::{
    model::{NativeSessionId, SessionSpec},
    ports::Executor,
};
use angelia_executors::codex;
use angelia_testkit::{
    codex_home::{self, Login},
    conformance::executor::{ExecutorFixture, LongTool},
    model_server::ModelServer,
    real::RealCodex,
};
use serde_json::{Value, json};

use crate::place::Place;

struct Codex {
    place: Place,
    program: RealCodex,
    server: ModelServer,
    home: PathBuf,
    tools: AtomicU32,
}

impl Codex {
    fn new() -> Self {
        let place = Place::new(&codex::REGISTRATION, |_| "/nonexistent".into());
        let server = ModelServer::start().unwrap();
        let home = place.isolated.root().join("codex");
        let home = codex_home::make(home, &server.base_url(), Login::Key, "").unwrap();
        codex_home::widen(&home).unwrap();
        Self {
            place,
            program: RealCodex::find().unwrap(),
            server,
            home,
            tools: AtomicU32::new(0),
        }
    }

    fn tool(&self, command: impl FnOnce(&str) -> String) -> LongTool {
        let number = self.tools.fetch_add(1, Ordering::Relaxed);
        let running = format!("running-{number}");
        LongTool {
            prompt: exec(&command(&running)),
            running: Some(self.place.isolated.work().join(running)),
        }
    }
}

/// Makes the model call one tool, and then say so.
fn call(tool: &str, input: &Value) -> String {
    let call = json!({"name": tool, "input": input});
    format!("TOOL:{call}:END ECHO:done")
}

fn exec(command: &str) -> String {
    call("exec_command", &json!({"cmd": command}))
}

impl ExecutorFixture for Codex {
    fn executor(&self) -> &Arc<dyn Executor> {
        &self.place.executor
    }

    fn spec(&self) -> SessionSpec {
        let mut spec = SessionSpec::new("codex", self.place.isolated.work());
        spec.binary = Some(self.program.path.clone());
        let home = self.home.to_str().unwrap();
        for (name, value) in [("CODEX_HOME", home), (codex_home::KEY, "dummy")] {
            spec.env.insert(name.into(), value.into());
        }
        spec
    }

    fn mark(&self) -> String {
        self.place.mark.clone()
    }

    fn shares_processes(&self) -> bool {
        true
    }

    fn say(&self, text: &str) -> String {
        format!("ECHO:{text}")
    }

    fn words(&self, count: usize, pause: Duration) -> String {
        format!("WORDS:{count}:{}", pause.as_millis())
    }

    fn ask(&self, command: &str) -> String {
        exec(command)
    }

    fn long_tool(&self) -> LongTool {
        self.tool(|running| format!("touch {running}; exec sleep 60"))
    }

    fn escaped_tool(&self) -> LongTool {
        self.tool(|running| format!("setsid sh -c 'touch {running}; exec sleep 60'"))
    }

    fn hang(&self) -> String {
        "HANG_HEADERS".to_owned()
    }

    fn fail_auth(&self) -> (SessionSpec, String) {
        let folder = self.place.isolated.root().join("codex-without-login");
        let url = self.server.base_url();
        let folder = codex_home::make(folder, &url, Login::Account, "").unwrap();
        let mut spec = self.spec();
        let folder = folder.to_str().unwrap();
        spec.env.insert("CODEX_HOME".into(), folder.into());
        (spec, "hello".to_owned())
    }

    /// Out of the sandbox, its parent is the process that serves all threads.
    fn die(&self) -> Option<String> {
        let command = "kill -9 $PPID; timeout 60 tail -f /dev/null";
        let input = json!({"cmd": command, "sandbox_permissions": "require_escalated",
            "justification": "to see what happens"});
        Some(call("exec_command", &input))
    }

    fn call(&self, tool: &str) -> Option<String> {
        Some(call(tool, &json!({})))
    }

    fn structured(&self, value: &Value) -> Option<String> {
        Some(format!("ECHO:{value}"))
    }

    fn told(&self) -> Option<Value> {
        self.server.model_requests().last().map(|last| last.json())
    }

    fn has_record(&self, native: &NativeSessionId) -> Option<bool> {
        Some(codex_home::has_record(&self.home, native.as_str()))
    }

    fn acts(&self) -> bool {
        true
    }
}

mod real_codex {
    use angelia_testkit::executor_conformance;

    executor_conformance!(super::Codex::new());
}

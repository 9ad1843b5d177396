//! The real Claude Code, with a dummy key, against the scripted model on loopback.

use std::{
    path::Path,
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
use angelia_executors::claude;
use angelia_testkit::{
    conformance::executor::{ExecutorFixture, LongTool},
    model_server::ModelServer,
    real::RealClaude,
};
use serde_json::{Value, json};

use crate::place::Place;

struct Claude {
    place: Place,
    program: RealClaude,
    server: ModelServer,
    tools: AtomicU32,
}

impl Claude {
    fn new(program: RealClaude) -> Self {
        Self {
            place: Place::new(&claude::REGISTRATION, |_| "/nonexistent".into()),
            program,
            server: ModelServer::start().unwrap(),
            tools: AtomicU32::new(0),
        }
    }

    /// A command that makes a file of the given name when it runs.
    fn tool(&self, command: impl FnOnce(&str) -> String) -> LongTool {
        let number = self.tools.fetch_add(1, Ordering::Relaxed);
        let running = format!("running-{number}");
        LongTool {
            prompt: bash(&command(&running)),
            running: Some(self.place.isolated.work().join(running)),
        }
    }

    fn spec_without_login(&self) -> SessionSpec {
        let isolated = &self.place.isolated;
        let mut spec = SessionSpec::new("claude", isolated.work());
        spec.binary = Some(self.program.path.clone());
        spec.model = Some("sonnet".into());
        let runtime = isolated.root().join("run");
        for (name, value) in [
            ("ANTHROPIC_BASE_URL", self.server.base_url().as_str()),
            ("XDG_RUNTIME_DIR", runtime.to_str().unwrap()),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
            ("DISABLE_TELEMETRY", "1"),
            ("DISABLE_AUTOUPDATER", "1"),
            ("DISABLE_ERROR_REPORTING", "1"),
            ("CLAUDE_CODE_MAX_RETRIES", "1"),
        ] {
            spec.env.insert(name.into(), value.into());
        }
        spec
    }
}

/// Makes the model call one tool, and then say so.
fn call(tool: &str, input: &Value) -> String {
    let call = json!({"name": tool, "input": input});
    format!("TOOL:{call}:END ECHO:done")
}

fn bash(command: &str) -> String {
    let input = json!({"command": command, "description": "a test's command"});
    call("Bash", &input)
}

/// Is there a file or folder whose name contains the text?
fn is_below(folder: &Path, text: &str) -> bool {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    entries.into_iter().any(|entry| {
        entry.file_name().to_string_lossy().contains(text) || is_below(&entry.path(), text)
    })
}

impl ExecutorFixture for Claude {
    fn executor(&self) -> &Arc<dyn Executor> {
        &self.place.executor
    }

    fn spec(&self) -> SessionSpec {
        let mut spec = self.spec_without_login();
        let key = "sk-ant-dummy-key-of-the-tests";
        spec.env.insert("ANTHROPIC_API_KEY".into(), key.into());
        spec
    }

    fn mark(&self) -> String {
        self.place.mark.clone()
    }

    fn say(&self, text: &str) -> String {
        format!("ECHO:{text}")
    }

    fn words(&self, count: usize, pause: Duration) -> String {
        format!("WORDS:{count}:{}", pause.as_millis())
    }

    fn ask(&self, command: &str) -> String {
        bash(command)
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
        (self.spec_without_login(), "hello".to_owned())
    }

    /// What it leaves behind holds its pipes.
    fn die(&self) -> Option<String> {
        Some(bash("kill -9 $PPID; timeout 60 tail -f /dev/null"))
    }

    fn call(&self, tool: &str) -> Option<String> {
        Some(call(&format!("mcp__client__{tool}"), &json!({})))
    }

    fn structured(&self, value: &Value) -> Option<String> {
        Some(call("StructuredOutput", value))
    }

    fn told(&self) -> Option<Value> {
        self.server.model_requests().last().map(|last| last.json())
    }

    fn has_record(&self, native: &NativeSessionId) -> Option<bool> {
        let records = self.place.isolated.home().join(".claude/projects");
        Some(is_below(&records, native.as_str()))
    }

    fn acts(&self) -> bool {
        true
    }
}

mod real_claude_oldest {
    use angelia_testkit::{executor_conformance, real::RealClaude};

    executor_conformance!(super::Claude::new(RealClaude::oldest().unwrap()));
}

mod real_claude_newest {
    use angelia_testkit::{executor_conformance, real::RealClaude};

    executor_conformance!(super::Claude::new(RealClaude::newest().unwrap()));
}

//! A real ACP agent: Claude's adapter with its own Claude Code, against the scripted model on
//! loopback.

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
use angelia_executors::acp;
use angelia_testkit::{
    acp_agents::AcpAgent,
    conformance::executor::{ExecutorFixture, LongTool},
    model_server::ModelServer,
};
use serde_json::{Value, json};

use crate::place::Place;

struct ClaudeAdapter {
    place: Place,
    server: ModelServer,
    tools: AtomicU32,
}

impl ClaudeAdapter {
    fn new() -> Self {
        Self {
            place: Place::new(&acp::REGISTRATION, |_| "/nonexistent".into()),
            server: ModelServer::start().unwrap(),
            tools: AtomicU32::new(0),
        }
    }

    fn spec_of(&self, agent: AcpAgent) -> SessionSpec {
        let mut spec = SessionSpec::new("acp", self.place.isolated.work());
        spec.command = agent.command.into_iter().map(Into::into).collect();
        for (name, value) in agent.env {
            spec.env.insert(name.into(), value.into());
        }
        spec
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
}

fn bash(command: &str) -> String {
    let input = json!({"command": command, "description": "a test's command"});
    let call = json!({"name": "Bash", "input": input});
    format!("TOOL:{call}:END ECHO:done")
}

/// Is there a file or folder whose name contains the text?
fn is_below(folder: &Path, text: &str) -> bool {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    entries.into_iter().any(|entry| {
        entry.file_name().to_string_lossy().contains(text) || is_below(&entry.path(), text)
    })
}

impl ExecutorFixture for ClaudeAdapter {
    fn executor(&self) -> &Arc<dyn Executor> {
        &self.place.executor
    }

    fn spec(&self) -> SessionSpec {
        let url = self.server.base_url();
        self.spec_of(AcpAgent::claude_with_key(&self.place.isolated, &url).unwrap())
    }

    fn mark(&self) -> String {
        self.place.mark.clone()
    }

    /// The adapter keeps Claude Code running.
    fn parts(&self) -> &'static [&'static str] {
        &["claude-agent-sdk"]
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
        let url = self.server.base_url();
        let spec = self.spec_of(AcpAgent::claude(&self.place.isolated, &url).unwrap());
        (spec, "hello".to_owned())
    }

    /// The parent of a command is Claude Code; its parent is the adapter.
    fn die(&self) -> Option<String> {
        Some(bash(
            "kill -9 $(awk '/^PPid:/{print $2}' /proc/$PPID/status); timeout 60 tail -f /dev/null",
        ))
    }

    fn call(&self, _tool: &str) -> Option<String> {
        None
    }

    fn structured(&self, _value: &Value) -> Option<String> {
        None
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

mod real_acp_claude {
    use angelia_testkit::executor_conformance;

    executor_conformance!(super::ClaudeAdapter::new());
}

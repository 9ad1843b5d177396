//! The fixture of every real program: an isolated home and the scripted model on loopback. The
//! differences between programs are in [`Program`].

use std::{
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
use angelia_executors::Registration;
use angelia_testkit::{
    conformance::executor::{ExecutorFixture, LongTool},
    isolated_home::IsolatedHome,
    model_server::{ModelServer, directive},
};
use serde_json::Value;

use crate::isolated_executor::IsolatedExecutor;

pub(crate) trait ScriptedProgram: Sync {
    fn registration(&self) -> &'static Registration;

    /// Creates the files that the program needs in this home.
    fn prepare(&self, _place: &IsolatedHome, _base_url: &str) {}

    fn spec(&self, place: &IsolatedHome, base_url: &str) -> SessionSpec;

    /// Returns a specification without a login.
    fn spec_without_login(&self, place: &IsolatedHome, base_url: &str) -> SessionSpec;

    /// Returns a prompt that makes the program run a shell command.
    fn run(&self, command: &str) -> String;

    /// Returns a prompt that makes the program kill itself. A process it leaves behind keeps its
    /// pipes open.
    fn die(&self) -> String {
        self.run("kill -9 $PPID; timeout 60 tail -f /dev/null")
    }

    fn call(&self, _tool: &str) -> Option<String> {
        None
    }

    fn structured(&self, _value: &Value) -> Option<String> {
        None
    }

    fn has_record(&self, place: &IsolatedHome, native: &NativeSessionId) -> bool;

    fn shares_processes(&self) -> bool {
        false
    }

    fn parts(&self) -> &'static [&'static str] {
        &[]
    }
}

pub(crate) struct ScriptedFixture<P> {
    program: P,
    place: IsolatedExecutor,
    server: ModelServer,
    tools: AtomicU32,
}

impl<P: ScriptedProgram> ScriptedFixture<P> {
    pub(crate) fn new(program: P) -> Self {
        let place = IsolatedExecutor::new(program.registration());
        let server = ModelServer::start().unwrap();
        program.prepare(&place.isolated, &server.base_url());
        Self { program, place, server, tools: AtomicU32::new(0) }
    }

    /// Returns a tool call whose command creates a new file when it runs.
    fn tool(&self, command: impl FnOnce(&str) -> String) -> LongTool {
        let number = self.tools.fetch_add(1, Ordering::Relaxed);
        let running = format!("running-{number}");
        LongTool {
            prompt: self.program.run(&command(&running)),
            running: Some(self.place.isolated.work_dir().join(running)),
        }
    }
}

/// Returns a prompt that makes the model call one tool and then answer.
pub(crate) fn call(tool: &str, input: &Value) -> String {
    format!("{} ECHO:done", directive::tool_call_directive(tool, input))
}

impl<P: ScriptedProgram> ExecutorFixture for ScriptedFixture<P> {
    fn executor(&self) -> &Arc<dyn Executor> {
        &self.place.executor
    }

    fn spec(&self) -> SessionSpec {
        let url = self.server.base_url();
        self.program.spec(&self.place.isolated, &url)
    }

    fn mark(&self) -> String {
        self.place.mark.clone()
    }

    fn shares_processes(&self) -> bool {
        self.program.shares_processes()
    }

    fn helper_programs(&self) -> &'static [&'static str] {
        self.program.parts()
    }

    fn say_prompt(&self, text: &str) -> String {
        format!("ECHO:{text}")
    }

    fn words_prompt(&self, count: usize, pause: Duration) -> String {
        format!("WORDS:{count}:{}", pause.as_millis())
    }

    fn approval_prompt(&self, command: &str) -> String {
        self.program.run(command)
    }

    fn long_tool(&self) -> LongTool {
        self.tool(|running| format!("touch {running}; exec sleep 60"))
    }

    fn escaped_tool(&self) -> LongTool {
        self.tool(|running| format!("setsid sh -c 'touch {running}; exec sleep 60'"))
    }

    fn hang_prompt(&self) -> String {
        "HANG_HEADERS".to_owned()
    }

    fn auth_failure(&self) -> (SessionSpec, String) {
        let url = self.server.base_url();
        let spec = self.program.spec_without_login(&self.place.isolated, &url);
        (spec, "hello".to_owned())
    }

    fn exit_prompt(&self) -> Option<String> {
        Some(self.program.die())
    }

    fn tool_call_prompt(&self, tool: &str) -> Option<String> {
        self.program.call(tool)
    }

    fn structured_prompt(&self, value: &Value) -> Option<String> {
        self.program.structured(value)
    }

    fn last_model_request(&self) -> Option<Value> {
        self.server.model_requests().last().map(|last| last.json())
    }

    fn has_record(&self, native: &NativeSessionId) -> Option<bool> {
        Some(self.program.has_record(&self.place.isolated, native))
    }

    fn executes_commands(&self) -> bool {
        true
    }
}

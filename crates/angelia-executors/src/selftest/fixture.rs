//! An agent in private folders, driven by a scripted model.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use angelia_core::{model::SessionSpec, ports::Executor};
use serde_json::Value;

use super::{
    agent::{CheckedAgent, ScriptedAgent},
    private_home::PrivateFolders,
};
use crate::scripted_model::ModelServer;

/// The program to start: a path, a whole command line, or neither to use the one on `PATH`.
#[derive(Clone, Debug, Default)]
pub struct AgentProgram {
    pub binary: Option<PathBuf>,
    pub command: Vec<Arc<str>>,
}

pub struct ScriptedFixture {
    agent: &'static dyn ScriptedAgent,
    executor: Arc<dyn Executor>,
    spec: SessionSpec,
    folders: PrivateFolders,
    server: ModelServer,
}

impl fmt::Debug for ScriptedFixture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedFixture").field("agent", &self.agent).finish_non_exhaustive()
    }
}

impl ScriptedFixture {
    /// Starts the model and writes the program's files into the folders. The executor's host must
    /// use the environment of these folders.
    pub fn new(
        agent: &'static dyn ScriptedAgent,
        executor: Arc<dyn Executor>,
        program: AgentProgram,
        folders: PrivateFolders,
    ) -> io::Result<Self> {
        let server = ModelServer::start()?;
        let mut spec = SessionSpec::new(executor.name(), folders.work_dir());
        spec.binary = program.binary;
        spec.command = program.command;
        agent.connect(&mut spec, &folders, &server.base_url())?;
        Ok(Self { agent, executor, spec, folders, server })
    }

    /// Returns the model server, which records the requests that it receives.
    pub fn server(&self) -> &ModelServer {
        &self.server
    }
}

/// Makes the model answer after a call.
fn then_answer(call: &str) -> String {
    format!("{call} ECHO:done")
}

impl CheckedAgent for ScriptedFixture {
    fn executor(&self) -> &Arc<dyn Executor> {
        &self.executor
    }

    fn spec(&self) -> SessionSpec {
        self.spec.clone()
    }

    fn say_prompt(&self, text: &str) -> String {
        format!("ECHO:{text}")
    }

    fn words_prompt(&self, count: usize, pause: Duration) -> String {
        format!("WORDS:{count}:{}", pause.as_millis())
    }

    fn approval_prompt(&self, command: &str) -> String {
        then_answer(&self.agent.command_call(command))
    }

    fn write_prompt(&self, path: &Path, line: &str) -> Option<String> {
        Some(then_answer(&self.agent.write_call(path, line)))
    }

    fn model_error_prompt(&self, message: &str) -> Option<String> {
        // Agents do not retry a request that the model calls invalid, so the check is short.
        Some(format!("STATUS:400 ECHO:{message}"))
    }

    fn tool_call_prompt(&self, tool: &str) -> Option<String> {
        self.agent.caller_tool_call(tool).map(|call| then_answer(&call))
    }

    fn plant_instructions(&self, text: &str) -> Option<io::Result<()>> {
        let path = self.agent.instructions_file(&self.folders)?;
        let written = match path.parent() {
            Some(folder) => fs::create_dir_all(folder).and_then(|()| fs::write(&path, text)),
            None => fs::write(&path, text),
        };
        Some(written)
    }

    fn must_resume(&self) -> bool {
        self.agent.must_resume()
    }

    fn last_model_request(&self) -> Option<Value> {
        self.server.model_requests().last().map(|last| last.json())
    }

    fn executes_commands(&self) -> bool {
        true
    }
}

//! The suite on the demo agent.

use std::{io, path::Path, sync::Arc, time::Duration};

use angelia_core::{
    model::{NativeSessionId, SessionSpec},
    ports::Executor,
};
use angelia_executors::{parrot, selftest::CheckedAgent};
use angelia_testkit::{
    conformance::executor::{ExecutorFixture, LongTool},
    executor_conformance,
};
use serde_json::Value;

use crate::{isolated_executor::IsolatedExecutor, parrot_program};

/// The number of bytes of a prompt that the parrot repeats.
const MAX_ECHO_BYTES: usize = 64 * 1024;

struct ParrotFixture(IsolatedExecutor);

impl ParrotFixture {
    fn new() -> Self {
        Self(IsolatedExecutor::with(&parrot::REGISTRATION, |isolated, host| {
            host.current_exe = parrot_program::make(isolated);
        }))
    }
}

impl CheckedAgent for ParrotFixture {
    fn executor(&self) -> &Arc<dyn Executor> {
        &self.0.executor
    }

    fn spec(&self) -> SessionSpec {
        SessionSpec::new("parrot", self.0.isolated.work_dir())
    }

    fn say_prompt(&self, text: &str) -> String {
        text.to_owned()
    }

    fn words_prompt(&self, count: usize, pause: Duration) -> String {
        format!("!words {count} {}", pause.as_millis())
    }

    fn approval_prompt(&self, command: &str) -> String {
        format!("!ask {command}")
    }

    fn write_prompt(&self, _path: &Path, _line: &str) -> Option<String> {
        None
    }

    fn model_error_prompt(&self, _message: &str) -> Option<String> {
        None
    }

    fn tool_call_prompt(&self, _tool: &str) -> Option<String> {
        None
    }

    fn plant_instructions(&self, _text: &str) -> Option<io::Result<()>> {
        None
    }

    /// The parrot has no model.
    fn last_model_request(&self) -> Option<Value> {
        None
    }

    fn executes_commands(&self) -> bool {
        false
    }
}

impl ExecutorFixture for ParrotFixture {
    fn agent(&self) -> &dyn CheckedAgent {
        self
    }

    fn mark(&self) -> String {
        self.0.mark.clone()
    }

    fn long_tool(&self) -> LongTool {
        LongTool { prompt: "!tool Bash 60000".to_owned(), running: None }
    }

    fn hang_prompt(&self) -> String {
        "!hang".to_owned()
    }

    fn auth_failure(&self) -> (SessionSpec, String) {
        (CheckedAgent::spec(self), "!fail auth".to_owned())
    }

    fn exit_prompt(&self) -> Option<String> {
        Some("!die".to_owned())
    }

    fn structured_prompt(&self, _value: &Value) -> Option<String> {
        None
    }

    fn has_record(&self, _native: &NativeSessionId) -> Option<bool> {
        None
    }

    /// The parrot repeats its prompt: a short text whole, of a long text the beginning and the
    /// number of remaining bytes.
    fn reached_agent(&self, text: &str, answer: &str) -> bool {
        if text.len() <= MAX_ECHO_BYTES {
            return answer.contains(&format!("You said: {text}\n"));
        }
        let (begins, rest) = text.split_at(MAX_ECHO_BYTES);
        answer.contains(&format!("You said: {begins} … and {} bytes more", rest.len()))
    }
}

executor_conformance!(ParrotFixture::new());

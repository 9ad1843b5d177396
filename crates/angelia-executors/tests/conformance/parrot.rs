//! The suite on the demo agent.

use std::{sync::Arc, time::Duration};

use angelia_core::{
    model::{NativeSessionId, SessionSpec},
    ports::Executor,
};
use angelia_executors::parrot;
use angelia_testkit::{
    conformance::executor::{ExecutorFixture, LongTool},
    executor_conformance,
};
use serde_json::Value;

use crate::{parrot_program, place::Place};

/// The number of bytes of a prompt that the parrot repeats.
const REPEATED: usize = 64 * 1024;

struct Parrot(Place);

impl Parrot {
    fn new() -> Self {
        Self(Place::with(&parrot::REGISTRATION, |isolated, host| {
            host.current_exe = parrot_program::make(isolated);
        }))
    }
}

impl ExecutorFixture for Parrot {
    fn executor(&self) -> &Arc<dyn Executor> {
        &self.0.executor
    }

    fn spec(&self) -> SessionSpec {
        SessionSpec::new("parrot", self.0.isolated.work())
    }

    fn mark(&self) -> String {
        self.0.mark.clone()
    }

    fn say(&self, text: &str) -> String {
        text.to_owned()
    }

    fn words(&self, count: usize, pause: Duration) -> String {
        format!("!words {count} {}", pause.as_millis())
    }

    fn ask(&self, command: &str) -> String {
        format!("!ask {command}")
    }

    fn long_tool(&self) -> LongTool {
        LongTool { prompt: "!tool Bash 60000".to_owned(), running: None }
    }

    fn hang(&self) -> String {
        "!hang".to_owned()
    }

    fn fail_auth(&self) -> (SessionSpec, String) {
        (self.spec(), "!fail auth".to_owned())
    }

    fn die(&self) -> Option<String> {
        Some("!die".to_owned())
    }

    fn call(&self, _tool: &str) -> Option<String> {
        None
    }

    fn structured(&self, _value: &Value) -> Option<String> {
        None
    }

    /// The parrot has no model.
    fn told(&self) -> Option<Value> {
        None
    }

    fn has_record(&self, _native: &NativeSessionId) -> Option<bool> {
        None
    }

    fn acts(&self) -> bool {
        false
    }

    /// The parrot repeats its prompt: a short text whole, of a long text the beginning and the
    /// number of remaining bytes.
    fn arrived(&self, text: &str, answer: &str) -> bool {
        if text.len() <= REPEATED {
            return answer.contains(&format!("You said: {text}\n"));
        }
        let (begins, rest) = text.split_at(REPEATED);
        answer.contains(&format!("You said: {begins} … and {} bytes more", rest.len()))
    }
}

executor_conformance!(Parrot::new());

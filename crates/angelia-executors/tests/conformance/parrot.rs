//! The demo agent.
//!
//! The program that has the subcommand `parrot` is built by another crate. So this test's own
//! executable stands in for it: a script calls its ignored test [`the_process`], which is the same
//! code, with the pipes where a parrot expects them.

use std::{
    fs::{self, File},
    io::{self, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use angelia_core::{
    model::{NativeSessionId, SessionSpec},
    ports::Executor,
};
use angelia_executors::parrot;
use angelia_testkit::{
    conformance::executor::{ExecutorFixture, LongTool},
    executor_conformance,
    isolated::Isolated,
};
use serde_json::Value;

use crate::place::Place;

const ARGUMENTS: &str = "ANGELIA_TEST_PARROT_ARGUMENTS";

/// How much of a prompt the parrot repeats.
const REPEATED: usize = 64 * 1024;

/// Descriptor 3 is the pipe; stdout belongs to the test's own reporting and leads nowhere.
#[test]
#[ignore = "not a test: the program the others start"]
fn the_process() {
    #[expect(
        clippy::disallowed_methods,
        reason = "how the script passes the arguments on"
    )]
    let Ok(arguments) = std::env::var(ARGUMENTS) else {
        return;
    };
    let mut arguments = arguments.split(' ').map(str::to_owned);
    assert_eq!(arguments.next().as_deref(), Some(parrot::SUBCOMMAND));
    let output = File::options().write(true).open("/dev/fd/3").unwrap();
    let input = BufReader::new(io::stdin());
    let code = parrot::process::run(arguments, input, output, &mut io::stderr());
    std::process::exit(code.into());
}

fn program(place: &Isolated) -> PathBuf {
    let path = place.root().join("angelia-program");
    let script = format!(
        "#!/bin/sh\n{ARGUMENTS}=\"$*\" exec '{}' --ignored --exact parrot::the_process --nocapture \
         3>&1 >/dev/null\n",
        std::env::current_exe().unwrap().display()
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    path
}

struct Parrot(Place);

impl Parrot {
    fn new() -> Self {
        Self(Place::new(&parrot::REGISTRATION, program))
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
        LongTool {
            prompt: "!tool Bash 60000".to_owned(),
            running: None,
        }
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

    /// There is no model.
    fn told(&self) -> Option<Value> {
        None
    }

    fn has_record(&self, _native: &NativeSessionId) -> Option<bool> {
        None
    }

    fn acts(&self) -> bool {
        false
    }

    /// It repeats what it has heard: short texts whole, and of long ones the beginning and how much
    /// more there was.
    fn arrived(&self, text: &str, answer: &str) -> bool {
        if text.len() <= REPEATED {
            return answer.contains(&format!("You said: {text}\n"));
        }
        let (begins, rest) = text.split_at(REPEATED);
        answer.contains(&format!(
            "You said: {begins} … and {} bytes more",
            rest.len()
        ))
    }
}

executor_conformance!(Parrot::new());

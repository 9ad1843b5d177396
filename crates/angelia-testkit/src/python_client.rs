//! A Python program with a platform's official library, which verifies that a fake server is correct.

#![expect(clippy::disallowed_methods, reason = "the library runs in a program of its own")]
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says why"
)]

use std::{
    fs,
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

use tempfile::NamedTempFile;

use crate::programs::workspace_root;

/// How long to wait for a step of the program.
const DEADLINE: Duration = Duration::from_mins(1);

/// The running program. It is killed with the test. If the test fails, its output is printed.
#[derive(Debug)]
pub struct PythonClient {
    child: Child,
    output: NamedTempFile,
}

impl PythonClient {
    /// Starts `tests/clients/SCRIPT` with the packages of `tests/python/GROUP`, and with only these
    /// environment variables.
    pub fn start<'a>(
        group: &str,
        script: &str,
        variables: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let root = workspace_root();
        let python = root.join("target/python").join(group).join("bin/python");
        assert!(python.exists(), "run `cargo xtask setup` first");
        let output = NamedTempFile::new().unwrap();
        let pipe = output.reopen().unwrap();
        let child = Command::new(python)
            .arg(root.join("tests/clients").join(script))
            .env_clear()
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .envs(variables)
            .stdout(pipe.try_clone().unwrap())
            .stderr(pipe)
            .spawn()
            .unwrap();
        Self { child, output }
    }

    /// Waits until the program has done something.
    #[track_caller]
    pub fn until(&self, what: &str, condition: impl Fn() -> bool) {
        let deadline = Instant::now() + DEADLINE;
        while !condition() {
            assert!(Instant::now() < deadline, "{what}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits for the program to end and to print "all right". Returns its output.
    pub fn finish(mut self) -> String {
        let status = self.child.wait().unwrap();
        let output = self.output();
        assert!(status.success() && output.contains("all right"), "{status}");
        output
    }

    fn output(&self) -> String {
        fs::read_to_string(self.output.path()).unwrap_or_default()
    }
}

impl Drop for PythonClient {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _status = self.child.wait();
        if thread::panicking() {
            eprintln!("{}", self.output());
        }
    }
}

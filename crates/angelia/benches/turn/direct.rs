//! Drives an agent program with as little overhead as possible: blocking pipes, lines split at the
//! newline, nothing parsed. This is the baseline for our own numbers.

use std::{
    ffi::OsString,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Instant,
};

use anyhow::{Context as _, Result, bail};
use serde_json::json;
use uuid::Uuid;

use crate::Timing;

/// The flags that our executor passes in agent mode without trust, for a fair comparison.
const FLAGS: &str = "-p --input-format stream-json --output-format stream-json --verbose \
     --include-partial-messages --permission-prompt-tool stdio --permission-mode default \
     --setting-sources user --strict-mcp-config --exclude-dynamic-system-prompt-sections";

/// A running program and its pipes; killed when dropped.
pub(crate) struct ProcessPipes {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    line: Vec<u8>,
}

impl ProcessPipes {
    #[expect(clippy::disallowed_methods, reason = "driving a program directly is the purpose")]
    pub(crate) fn open(
        program: &Path,
        arguments: &[&str],
        environment: &[(OsString, OsString)],
        folder: &Path,
    ) -> Result<Self> {
        let mut child = Command::new(program)
            .args(arguments)
            .env_clear()
            .envs(environment.iter().cloned())
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let input = child.stdin.take().context("no stdin")?;
        let output = child.stdout.take().context("no stdout")?;
        let output = BufReader::with_capacity(1 << 16, output);
        Ok(Self { child, input, output, line: Vec::new() })
    }

    pub(crate) fn write(&mut self, message: &serde_json::Value) -> Result<()> {
        let mut line = message.to_string();
        line.push('\n');
        Ok(self.input.write_all(line.as_bytes())?)
    }

    /// Reads up to the first line that contains `wanted`, and returns it.
    pub(crate) fn read_until(&mut self, wanted: &[u8]) -> Result<&[u8]> {
        loop {
            self.line.clear();
            if self.output.read_until(b'\n', &mut self.line)? == 0 {
                bail!("the program ended its output");
            }
            if contains(&self.line, wanted) {
                return Ok(&self.line);
            }
        }
    }
}

impl Drop for ProcessPipes {
    fn drop(&mut self) {
        // The process may have exited already.
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

/// A running Claude Code.
pub(crate) struct DirectClaude(ProcessPipes);

impl DirectClaude {
    pub(crate) fn spawn(
        program: &Path,
        environment: &[(OsString, OsString)],
        folder: &Path,
    ) -> Result<Self> {
        let session = Uuid::new_v4().to_string();
        let mut arguments: Vec<&str> = FLAGS.split_whitespace().collect();
        arguments.extend(["--session-id", &session]);
        ProcessPipes::open(program, &arguments, environment, folder).map(Self)
    }

    /// Starts and initializes a process, as the pool does.
    pub(crate) fn start(
        program: &Path,
        environment: &[(OsString, OsString)],
        folder: &Path,
    ) -> Result<Self> {
        let mut this = Self::spawn(program, environment, folder)?;
        this.initialize()?;
        this.0.read_until(br#""control_response""#)?;
        Ok(this)
    }

    /// Sends the initialize request and does not wait for the answer.
    pub(crate) fn initialize(&mut self) -> Result<()> {
        let request = json!({"type": "control_request", "request_id": "first",
            "request": {"subtype": "initialize", "hooks": {}}});
        self.0.write(&request)
    }

    pub(crate) fn turn(&mut self, prompt: &str) -> Result<Timing> {
        self.turn_since(Instant::now(), prompt)
    }

    /// Runs a turn whose timing starts at `begun`.
    pub(crate) fn turn_since(&mut self, begun: Instant, prompt: &str) -> Result<Timing> {
        let message = json!({"type": "user", "message": {"role": "user", "content": prompt},
            "parent_tool_use_id": null, "uuid": Uuid::new_v4()});
        self.0.write(&message)?;
        self.0.read_until(br#""type":"text_delta""#)?;
        let first = begun.elapsed();
        self.0.read_until(br#""type":"result""#)?;
        Ok(Timing { first, end: begun.elapsed() })
    }
}

/// Searches as text, which is faster than comparing windows of bytes.
pub(crate) fn contains(text: &[u8], word: &[u8]) -> bool {
    str::from_utf8(text)
        .is_ok_and(|text| str::from_utf8(word).is_ok_and(|word| text.contains(word)))
}

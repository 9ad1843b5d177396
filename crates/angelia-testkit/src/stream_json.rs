//! Drives an agent program over its JSON-lines pipes directly, without any of our own crates.
//! Benchmarks use it as the baseline for our executors; tests use it to check the fake programs.

use std::{ffi::OsStr, ffi::OsString, io, path::Path, process::Stdio, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
};

/// A running program, killed on drop.
#[derive(Debug)]
pub struct StreamJsonDriver {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    stderr: ChildStderr,
    line: String,
}

#[derive(Debug, thiserror::Error)]
pub enum StreamJsonError {
    #[error("the program's pipes failed: {0}")]
    Pipe(#[from] io::Error),
    #[error("the program wrote a line that is not JSON: {0}")]
    NotJson(String),
    #[error("the program ended its output; stderr: {0}")]
    OutputEnded(String),
    #[error("nothing fitting came within {within:?}; the last lines were {seen:#?}")]
    TimedOut { within: Duration, seen: Vec<String> },
}

impl StreamJsonDriver {
    /// Starts `program` with exactly this environment.
    #[expect(clippy::disallowed_methods, reason = "driving a program directly is the purpose")]
    pub fn start(
        program: &Path,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
        environment: Vec<(OsString, OsString)>,
        folder: &Path,
    ) -> Result<Self, StreamJsonError> {
        let mut child = Command::new(program)
            .args(arguments)
            .env_clear()
            .envs(environment)
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let gone = || StreamJsonError::OutputEnded("no pipe".into());
        let input = child.stdin.take();
        let output = BufReader::with_capacity(1 << 16, child.stdout.take().ok_or_else(gone)?);
        let stderr = child.stderr.take().ok_or_else(gone)?;
        Ok(Self { child, input, output, stderr, line: String::new() })
    }

    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    pub async fn send(&mut self, message: &Value) -> Result<(), StreamJsonError> {
        let mut line = message.to_string();
        line.push('\n');
        if let Some(input) = &mut self.input {
            input.write_all(line.as_bytes()).await?;
            input.flush().await?;
        }
        Ok(())
    }

    /// Sends a user message with a fresh id and returns that id.
    pub async fn send_prompt(&mut self, text: &str) -> Result<uuid::Uuid, StreamJsonError> {
        let id = uuid::Uuid::new_v4();
        self.send(&json!({"type": "user", "message": {"role": "user", "content": text},
            "parent_tool_use_id": null, "uuid": id}))
            .await?;
        Ok(id)
    }

    /// Sends a control request; the program's answer carries the same `request_id`.
    pub async fn send_control_request(
        &mut self,
        id: &str,
        request: Value,
    ) -> Result<(), StreamJsonError> {
        self.send(&json!({"type": "control_request", "request_id": id, "request": request})).await
    }

    /// Answers a control request that the program sent.
    pub async fn send_control_response(
        &mut self,
        id: &Value,
        response: Value,
    ) -> Result<(), StreamJsonError> {
        self.send(&json!({"type": "control_response",
            "response": {"subtype": "success", "request_id": id, "response": response}}))
            .await
    }

    /// Reads the next line. At the end of the output, the error contains the program's stderr.
    pub async fn next_line(&mut self) -> Result<Value, StreamJsonError> {
        self.line.clear();
        if self.output.read_line(&mut self.line).await? == 0 {
            let mut stderr = String::new();
            self.stderr.read_to_string(&mut stderr).await?;
            return Err(StreamJsonError::OutputEnded(stderr));
        }
        serde_json::from_str(&self.line).map_err(|_| StreamJsonError::NotJson(self.line.clone()))
    }

    /// Returns every line up to and including the first one that `fits`.
    pub async fn read_until(
        &mut self,
        within: Duration,
        fits: impl Fn(&Value) -> bool,
    ) -> Result<Vec<Value>, StreamJsonError> {
        let mut lines = Vec::new();
        let found = tokio::time::timeout(within, async {
            loop {
                let line = self.next_line().await?;
                let last = fits(&line);
                lines.push(line);
                if last {
                    return Ok(());
                }
            }
        })
        .await;
        match found {
            Ok(Ok(())) => Ok(lines),
            Ok(Err(error)) => Err(error),
            Err(_) => {
                let seen = lines.iter().rev().take(10).map(|line| cut(line.to_string())).collect();
                Err(StreamJsonError::TimedOut { within, seen })
            }
        }
    }

    /// Returns every line up to and including the turn's `result`.
    pub async fn read_result(&mut self, within: Duration) -> Result<Vec<Value>, StreamJsonError> {
        self.read_until(within, |line| line["type"] == "result").await
    }

    /// Closes stdin, waits for the program to exit, and returns its exit code, if it has one.
    pub async fn close(mut self) -> Result<Option<i32>, StreamJsonError> {
        self.input = None;
        let mut rest = Vec::new();
        self.output.read_to_end(&mut rest).await?;
        Ok(self.child.wait().await?.code())
    }
}

fn cut(mut line: String) -> String {
    if let Some((end, _)) = line.char_indices().nth(400) {
        line.truncate(end);
    }
    line
}

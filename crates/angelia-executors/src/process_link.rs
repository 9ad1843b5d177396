//! A running program and its stdin and stdout, as lines. Reading and writing never wait for each
//! other.
//!
//! Outgoing lines are queued while reading continues. Otherwise a long prompt could deadlock with a
//! program that blocks because nobody reads its output.

use std::{io, time::Duration};

use angelia_core::redact::Redactor;
use angelia_wire::{limits::MAX_FRAME_BYTES, ndjson::Framer};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::{ChildStdin, ChildStdout},
    time::timeout,
};

use crate::process::{Child, StopTimeouts, terminate};

/// How long to wait for a program to exit after its output has ended.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// The number of trailing stderr lines that an error message quotes.
const MAX_QUOTED_LINES: usize = 5;

/// A running program with its pipes.
#[derive(Debug)]
pub(crate) struct ProcessLink {
    pub(crate) child: Child,
    pub(crate) input: StdinQueue,
    pub(crate) output: StdoutReader,
}

/// Bytes that are queued for the program's stdin.
#[derive(Debug)]
pub(crate) struct StdinQueue {
    pipe: Option<ChildStdin>,
    bytes: Vec<u8>,
    sent: usize,
}

/// Lines from the program's stdout.
#[derive(Debug)]
pub(crate) struct StdoutReader {
    pipe: Option<ChildStdout>,
    pub(crate) framer: Framer,
}

impl ProcessLink {
    pub(crate) fn new(mut child: Child) -> Self {
        Self {
            input: StdinQueue { pipe: child.stdin.take(), bytes: Vec::new(), sent: 0 },
            output: StdoutReader {
                pipe: child.stdout.take(),
                framer: Framer::new(MAX_FRAME_BYTES),
            },
            child,
        }
    }

    pub(crate) fn is_open(&mut self) -> bool {
        self.input.pipe.is_some()
            && self.output.pipe.is_some()
            && self.child.try_exit_status().is_none()
    }

    /// Describes for people how the program exited, with the end of its stderr. To be called after
    /// the output has ended.
    pub(crate) async fn describe_exit(&mut self, redactor: &Redactor) -> String {
        let status = timeout(EXIT_TIMEOUT, self.child.wait_exit()).await;
        let mut words = match status {
            Err(_) => "it closed its output".to_owned(),
            Ok(status) => status.to_string(),
        };
        // The last lines of stderr may still be in the pipe.
        let _held_open = timeout(EXIT_TIMEOUT, self.child.wait_stderr_closed()).await;
        let stderr = self.child.stderr().tail(|text| redactor.redact(text));
        let lines: Vec<&str> = stderr.lines().filter(|line| !line.trim().is_empty()).collect();
        for line in &lines[lines.len().saturating_sub(MAX_QUOTED_LINES)..] {
            words.push_str("; ");
            words.extend(line.trim().chars().take(400));
        }
        words
    }

    /// Stops the program and every process that it started.
    pub(crate) async fn close(mut self, grace: Duration) {
        self.child.stdin = self.input.pipe.take();
        self.child.stdout = self.output.pipe.take();
        terminate(self.child, &StopTimeouts::with_grace(grace), |_| {}).await;
    }
}

impl StdinQueue {
    pub(crate) fn push(&mut self, line: Vec<u8>) {
        if self.bytes.is_empty() {
            self.bytes = line;
        } else {
            self.bytes.extend_from_slice(&line);
        }
    }

    pub(crate) fn has_pending(&self) -> bool {
        self.pipe.is_some() && !self.bytes.is_empty()
    }

    /// Writes some of the queued bytes. Cancel-safe. Errors are not reported: when the program has
    /// closed its stdin, the end of its output will follow.
    pub(crate) async fn write(&mut self) {
        let Some(pipe) = &mut self.pipe else {
            return std::future::pending().await;
        };
        match pipe.write(&self.bytes[self.sent..]).await {
            Ok(written) if written > 0 => {
                self.sent += written;
                if self.sent == self.bytes.len() {
                    self.bytes = Vec::new();
                    self.sent = 0;
                }
            }
            _ => self.pipe = None,
        }
    }

    pub(crate) async fn write_all(&mut self) {
        while self.has_pending() {
            self.write().await;
        }
    }
}

impl StdoutReader {
    /// Reads available bytes into the framer. Returns `false` at the end of output. Cancel-safe.
    pub(crate) async fn read(&mut self) -> bool {
        let Some(pipe) = &mut self.pipe else {
            return false;
        };
        let read: io::Result<usize> = pipe.read_buf(self.framer.buffer()).await;
        if matches!(read, Ok(1..)) {
            return true;
        }
        self.pipe = None;
        false
    }

    /// Stops reading, because another process may hold the pipe open forever.
    pub(crate) fn abandon(&mut self) {
        self.pipe = None;
    }
}

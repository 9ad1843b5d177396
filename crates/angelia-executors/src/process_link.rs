//! A running program with line-based stdin and stdout. Reads and writes never wait for each other.
//!
//! Outgoing lines are queued while reading continues. Otherwise a long prompt could deadlock with a
//! program that blocks because its output is not read.

use std::{io, sync::Arc, time::Duration};

use angelia_core::{
    model::{Failure, FailureKind},
    redact::Redactor,
};
use angelia_wire::{limits::MAX_FRAME_BYTES, ndjson::Framer};
use bytes::{BufMut as _, BytesMut};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::{ChildStdin, ChildStdout},
    time::{Instant, sleep_until, timeout},
};

use crate::{
    process::{Child, StopTimeouts, terminate},
    wire_log::{WireDirection, WireLog, WireTap},
};

/// The longest wait for a program to exit after its output has ended.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// The longest time to keep reading output after the program has exited. A descendant may hold the
/// pipe open forever.
const OUTPUT_DRAIN_LIMIT: Duration = Duration::from_millis(500);

/// How long a program may take to read the lines that are queued at the end of a turn.
const FLUSH_LIMIT: Duration = Duration::from_millis(500);

/// The number of trailing stderr lines that an error message quotes.
const MAX_QUOTED_LINES: usize = 5;

/// The number of characters of a stderr line that an error message quotes.
pub(crate) const MAX_QUOTED_CHARS: usize = 400;

/// A running program with its pipes.
#[derive(Debug)]
pub(crate) struct ProcessLink {
    pub(crate) child: Child,
    pub(crate) input: StdinQueue,
    pub(crate) output: StdoutReader,
    /// The time until which output is still read; set once the program has exited.
    drain_until: Option<Instant>,
}

/// Bytes queued for the program's stdin.
#[derive(Debug)]
pub(crate) struct StdinQueue {
    pipe: Option<ChildStdin>,
    bytes: Vec<u8>,
    sent: usize,
    tap: Option<WireTap>,
}

/// Lines from the program's stdout.
#[derive(Debug)]
pub(crate) struct StdoutReader {
    pipe: Option<ChildStdout>,
    pub(crate) framer: Framer,
    tap: Option<WireTap>,
}

impl ProcessLink {
    /// Takes over the pipes of a child. Records the traffic in `log`, if given.
    pub(crate) fn new(mut child: Child, log: Option<&Arc<WireLog>>) -> Self {
        let pid = child.pid();
        let tap = |direction| log.map(|log| WireTap::new(Arc::clone(log), pid, direction));
        Self {
            input: StdinQueue {
                pipe: child.stdin.take(),
                bytes: Vec::new(),
                sent: 0,
                tap: tap(WireDirection::ToAgent),
            },
            output: StdoutReader {
                pipe: child.stdout.take(),
                framer: Framer::new(MAX_FRAME_BYTES),
                tap: tap(WireDirection::FromAgent),
            },
            child,
            drain_until: None,
        }
    }

    pub(crate) fn is_open(&mut self) -> bool {
        self.input.pipe.is_some()
            && self.output.pipe.is_some()
            && self.child.try_exit_status().is_none()
    }

    /// Writes queued lines until output has arrived in the framer. Returns `false` at the end of
    /// the output: the program has closed it, or has exited and only a descendant still holds it
    /// open. Cancel-safe.
    pub(crate) async fn exchange(&mut self) -> bool {
        loop {
            let Self { child, input, output, drain_until } = self;
            let has_more = input.has_pending();
            tokio::select! {
                biased;
                () = input.write(), if has_more => {}
                more = output.read() => return more,
                () = drained(child, drain_until) => {
                    output.pipe = None;
                    return false;
                }
            }
        }
    }

    /// Writes the queued lines. If the program does not read them in time, its stdin is closed.
    pub(crate) async fn flush(&mut self) {
        let written = timeout(FLUSH_LIMIT, async {
            while self.input.has_pending() {
                self.input.write().await;
            }
        });
        if written.await.is_err() {
            self.input.pipe = None;
        }
    }

    /// Builds the failure of a turn whose program is gone. `when` names the point in the turn.
    pub(crate) async fn exit_failure(
        &mut self,
        program: &str,
        when: &str,
        redactor: &Redactor,
    ) -> Failure {
        let words = self.describe_exit(redactor).await;
        Failure::new(FailureKind::Agent, format!("{program} ended {when}: {words}"))
            .with_hint("send the message again; the session continues where it was")
    }

    /// Describes how the program exited, for a message. Call it after the output has ended.
    pub(crate) async fn describe_exit(&mut self, redactor: &Redactor) -> String {
        describe_exit(&mut self.child, redactor).await
    }

    /// Stops the program and every process that it started.
    pub(crate) async fn close(mut self, grace: Duration) {
        self.child.stdin = self.input.pipe.take();
        self.child.stdout = self.output.pipe.take();
        terminate(self.child, &StopTimeouts::with_grace(grace), |_| {}).await;
    }
}

/// Describes how a child exited, with the end of its stderr, for a message. Call it after its
/// output has ended.
pub(crate) async fn describe_exit(child: &mut Child, redactor: &Redactor) -> String {
    let status = timeout(EXIT_TIMEOUT, child.wait_exit()).await;
    let mut words = match status {
        Err(_) => "it closed its output".to_owned(),
        Ok(status) => status.to_string(),
    };
    // The last lines of stderr may still be in the pipe.
    let _held_open = timeout(EXIT_TIMEOUT, child.wait_stderr_closed()).await;
    let stderr = child.stderr().tail(|text| redactor.redact(text));
    let lines: Vec<&str> = stderr.lines().filter(|line| !line.trim().is_empty()).collect();
    for line in &lines[lines.len().saturating_sub(MAX_QUOTED_LINES)..] {
        words.push_str("; ");
        words.extend(line.trim().chars().take(MAX_QUOTED_CHARS));
    }
    words
}

impl StdinQueue {
    pub(crate) fn push(&mut self, line: Vec<u8>) {
        if let Some(tap) = &mut self.tap {
            tap.pass(&line);
        }
        if self.bytes.is_empty() {
            self.bytes = line;
        } else {
            self.bytes.extend_from_slice(&line);
        }
    }

    fn has_pending(&self) -> bool {
        self.pipe.is_some() && !self.bytes.is_empty()
    }

    /// Returns the number of bytes that the program has not taken yet.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Writes some of the queued bytes. Cancel-safe. Ignores errors: if the program has closed its
    /// stdin, its output ends soon too.
    async fn write(&mut self) {
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
}

impl StdoutReader {
    pub(crate) fn has_ended(&self) -> bool {
        self.pipe.is_none()
    }

    /// Reads available bytes into the framer. Returns `false` at the end of output. Cancel-safe.
    async fn read(&mut self) -> bool {
        let Some(pipe) = &mut self.pipe else {
            return false;
        };
        let read: io::Result<usize> = match &mut self.tap {
            None => pipe.read_buf(self.framer.buffer()).await,
            Some(tap) => {
                let mut bytes = BytesMut::with_capacity(64 * 1024);
                let read = pipe.read_buf(&mut bytes).await;
                tap.pass(&bytes);
                self.framer.buffer().put_slice(&bytes);
                read
            }
        };
        if matches!(read, Ok(1..)) {
            return true;
        }
        self.pipe = None;
        false
    }
}

/// Waits until the program has exited and the time for reading the rest of its output is over.
async fn drained(child: &mut Child, drain_until: &mut Option<Instant>) {
    if drain_until.is_none() {
        child.wait_exit().await;
    }
    let until = *drain_until.get_or_insert_with(|| Instant::now() + OUTPUT_DRAIN_LIMIT);
    sleep_until(until).await;
}

//! Runs programs for agents. Stdout and stderr are merged into one bounded stream, and no program
//! outlives the session.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsString,
    os::unix::process::ExitStatusExt as _,
    path::PathBuf,
    process::ExitStatus,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use angelia_core::model::Failure;
use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;

use super::request::TerminalProgram;
use crate::{
    host::ExecutorHost,
    process::{
        Child, ProcessLaunch, SpawnError, StopTimeouts, marked_parent,
        merged_output::{drain_until, merge_stderr},
        spawn, terminate,
    },
};

/// How much output of a program is kept: both the default and the maximum.
const MAX_OUTPUT_BYTES: usize = 1024 * 1024;

/// The maximum number of open terminals in a session.
const MAX_TERMINALS: usize = 32;

/// How long a program has to exit before it is killed.
const GRACE: Duration = Duration::from_secs(2);

#[derive(Debug, thiserror::Error)]
pub(super) enum TerminalError {
    #[error("there is no terminal {0}")]
    Unknown(Box<str>),
    #[error("{MAX_TERMINALS} terminals are open; release one first")]
    TooMany,
    #[error("{0}")]
    Invalid(Failure),
    #[error(transparent)]
    NotStarted(#[from] SpawnError),
}

/// The terminals of one session.
#[derive(Debug)]
pub(super) struct Terminals {
    host: ExecutorHost,
    environment: BTreeMap<OsString, OsString>,
    terminals: HashMap<Box<str>, Terminal>,
    next_id: u64,
    supervisors: JoinSet<()>,
}

#[derive(Debug)]
struct Terminal {
    output: Arc<Mutex<OutputTail>>,
    exit_status: watch::Receiver<Option<Value>>,
    stop: CancellationToken,
}

/// The last bytes of a program's output.
#[derive(Debug)]
struct OutputTail {
    bytes: Vec<u8>,
    limit: usize,
    truncated: bool,
}

impl OutputTail {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        // Trim only at twice the limit, so that this does not happen on every read.
        if self.bytes.len() > 2 * self.limit {
            self.trim();
        }
    }

    fn trim(&mut self) {
        let excess = self.bytes.len().saturating_sub(self.limit);
        if excess == 0 {
            return;
        }
        // Cut at the start of a UTF-8 character.
        let is_start = |byte: &u8| !(0x80..0xc0).contains(byte);
        let rest = &self.bytes[excess..];
        let from = excess + rest.iter().position(is_start).unwrap_or(rest.len());
        self.bytes.drain(..from);
        self.truncated = true;
    }

    fn text(&mut self) -> String {
        self.trim();
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

impl Terminals {
    pub(super) fn new(host: ExecutorHost, environment: BTreeMap<OsString, OsString>) -> Self {
        Self {
            host,
            environment,
            terminals: HashMap::new(),
            next_id: 0,
            supervisors: JoinSet::new(),
        }
    }

    /// Starts a program in `folder`, which the caller must have checked. Returns the terminal's id.
    pub(super) async fn run(
        &mut self,
        program: &TerminalProgram,
        folder: PathBuf,
    ) -> Result<Value, TerminalError> {
        while self.supervisors.try_join_next().is_some() {}
        if self.terminals.len() >= MAX_TERMINALS {
            return Err(TerminalError::TooMany);
        }
        let (program_path, args) = if program.is_shell_line() {
            let script = format!("{{ {}\n}} 2>&1", program.command);
            ("/bin/sh".into(), vec!["-c".into(), script.into()])
        } else {
            let args = program.args.iter().map(|arg| OsString::from(&**arg));
            merge_stderr(std::iter::once(OsString::from(&*program.command)).chain(args))
        };
        let mut env = self.environment.clone();
        for (name, value) in &program.env {
            env.insert((**name).into(), (**value).into());
        }
        // A separate mark, because stopping the program must not stop the agent.
        let mark = self.host.fresh_mark().map_err(TerminalError::Invalid)?;
        let launch = ProcessLaunch {
            program: program_path,
            args,
            cwd: folder,
            env,
            mark,
            ledger: self.host.ledger.clone(),
        };
        let child = spawn(&marked_parent::attend(&self.host.current_exe, launch)).await?;
        let kept = program.output_limit.and_then(|kept| usize::try_from(kept).ok());
        let output = Arc::new(Mutex::new(OutputTail {
            bytes: Vec::new(),
            limit: kept.unwrap_or(MAX_OUTPUT_BYTES).min(MAX_OUTPUT_BYTES),
            truncated: false,
        }));
        let (told, ended) = watch::channel(None);
        let stop = CancellationToken::new();
        self.supervisors.spawn(supervise(child, Arc::clone(&output), told, stop.clone()));
        self.next_id += 1;
        let id: Box<str> = format!("term-{}", self.next_id).into();
        let terminal = Terminal { output, exit_status: ended, stop };
        self.terminals.insert(id.clone(), terminal);
        Ok(json!({"terminalId": id}))
    }

    fn get(&self, id: &str) -> Result<&Terminal, TerminalError> {
        self.terminals.get(id).ok_or_else(|| TerminalError::Unknown(id.into()))
    }

    pub(super) fn output(&self, id: &str) -> Result<Value, TerminalError> {
        let terminal = self.get(id)?;
        let mut output = lock(&terminal.output);
        let text = output.text();
        let mut value = json!({"output": text, "truncated": output.truncated});
        if let Some(status) = &*terminal.exit_status.borrow() {
            value["exitStatus"] = status.clone();
        }
        Ok(value)
    }

    /// Returns the output for display.
    pub(super) fn text(&self, id: &str) -> Option<String> {
        let terminal = self.terminals.get(id)?;
        Some(lock(&terminal.output).text())
    }

    /// Returns a future that waits for the program to exit and does not borrow `self`.
    pub(super) fn wait(
        &self,
        id: &str,
    ) -> Result<impl Future<Output = Value> + use<>, TerminalError> {
        let mut ended = self.get(id)?.exit_status.clone();
        Ok(async move {
            match ended.wait_for(Option::is_some).await {
                Ok(status) => status.clone().unwrap_or_default(),
                Err(_gone) => json!({}),
            }
        })
    }

    pub(super) fn kill(&self, id: &str) -> Result<Value, TerminalError> {
        self.get(id)?.stop.cancel();
        Ok(json!({}))
    }

    pub(super) fn release(&mut self, id: &str) -> Result<Value, TerminalError> {
        self.kill(id)?;
        self.terminals.remove(id);
        Ok(json!({}))
    }

    /// Stops all programs and waits for them.
    pub(super) async fn close(&mut self) {
        for terminal in self.terminals.values() {
            terminal.stop.cancel();
        }
        let all = async { while self.supervisors.join_next().await.is_some() {} };
        // Programs that are still running are killed when `self` is dropped.
        let _ = timeout(2 * GRACE, all).await;
        self.terminals.clear();
    }
}

/// Reads a program's output until it exits or is stopped, then terminates all its processes.
async fn supervise(
    mut child: Child,
    output: Arc<Mutex<OutputTail>>,
    told: watch::Sender<Option<Value>>,
    stop: CancellationToken,
) {
    // The program gets no input.
    drop(child.stdin.take());
    let stopped = stop.cancelled();
    drain_until(&mut child, stopped, |bytes| lock(&output).push(bytes)).await;
    let ended = terminate(child, &StopTimeouts::with_grace(GRACE), |bytes| {
        lock(&output).push(bytes);
    })
    .await;
    told.send_replace(Some(exit_status_json(ended.status)));
}

fn exit_status_json(status: Option<ExitStatus>) -> Value {
    let signal = status.and_then(|status| status.signal());
    json!({
        "exitCode": status.and_then(|status| status.code()),
        "signal": signal.map(|signal| format!("signal {signal}")),
    })
}

fn lock(output: &Mutex<OutputTail>) -> std::sync::MutexGuard<'_, OutputTail> {
    output.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_an_output_is_kept_and_no_character_is_cut() {
        let mut output = OutputTail { bytes: Vec::new(), limit: 5, truncated: false };
        output.push("abc".as_bytes());
        assert_eq!((output.text(), output.truncated), ("abc".to_owned(), false));
        output.push("dé€f".as_bytes());
        assert_eq!((output.text(), output.truncated), ("€f".to_owned(), true));
        for _ in 0..1000 {
            output.push(&[b'x'; 100]);
            assert!(output.bytes.len() <= 110);
        }
        assert_eq!(output.text(), "xxxxx");
    }
}

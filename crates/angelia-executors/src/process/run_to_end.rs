//! Runs one short command to completion, such as `<agent> --version` or a rule's command.

use std::{process::ExitStatus, time::Duration};

use tokio::io::AsyncWriteExt as _;

use super::{
    spawn::{ProcessLaunch, SpawnError, spawn},
    stderr::StderrTail,
    terminate::{StopStage, StopTimeouts, terminate},
};

/// The maximum number of stdout bytes kept; further output is read and discarded.
const MAX_OUTPUT_BYTES: usize = 1024 * 1024;

/// The output and exit status of a command.
#[derive(Debug)]
pub struct ProcessOutput {
    pub status: Option<ExitStatus>,
    pub stdout: Vec<u8>,
    pub stderr: StderrTail,
    /// The command did not exit on its own within the limit.
    pub timed_out: bool,
    /// Stdout was longer than the limit.
    pub truncated: bool,
}

impl ProcessOutput {
    pub fn succeeded(&self) -> bool {
        !self.timed_out && self.status.is_some_and(|status| status.success())
    }
}

/// Runs a command with empty stdin. After `limit`, it is terminated like every other child.
pub async fn run_to_end(
    launch: &ProcessLaunch,
    limit: Duration,
) -> Result<ProcessOutput, SpawnError> {
    run_with_input(launch, &[], limit).await
}

/// Runs a command with `input` on stdin. After `limit`, it is terminated.
pub async fn run_with_input(
    launch: &ProcessLaunch,
    input: &[u8],
    limit: Duration,
) -> Result<ProcessOutput, SpawnError> {
    let mut child = spawn(launch).await?;
    let stdin = child.stdin.take();
    let stderr = child.stderr();
    let mut stdout = Vec::new();
    let mut truncated = false;

    // The first stop stage waits for the exit after stdin was closed. A command runs exactly like
    // that, so the timeout of that stage is the command's limit.
    let ladder = StopTimeouts {
        after_eof: limit,
        after_term: Duration::from_millis(500),
        ..StopTimeouts::default()
    };
    let feeding = async {
        if let Some(mut stdin) = stdin {
            // A command may exit without reading its stdin.
            let _unread = stdin.write_all(input).await;
        }
        // Never completes: `select!` below must end with the command, not with the writing.
        std::future::pending().await
    };
    let ending = terminate(child, &ladder, |bytes| {
        let room = MAX_OUTPUT_BYTES - stdout.len();
        truncated |= bytes.len() > room;
        stdout.extend_from_slice(&bytes[..bytes.len().min(room)]);
    });
    let ended = tokio::select! {
        ended = ending => ended,
        never = feeding => never,
    };

    let timed_out = ended.stage > StopStage::StdinClosed;
    Ok(ProcessOutput { status: ended.status, stdout, stderr, timed_out, truncated })
}

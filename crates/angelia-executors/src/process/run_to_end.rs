//! One short command from start to end: `<agent> --version`, `<agent> auth status`, a rule's command.

use std::{process::ExitStatus, time::Duration};

use tokio::io::AsyncWriteExt as _;

use super::{
    spawn::{Launch, SpawnError, spawn},
    stderr::StderrTail,
    terminate::{Ladder, Rung, terminate},
};

/// What is kept of stdout; more is read and thrown away.
const LONGEST_OUTPUT: usize = 1024 * 1024;

/// What a command said and how it ended.
#[derive(Debug)]
pub struct Finished {
    pub status: Option<ExitStatus>,
    pub stdout: Vec<u8>,
    pub stderr: StderrTail,
    /// It did not end by itself.
    pub timed_out: bool,
    /// It said more than we kept.
    pub truncated: bool,
}

impl Finished {
    pub fn succeeded(&self) -> bool {
        !self.timed_out && self.status.is_some_and(|status| status.success())
    }
}

/// Runs a command with stdin closed; after `limit` it is ended like every other child.
pub async fn run_to_end(launch: &Launch, limit: Duration) -> Result<Finished, SpawnError> {
    run_with_input(launch, &[], limit).await
}

/// The same, with something to read for it.
pub async fn run_with_input(
    launch: &Launch,
    input: &[u8],
    limit: Duration,
) -> Result<Finished, SpawnError> {
    let mut child = spawn(launch).await?;
    let stdin = child.stdin.take();
    let stderr = child.stderr();
    let mut stdout = Vec::new();
    let mut truncated = false;

    // The first rung of the ladder is "stdin is closed, now finish": exactly a command's life.
    let ladder =
        Ladder { after_eof: limit, after_term: Duration::from_millis(500), ..Ladder::default() };
    let feeding = async {
        if let Some(mut stdin) = stdin {
            // A command need not read what it is given.
            let _unread = stdin.write_all(input).await;
        }
        // Whoever might still hold the other end is gone when the command has ended.
        std::future::pending().await
    };
    let ending = terminate(child, &ladder, |bytes| {
        let room = LONGEST_OUTPUT - stdout.len();
        truncated |= bytes.len() > room;
        stdout.extend_from_slice(&bytes[..bytes.len().min(room)]);
    });
    let ended = tokio::select! {
        ended = ending => ended,
        never = feeding => never,
    };

    let timed_out = ended.rung > Rung::StdinClosed;
    Ok(Finished { status: ended.status, stdout, stderr, timed_out, truncated })
}

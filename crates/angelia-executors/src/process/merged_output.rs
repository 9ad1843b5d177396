//! A program whose stdout and stderr are merged into one stream, in the order of its writes.

use std::{ffi::OsString, path::PathBuf};

use super::child::Child;

/// Runs its arguments with stderr redirected to stdout.
const SCRIPT: &str = "exec \"$0\" \"$@\" 2>&1";

const READ_BYTES: usize = 64 * 1024;

/// Returns a program and its arguments that run `command` with stderr redirected to stdout.
pub(crate) fn merge_stderr(
    command: impl IntoIterator<Item = OsString>,
) -> (PathBuf, Vec<OsString>) {
    let args = ["-c".into(), SCRIPT.into()].into_iter().chain(command).collect();
    ("/bin/sh".into(), args)
}

/// Reads a child's output until it exits (`None`) or `stop` completes. Leaves the rest of the
/// output to [`terminate`](super::terminate()).
pub(crate) async fn drain_until<T>(
    child: &mut Child,
    stop: impl Future<Output = T>,
    mut on_output: impl FnMut(&[u8]),
) -> Option<T> {
    use tokio::io::AsyncReadExt as _;

    let mut pipe = child.stdout.take();
    let mut chunk = vec![0; READ_BYTES];
    tokio::pin!(stop);
    let stopped = loop {
        let read = async {
            match &mut pipe {
                Some(pipe) => pipe.read(&mut chunk).await,
                None => std::future::pending().await,
            }
        };
        // Biased, so that a flood of output delays neither the stop nor the exit.
        tokio::select! {
            biased;
            stopped = &mut stop => break Some(stopped),
            _ = child.wait_exit() => break None,
            read = read => match read {
                Ok(read @ 1..) => on_output(&chunk[..read]),
                Ok(0) | Err(_) => pipe = None,
            },
        }
    };
    child.stdout = pipe;
    stopped
}

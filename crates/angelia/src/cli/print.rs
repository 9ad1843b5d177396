//! Printing to stdout and stderr. A closed pipe is a success: the reader has seen enough.

use std::io::{self, Write};

use jiff::Timestamp;
use serde::Serialize;

use super::error::{CommandError, Exit};

/// Writes to stdout.
pub(crate) fn bytes(bytes: &[u8]) -> Result<Exit, CommandError> {
    let mut out = io::stdout().lock();
    exit_for_write(out.write_all(bytes).and_then(|()| out.flush()))
}

/// Writes a line to stdout.
pub(crate) fn line(text: &str) -> Result<Exit, CommandError> {
    bytes(format!("{text}\n").as_bytes())
}

/// Maps the result of a write to stdout to the command's exit code. A closed pipe is a success.
pub(crate) fn exit_for_write(written: io::Result<()>) -> Result<Exit, CommandError> {
    match written {
        Ok(()) => Ok(Exit::Done),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Exit::Done),
        Err(error) => Err(CommandError::new(
            Exit::Failed,
            format!("cannot write to standard output: {error}"),
        )),
    }
}

/// Writes a line to stderr.
pub(crate) fn note(text: &str) {
    // If stderr is closed, there is nowhere left to report that.
    let _closed = writeln!(io::stderr().lock(), "{text}");
}

pub(crate) fn error(error: &CommandError) {
    note(&error.to_string());
}

/// Appends a value as one line of JSON.
pub(crate) fn json_line(value: &impl Serialize, out: &mut Vec<u8>) -> Result<(), CommandError> {
    serde_json::to_writer(&mut *out, value).map_err(CommandError::internal)?;
    out.push(b'\n');
    Ok(())
}

/// Formats a timestamp to the minute, as the lists show it.
pub(crate) fn format_minute(at: Timestamp) -> impl std::fmt::Display {
    at.strftime("%Y-%m-%d %H:%MZ")
}

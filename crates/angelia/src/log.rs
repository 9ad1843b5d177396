//! Logs go to stderr: errors for a command, info and above for the daemon. The daemon also writes them to its
//! log file, and only there if it runs in the background. `ANGELIA_LOG` sets another filter (`debug`,
//! `angelia_core=trace` …). Prompts and outputs are never logged above trace. `otel` sends traces of turns to
//! a collector.

#[cfg(feature = "otel")]
mod otel;
pub(crate) mod rotating_file;

use std::{
    io::{self, IsTerminal, Write},
    path::Path,
    sync::{Mutex, OnceLock, PoisonError},
};

use tracing_subscriber::{
    EnvFilter,
    filter::{dynamic_filter_fn, filter_fn},
    fmt,
    prelude::*,
};

use self::rotating_file::RotatingFile;
use crate::config::Environment;

/// The target of events that are meant only for the file. On stderr, a person sees them in another form.
pub(crate) const FILE_ONLY: &str = "angelia::file_only";

/// The log file, once it is open.
static LOG_FILE: OnceLock<OpenLog> = OnceLock::new();

#[derive(Debug)]
struct OpenLog {
    file: Mutex<RotatingFile>,
    /// Whether stderr is this file, so that nothing must be written twice.
    is_stderr: bool,
}

pub(crate) fn init(environment: &Environment, daemon: bool) {
    let usual = if daemon { "info" } else { "error" };
    let wanted = environment.non_empty("ANGELIA_LOG").and_then(|value| value.to_str());
    let filter =
        EnvFilter::try_new(wanted.unwrap_or(usual)).unwrap_or_else(|_| EnvFilter::new(usual));
    // The MCP library logs the messages it receives, which may contain a prompt.
    let filter = match "rmcp=off".parse() {
        Ok(quiet) => filter.add_directive(quiet),
        Err(_) => filter,
    };
    let colour = std::io::stderr().is_terminal() && environment.non_empty("NO_COLOR").is_none();
    let is_for_people = filter_fn(|event| event.target() != FILE_ONLY);
    let is_separate = dynamic_filter_fn(|_, _| LOG_FILE.get().is_none_or(|log| !log.is_stderr));
    let lines = fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(colour)
        .with_target(false)
        .with_filter(is_for_people)
        .with_filter(is_separate);
    let file = fmt::layer()
        .with_writer(|| LogWriter)
        .with_ansi(false)
        .with_target(false)
        .with_filter(dynamic_filter_fn(|_, _| LOG_FILE.get().is_some()));
    let subscriber = tracing_subscriber::registry().with(lines.and_then(file).with_filter(filter));
    #[cfg(feature = "otel")]
    let subscriber = subscriber.with(otel::layer(environment));
    // Fails only if a subscriber is already installed, which serves as well.
    let _already = subscriber.try_init();
}

/// Writes the events that are still buffered before the process exits.
pub(crate) fn flush() {
    #[cfg(feature = "otel")]
    otel::flush();
}

/// Also writes the log to this file from now on, or only there if stderr is that file. A file that reaches
/// `max_size` bytes is set aside; `keep` of those are kept.
pub(crate) fn open_file(path: &Path, max_size: u64, keep: u32, is_stderr: bool) -> io::Result<()> {
    let file = Mutex::new(RotatingFile::open(path, max_size, keep, is_stderr)?);
    let _already = LOG_FILE.set(OpenLog { file, is_stderr });
    Ok(())
}

/// Writes to the log file, one event at a time.
struct LogWriter;

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(log) = LOG_FILE.get() {
            log.file.lock().unwrap_or_else(PoisonError::into_inner).append(bytes)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

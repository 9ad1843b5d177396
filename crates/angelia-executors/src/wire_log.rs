//! A log of the lines between us and the agents of one host, for `angelia selftest --record`. No
//! other command keeps such a log.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

/// Bounds the memory of a log. A self-test produces much less.
const MAX_LOG_BYTES: usize = 32 * 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireDirection {
    ToAgent,
    FromAgent,
}

/// One line, without its line break.
#[derive(Clone, Debug)]
pub struct WireLine {
    pub at: Instant,
    /// The agent's process id, to tell several agents apart.
    pub pid: u32,
    pub direction: WireDirection,
    pub text: String,
}

#[derive(Debug, Default)]
pub struct WireLog {
    state: Mutex<WireLogState>,
}

#[derive(Debug, Default)]
struct WireLogState {
    lines: Vec<WireLine>,
    bytes: usize,
    is_full: bool,
}

impl WireLog {
    /// Removes and returns the lines so far, oldest first.
    pub fn take(&self) -> Vec<WireLine> {
        std::mem::take(&mut self.state().lines)
    }

    /// Reports whether lines are missing because the log is full.
    pub fn is_full(&self) -> bool {
        self.state().is_full
    }

    fn add(&self, pid: u32, direction: WireDirection, line: &[u8]) {
        if line.is_empty() {
            return;
        }
        let mut state = self.state();
        if state.bytes + line.len() > MAX_LOG_BYTES {
            state.is_full = true;
            return;
        }
        state.bytes += line.len();
        let text = String::from_utf8_lossy(line).into_owned();
        state.lines.push(WireLine { at: Instant::now(), pid, direction, text });
    }

    fn state(&self) -> MutexGuard<'_, WireLogState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Splits one direction of a process's traffic into lines.
#[derive(Debug)]
pub(crate) struct WireTap {
    log: Arc<WireLog>,
    pid: u32,
    direction: WireDirection,
    /// The beginning of a line that has not ended yet.
    partial: Vec<u8>,
}

impl WireTap {
    pub(crate) fn new(log: Arc<WireLog>, pid: u32, direction: WireDirection) -> Self {
        Self { log, pid, direction, partial: Vec::new() }
    }

    pub(crate) fn pass(&mut self, bytes: &[u8]) {
        let mut pieces = bytes.split(|byte| *byte == b'\n');
        // The first piece ends the open line; the last piece has no end yet.
        let Some(first) = pieces.next() else { return };
        self.partial.extend_from_slice(first);
        for piece in pieces {
            self.log.add(self.pid, self.direction, &self.partial);
            self.partial = piece.to_vec();
        }
    }
}

impl Drop for WireTap {
    fn drop(&mut self) {
        self.log.add(self.pid, self.direction, &self.partial);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_however_they_were_cut() {
        let log = Arc::new(WireLog::default());
        let mut tap = WireTap::new(Arc::clone(&log), 7, WireDirection::FromAgent);
        for piece in ["{\"a\"", ":1}\n", "\n{\"b\":2}\n{\"c\"", ":3}"] {
            tap.pass(piece.as_bytes());
        }
        drop(tap);
        let lines: Vec<String> = log.take().into_iter().map(|line| line.text).collect();
        assert_eq!(lines, [r#"{"a":1}"#, r#"{"b":2}"#, r#"{"c":3}"#]);
        assert!(log.take().is_empty() && !log.is_full());
    }
}

//! Reads lines from stdin, with a time limit while a turn is running.

use std::{io, os::fd::AsFd as _, time::Duration};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Reads stdin without a second thread: a switch between threads would take most of a turn's time.
#[derive(Debug, Default)]
pub(crate) struct StdinLines {
    buffer: Vec<u8>,
    read_to: usize,
    ended: bool,
}

#[derive(Debug)]
pub(crate) enum ReadOutcome {
    Line(Vec<u8>),
    End,
    TimedOut,
}

impl StdinLines {
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Returns the next line without its newline; waits at most `limit`, or forever when it is
    /// `None`.
    pub(crate) fn next_line(&mut self, limit: Option<Duration>) -> io::Result<ReadOutcome> {
        loop {
            let unread = &self.buffer[self.read_to..];
            if let Some(end) = unread.iter().position(|byte| *byte == b'\n') {
                let line = unread[..end].to_vec();
                self.read_to += end + 1;
                return Ok(ReadOutcome::Line(line));
            }
            if self.ended {
                return Ok(ReadOutcome::End);
            }
            if let Some(limit) = limit
                && !readable(limit)?
            {
                return Ok(ReadOutcome::TimedOut);
            }
            self.fill()?;
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        self.buffer.drain(..self.read_to);
        self.read_to = 0;
        let filled = self.buffer.len();
        self.buffer.resize(filled + 64 * 1024, 0);
        let read = rustix::io::read(io::stdin().as_fd(), &mut self.buffer[filled..])?;
        self.buffer.truncate(filled + read);
        self.ended = read == 0;
        Ok(())
    }
}

fn readable(limit: Duration) -> io::Result<bool> {
    let stdin = io::stdin();
    let mut waited = [PollFd::new(&stdin, PollFlags::IN)];
    let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
    Ok(poll(&mut waited, Some(&limit))? > 0)
}

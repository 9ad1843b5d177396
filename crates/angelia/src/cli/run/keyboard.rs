//! Lines typed by a person. They are read from the terminal itself, because stdin may have been
//! used for the prompt.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    os::fd::OwnedFd,
    sync::Arc,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    pipe::{PipeFlags, pipe_with},
    termios::{QueueSelector, tcflush},
};
use tokio::{sync::mpsc, time::Instant};

/// Lines from the controlling terminal, read by a thread that ends when this value is dropped.
/// After that, other readers get the terminal's input again.
#[derive(Debug)]
pub(crate) struct Keyboard {
    terminal: Arc<File>,
    lines: mpsc::Receiver<TypedLine>,
    /// Closing this ends the thread.
    stop: OwnedFd,
}

/// A typed line, and the time at which it was read.
#[derive(Debug)]
pub(crate) struct TypedLine {
    pub(crate) at: Instant,
    pub(crate) input: LineInput,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LineInput {
    /// A line without its line break.
    Text(String),
    /// Ctrl-D on an empty line.
    EndOfInput,
}

impl Keyboard {
    /// Opens the controlling terminal. Returns `None` if there is none, and thus no person to ask.
    pub(crate) fn open() -> Option<Self> {
        let terminal = Arc::new(File::open("/dev/tty").ok()?);
        let (sender, lines) = mpsc::channel(1);
        let (stopped, stop) = pipe_with(PipeFlags::CLOEXEC).ok()?;
        let input = Arc::clone(&terminal);
        let read = move || {
            let mut reader = BufReader::new(&*input);
            while has_input(&input, &stopped)
                && let Some(input) = read_input(&mut reader, &input)
            {
                let line = TypedLine { at: Instant::now(), input };
                if sender.blocking_send(line).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("keyboard".to_owned()).spawn(read).ok()?;
        Some(Self { terminal, lines, stop })
    }

    /// Returns the next line, or `None` if the terminal is closed. Cancel safe.
    pub(crate) async fn next_line(&mut self) -> Option<TypedLine> {
        self.lines.recv().await
    }

    /// Stops reading, and returns the lines that were not taken.
    pub(crate) async fn into_lines(self) -> Vec<String> {
        let Self { mut lines, stop, .. } = self;
        drop(stop);
        let mut left = Vec::new();
        while let Some(line) = lines.recv().await {
            if let LineInput::Text(text) = line.input {
                left.push(text);
            }
        }
        left
    }

    /// Drops all text typed so far, including an unfinished line. Lines that were already read have
    /// an earlier [`TypedLine::at`].
    pub(crate) fn drop_pending(&self) {
        if let Err(error) = tcflush(&*self.terminal, QueueSelector::IFlush) {
            tracing::debug!(%error, "typed input cannot be dropped");
        }
    }
}

/// Waits for a line, or for the end of the terminal. Returns `false` if the keyboard has been
/// dropped. Uses polling, because a blocking read could not be interrupted.
fn has_input(terminal: &File, stopped: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(terminal, PollFlags::IN), PollFd::new(stopped, PollFlags::IN)];
    loop {
        match poll(&mut polled, None) {
            Ok(_) => return polled[1].revents().is_empty(),
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

fn read_input(reader: &mut BufReader<impl Read>, terminal: &File) -> Option<LineInput> {
    let mut line = Vec::new();
    match reader.read_until(b'\n', &mut line) {
        Ok(0) if is_hung_up(terminal) => None,
        Ok(0) => Some(LineInput::EndOfInput),
        Ok(_) => {
            let text = String::from_utf8_lossy(&line);
            Some(LineInput::Text(text.trim_end_matches(['\r', '\n']).to_owned()))
        }
        Err(_) => None,
    }
}

/// Returns whether the terminal is gone, which a read reports in the same way as Ctrl-D.
fn is_hung_up(terminal: &File) -> bool {
    let mut polled = [PollFd::new(terminal, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    poll(&mut polled, Some(&now)).is_err() || polled[0].revents().intersects(gone)
}

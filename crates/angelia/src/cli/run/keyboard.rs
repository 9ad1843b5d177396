//! Answers typed by a person. They come from the terminal itself, not from stdin, which may have
//! carried the prompt.

use std::{
    fs::File,
    io::{BufRead, BufReader},
};

use tokio::sync::mpsc;

/// Lines from the controlling terminal, read by a thread of their own: a read from a terminal
/// cannot be taken back, so the thread stays until the process ends.
#[derive(Debug)]
pub(crate) struct Keyboard {
    lines: mpsc::Receiver<String>,
}

impl Keyboard {
    /// `None`: there is no terminal, so nobody can be asked.
    pub(crate) fn open() -> Option<Self> {
        let terminal = File::open("/dev/tty").ok()?;
        let (sender, lines) = mpsc::channel(1);
        let read = move || {
            for line in BufReader::new(terminal).lines() {
                let Ok(line) = line else { return };
                if sender.blocking_send(line).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("keyboard".to_owned()).spawn(read).ok()?;
        Some(Self { lines })
    }

    /// The next line without its end; `None`: the terminal has gone. Cancel safe.
    pub(crate) async fn line(&mut self) -> Option<String> {
        self.lines.recv().await
    }
}

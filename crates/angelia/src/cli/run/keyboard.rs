//! Lines typed by a person. They are read from the terminal itself, because stdin may have carried
//! the prompt.

use std::{
    fs::File,
    io::{BufRead, BufReader},
};

use tokio::sync::mpsc;

/// Lines from the controlling terminal, read by a thread of its own. A blocking read from a
/// terminal cannot be cancelled, so the thread lives until the process ends.
#[derive(Debug)]
pub(crate) struct Keyboard {
    lines: mpsc::Receiver<String>,
}

impl Keyboard {
    /// Opens the controlling terminal. `None`: there is none, so nobody can be asked.
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

    /// Returns the next line without its line break; `None`: the terminal is closed. Cancel safe.
    pub(crate) async fn next_line(&mut self) -> Option<String> {
        self.lines.recv().await
    }
}

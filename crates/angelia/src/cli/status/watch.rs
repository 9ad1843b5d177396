//! `angelia status --watch`: redraws the status repeatedly until `q` or Ctrl-C.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    time::Duration,
};

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
    time::{MissedTickBehavior, interval},
};

use super::{Exit, exit_code, format, read};
use crate::{
    assemble::App,
    cli::{error::CommandError, print, view::terminal_size},
};

const INTERVAL: Duration = Duration::from_secs(1);
/// Interval for output that cannot be redrawn, to which each status is appended.
const PLAIN_INTERVAL: Duration = Duration::from_secs(5);

/// Shows the status repeatedly. `is_live` means that stdout is a terminal whose cursor can be
/// moved. Otherwise each status is written below the previous one.
pub(super) async fn run(app: &App, json: bool, is_live: bool) -> Result<Exit, CommandError> {
    let failed = |error: io::Error| CommandError::internal(error);
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut resized = signal(SignalKind::window_change()).map_err(failed)?;
    let is_live = is_live && !json;
    let mut keys = is_live.then(Keys::open).flatten();
    let _screen = is_live.then(LiveScreen::enter);
    let mut ticks = interval(if is_live { INTERVAL } else { PLAIN_INTERVAL });
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut exit = Exit::Done;
    let mut is_first = true;
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            _ = resized.recv(), if is_live => {}
            _ = interrupt.recv() => return Ok(exit),
            _ = terminate.recv() => return Ok(exit),
            key = next_key(keys.as_mut()) => match key {
                Some(b'q' | b'Q' | 3) => return Ok(exit),
                Some(_) => {}
                None => keys = None,
            },
        }
        let status = read(app).await?;
        exit = exit_code(&status);
        let text = format(app, &status, json)?;
        let written = if is_live {
            print::write_styled(&frame(&text, terminal_size().1))
        } else {
            let separator = if is_first || json { "" } else { "\n" };
            print::write_styled(&format!("{separator}{text}"))
        };
        is_first = false;
        match written {
            Err(error) if print::is_reader_gone(&error) => return Ok(exit),
            written => written.map_err(|error| print::output_error(&error))?,
        }
    }
}

/// Returns the sequence that draws a text over the previous one, and clears the rest of every line.
fn frame(text: &str, rows: usize) -> String {
    let mut frame = "\x1b[H".to_owned();
    let lines: Vec<&str> = text.lines().collect();
    let hint = "q ends";
    let shown = lines.len().min(rows.saturating_sub(1));
    for line in &lines[..shown] {
        frame.push_str(line);
        frame.push_str("\x1b[K\r\n");
    }
    frame.push_str(hint);
    frame.push_str("\x1b[K\x1b[J");
    frame
}

async fn next_key(keys: Option<&mut Keys>) -> Option<u8> {
    match keys {
        Some(keys) => keys.typed.recv().await,
        None => std::future::pending().await,
    }
}

/// Single keys from the terminal, without echo. Restores the terminal's mode on drop.
struct Keys {
    typed: mpsc::Receiver<u8>,
    terminal: File,
    before: Termios,
}

impl Keys {
    fn open() -> Option<Self> {
        let terminal = File::open("/dev/tty").ok()?;
        let before = tcgetattr(&terminal).ok()?;
        let mut mode = before.clone();
        mode.local_modes &= !(LocalModes::ICANON | LocalModes::ECHO);
        mode.special_codes[SpecialCodeIndex::VMIN] = 1;
        mode.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(&terminal, OptionalActions::Now, &mode).ok()?;
        let (sender, typed) = mpsc::channel(16);
        let mut input = terminal.try_clone().ok()?;
        // A blocking read from a terminal cannot be cancelled, so the thread lives until the
        // process exits.
        let read = move || {
            let mut key = [0];
            while input.read_exact(&mut key).is_ok() && sender.blocking_send(key[0]).is_ok() {}
        };
        std::thread::Builder::new().name("keys".to_owned()).spawn(read).ok()?;
        Some(Self { typed, terminal, before })
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        let _closed = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}

/// The terminal's alternate screen, so that the earlier lines reappear when the command ends.
struct LiveScreen;

impl LiveScreen {
    fn enter() -> Self {
        let _closed = write_now("\x1b[?1049h\x1b[?25l");
        Self
    }
}

impl Drop for LiveScreen {
    fn drop(&mut self) {
        let _closed = write_now("\x1b[?25h\x1b[?1049l");
    }
}

fn write_now(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

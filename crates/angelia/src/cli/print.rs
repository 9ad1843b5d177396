//! Printing to stdout and stderr. A closed pipe counts as success, because the reader has seen
//! enough. Any other error is reported. Control characters are made visible on a terminal, never
//! sent to it.

use std::{
    borrow::Cow,
    io::{self, IsTerminal as _, Write},
};

use angelia_frontends::stdio::StdioOutput;
use jiff::{Timestamp, tz::TimeZone};
use serde::Serialize;

use super::error::{CommandError, Exit};

/// Writes to stdout.
pub(crate) fn bytes(bytes: &[u8]) -> Result<Exit, CommandError> {
    exit_for_write(write_stdout(bytes))
}

/// Writes a line to stdout.
pub(crate) fn line(text: &str) -> Result<Exit, CommandError> {
    bytes(format!("{text}\n").as_bytes())
}

pub(crate) fn write_stdout(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if out.is_terminal() {
        let text = String::from_utf8_lossy(bytes);
        out.write_all(show_controls(&text).as_bytes())?;
    } else {
        out.write_all(bytes)?;
    }
    out.flush()
}

/// Writes a report to stdout. Its parts have already passed [`show_controls`], so the only control
/// sequences left are colours.
pub(crate) fn styled(text: &str) -> Result<Exit, CommandError> {
    exit_for_write(write_styled(text))
}

pub(crate) fn write_styled(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Maps the result of a write to stdout to the command's exit code.
pub(crate) fn exit_for_write(written: io::Result<()>) -> Result<Exit, CommandError> {
    match written {
        Err(error) if !is_reader_gone(&error) => Err(output_error(&error)),
        _ => Ok(Exit::Done),
    }
}

/// Returns whether the reader has closed its end of the pipe, because it has seen enough.
pub(crate) fn is_reader_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

pub(crate) fn output_error(error: &io::Error) -> CommandError {
    CommandError::new(Exit::Output, format!("cannot write the output: {error}"))
        .with_hint("check where it goes: the space on the disk, its permissions")
}

/// Fails if lines for a host could not be written, unless the host is gone.
pub(crate) fn check_stdio(output: &StdioOutput) -> Result<(), CommandError> {
    match output.take_error() {
        Some(error) if !is_reader_gone(&error) => Err(output_error(&error)),
        _ => Ok(()),
    }
}

/// Writes a line to stderr.
pub(crate) fn note(text: &str) {
    let mut err = io::stderr().lock();
    let text = if err.is_terminal() { show_controls(text) } else { text.into() };
    // If stderr is closed, the error cannot be reported.
    let _closed = writeln!(err, "{text}");
}

pub(crate) fn error(error: &CommandError) {
    note(&error.to_string());
}

/// Replaces control characters in a text with visible ones, for a terminal. The text may come from
/// a model, a tool or a message, and must not move the cursor, recolour the screen, set the title
/// or fill the clipboard. Keeps line breaks and tabs.
pub(crate) fn show_controls(text: &str) -> Cow<'_, str> {
    let is_shown = |char: char| char.is_control() && char != '\n' && char != '\t';
    if !text.contains(is_shown) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for char in text.replace("\r\n", "\n").chars() {
        match char {
            char if !is_shown(char) => out.push(char),
            '\x7f' => out.push('␡'),
            // The control pictures are in the same order as the first 32 characters.
            char if char.is_ascii() => {
                out.extend(char::from_u32(u32::from('␀') + u32::from(char)));
            }
            char => out.extend(char.escape_unicode()),
        }
    }
    Cow::Owned(out)
}

/// Appends a value as one line of JSON.
pub(crate) fn json_line(value: &impl Serialize, out: &mut Vec<u8>) -> Result<(), CommandError> {
    serde_json::to_writer(&mut *out, value).map_err(CommandError::internal)?;
    out.push(b'\n');
    Ok(())
}

/// Formats a timestamp to the minute, in the zone of this machine.
pub(crate) fn format_minute(at: Timestamp) -> impl std::fmt::Display {
    format_minute_in(at, &TimeZone::system())
}

/// Pure part of [`format_minute`].
pub(crate) fn format_minute_in(at: Timestamp, zone: &TimeZone) -> String {
    at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown() {
        let text = "a\tb\nc \x1b[2J\x1b]52;c;aGk=\x07 \r\x08\x7f\0 \u{9b}31m\r\nü ␛ 👩‍💻";
        assert_eq!(show_controls(text), "a\tb\nc ␛[2J␛]52;c;aGk=␇ ␍␈␡␀ \\u{9b}31m\nü ␛ 👩‍💻");
        assert!(matches!(show_controls("plain\n\ttext"), Cow::Borrowed(_)));
    }

    #[test]
    fn only_a_reader_that_left_is_no_error() {
        let exit = |kind: io::ErrorKind| exit_for_write(Err(kind.into())).map_err(|it| it.exit);
        assert_eq!(exit(io::ErrorKind::BrokenPipe), Ok(Exit::Done));
        assert_eq!(exit(io::ErrorKind::StorageFull), Err(Exit::Output));
        assert_eq!(exit(io::ErrorKind::Other), Err(Exit::Output));
    }
}

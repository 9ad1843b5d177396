//! The terminal: the answer goes to stdout, everything about the turn to stderr. This file knows
//! lines, colours and the spinner, but nothing of turns. Every text passes [`show_controls`] on its
//! way to a terminal; a pipe gets it as it is.

use std::{
    borrow::Cow,
    io::{self, IsTerminal, Write},
};

use crate::cli::print::show_controls;

/// The style of a line about the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Faint,
    Warning,
    Bold,
}

#[derive(Debug)]
pub(crate) struct Screen<Out: Write, Err: Write> {
    out: Out,
    err: Err,
    /// Text is written as it arrives; off for pipes, which get whole blocks.
    pub(crate) streams: bool,
    /// stderr is a terminal, so the spinner and progress lines are shown.
    pub(crate) live: bool,
    colour: bool,
    /// The cursor is not at the start of a line.
    mid_line: bool,
    spinner: Option<usize>,
}

const SPINNER_FRAMES: [&str; 8] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧"];

impl Screen<io::Stdout, io::Stderr> {
    pub(crate) fn of_this_process(no_colour: bool) -> Self {
        let (out, err) = (io::stdout(), io::stderr());
        let (streams, live) = (out.is_terminal(), err.is_terminal());
        Self::new(out, err, streams, live, live && !no_colour)
    }
}

impl<Out: Write, Err: Write> Screen<Out, Err> {
    pub(crate) fn new(out: Out, err: Err, streams: bool, live: bool, colour: bool) -> Self {
        Self { out, err, streams, live, colour, mid_line: false, spinner: None }
    }

    /// Writes part of the answer.
    pub(crate) fn write_text(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.hide_spinner()?;
        let shown = if self.streams { show_controls(text) } else { Cow::Borrowed(text) };
        self.out.write_all(shown.as_bytes())?;
        self.out.flush()?;
        self.mid_line = !text.ends_with('\n');
        Ok(())
    }

    /// Ends the current line of the answer, if one is open.
    pub(crate) fn end_line(&mut self) -> io::Result<()> {
        if self.mid_line { self.write_text("\n") } else { Ok(()) }
    }

    /// Writes a line about the turn.
    pub(crate) fn write_line(&mut self, tone: Tone, text: &str) -> io::Result<()> {
        self.hide_spinner()?;
        if self.live && self.streams {
            self.end_line()?;
        }
        for line in text.lines() {
            let line = self.shown(line);
            if self.colour {
                writeln!(self.err, "\x1b[{}m{line}\x1b[0m", tone.ansi_code())?;
            } else {
                writeln!(self.err, "{line}")?;
            }
        }
        self.err.flush()
    }

    /// Writes a question and leaves the cursor after it.
    pub(crate) fn write_prompt(&mut self, question: &str) -> io::Result<()> {
        self.hide_spinner()?;
        write!(self.err, "{} ", self.shown(question))?;
        self.err.flush()
    }

    /// Advances the spinner by one frame, if a person is looking and no line of the answer is open.
    pub(crate) fn spin(&mut self, label: &str) -> io::Result<()> {
        if !self.live || (self.mid_line && self.streams) {
            return Ok(());
        }
        let step = self.spinner.map_or(0, |step| step + 1);
        let frame = SPINNER_FRAMES[step % SPINNER_FRAMES.len()];
        write!(self.err, "\r\x1b[K{frame} {}", single_line(&show_controls(label)))?;
        self.err.flush()?;
        self.spinner = Some(step);
        Ok(())
    }

    /// Returns a text about the turn as it is written to stderr.
    fn shown<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.live { show_controls(text) } else { Cow::Borrowed(text) }
    }

    fn hide_spinner(&mut self) -> io::Result<()> {
        if self.spinner.take().is_some() {
            write!(self.err, "\r\x1b[K")?;
            self.err.flush()?;
        }
        Ok(())
    }

    pub(crate) fn close(&mut self) -> io::Result<()> {
        self.hide_spinner()?;
        self.end_line()?;
        self.out.flush()
    }
}

impl Tone {
    const fn ansi_code(self) -> &'static str {
        match self {
            Self::Faint => "2",
            Self::Warning => "33",
            Self::Bold => "1",
        }
    }
}

/// The spinner has one line only.
fn single_line(text: &str) -> String {
    text.replace(['\n', '\t'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(tty: bool) -> Screen<Vec<u8>, Vec<u8>> {
        Screen::new(Vec::new(), Vec::new(), tty, tty, false)
    }

    #[test]
    fn a_line_about_the_turn_never_lands_inside_the_answer() {
        let mut screen = screen(true);
        screen.write_text("half a sen").unwrap();
        screen.write_line(Tone::Faint, "• Bash ls").unwrap();
        screen.write_text("tence").unwrap();
        screen.close().unwrap();
        assert_eq!(String::from_utf8(screen.out).unwrap(), "half a sen\ntence\n");
        assert_eq!(String::from_utf8(screen.err).unwrap(), "• Bash ls\n");
    }

    #[test]
    fn a_pipe_gets_the_answer_and_nothing_else() {
        let mut screen = screen(false);
        screen.spin("working").unwrap();
        screen.write_text("answer").unwrap();
        screen.close().unwrap();
        assert_eq!(String::from_utf8(screen.out).unwrap(), "answer\n");
        assert!(screen.err.is_empty());
    }

    #[test]
    fn escape_sequences_from_a_model_do_not_reach_a_terminal() {
        let evil = "rm \x1b[2Jx\r\u{9b}1m";
        let write_all = |screen: &mut Screen<Vec<u8>, Vec<u8>>| {
            screen.spin(evil).unwrap();
            screen.write_text(evil).unwrap();
            screen.write_line(Tone::Bold, evil).unwrap();
            screen.write_prompt(evil).unwrap();
            screen.close().unwrap();
        };
        let mut terminal = screen(true);
        write_all(&mut terminal);
        let ours = "\r\x1b[K";
        let err = String::from_utf8(terminal.err).unwrap().replace(ours, "");
        let out = String::from_utf8(terminal.out).unwrap();
        for text in [&err, &out] {
            let raw = |char: char| char.is_control() && char != '\n';
            assert!(!text.contains(raw), "{text:?}");
        }
        assert_eq!(out, "rm ␛[2Jx␍\\u{9b}1m\n");

        let mut pipe = screen(false);
        write_all(&mut pipe);
        assert_eq!(String::from_utf8(pipe.out).unwrap(), format!("{evil}\n"));
        assert_eq!(String::from_utf8(pipe.err).unwrap(), format!("{evil}\n{evil} "));
    }
}

//! The terminal: the answer goes to stdout, everything about the turn to stderr. This file knows
//! lines, colours and the spinner, but nothing of turns.

use std::io::{self, IsTerminal, Write};

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
        self.out.write_all(text.as_bytes())?;
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
            let line = printable(line);
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
        write!(self.err, "{question} ")?;
        self.err.flush()
    }

    /// Advances the spinner by one frame, if a person is looking and no line of the answer is open.
    pub(crate) fn spin(&mut self, label: &str) -> io::Result<()> {
        if !self.live || (self.mid_line && self.streams) {
            return Ok(());
        }
        let step = self.spinner.map_or(0, |step| step + 1);
        let frame = SPINNER_FRAMES[step % SPINNER_FRAMES.len()];
        write!(self.err, "\r\x1b[K{frame} {}", printable(label))?;
        self.err.flush()?;
        self.spinner = Some(step);
        Ok(())
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

/// Replaces control characters: a tool's title comes from a model and must not move the cursor or
/// recolour the terminal.
fn printable(line: &str) -> String {
    line.chars().map(|c| if c.is_control() && c != '\t' { '·' } else { c }).collect()
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
    fn escape_sequences_from_a_model_do_not_reach_the_terminal() {
        assert_eq!(printable("rm \x1b[2Jx\r"), "rm ·[2Jx·");
    }
}

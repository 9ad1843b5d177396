//! The terminal: the answer goes to stdout, everything about the turn to stderr. This file handles lines,
//! colours, widths, the spinner and rows that may still change, but knows nothing about turns. Every text
//! passes [`show_controls`] on its way to a terminal; a pipe gets it unchanged.

use std::{
    borrow::Cow,
    io::{self, IsTerminal, Write},
};

use super::open_rows::{OpenRows, ScreenSize, erase_rows};
use crate::{
    cli::{
        markdown::{LayoutOptions, ScreenRow},
        print::show_controls,
        text_width::{columns, fit, rows},
        view::{Style, is_dumb},
    },
    config::Environment,
};

/// The style of a line about the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Faint,
    Warning,
    Bold,
    Added,
    Removed,
}

/// The features of the command's two outputs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ScreenFeatures {
    /// stdout is a terminal, so text is written as it arrives. A pipe gets whole blocks.
    pub(crate) streams: bool,
    /// stderr is a terminal, so progress is shown.
    pub(crate) live: bool,
    pub(crate) colour: bool,
    /// A line can be overwritten, so the spinner is shown.
    pub(crate) redraws: bool,
    /// The answer is rendered, because stdout is a terminal whose lines can be overwritten.
    pub(crate) renders: bool,
}

pub(crate) struct Screen<Out: Write, Err: Write> {
    out: Out,
    err: Err,
    features: ScreenFeatures,
    /// Queried every time, because the window may be resized.
    size: fn() -> Option<ScreenSize>,
    /// Whether the cursor is inside a line of the answer.
    mid_line: bool,
    /// Whether the cursor is after a question.
    at_prompt: bool,
    spinner: Option<DrawnSpinner>,
    /// The last rows of the answer, which may still change.
    open_rows: OpenRows,
}

/// The spinner currently on the screen.
#[derive(Debug)]
struct DrawnSpinner {
    step: usize,
    line: String,
}

const SPINNER_FRAMES: [&str; 8] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧"];

/// The size assumed for a terminal that does not report one.
const DEFAULT_SIZE: ScreenSize = ScreenSize { columns: 80, rows: 24 };

impl Screen<io::Stdout, io::Stderr> {
    /// Detects the features. `is_raw` means that the answer is not rendered.
    pub(crate) fn of_this_process(environment: &Environment, is_raw: bool) -> Self {
        let (out, err) = (io::stdout(), io::stderr());
        let is_dumb = is_dumb(environment);
        let (streams, live) = (out.is_terminal(), err.is_terminal());
        let features = ScreenFeatures {
            streams,
            live,
            colour: live && !is_dumb && environment.non_empty("NO_COLOR").is_none(),
            redraws: live && !is_dumb,
            renders: streams && !is_dumb && !is_raw,
        };
        Self::new(out, err, features, terminal_size)
    }
}

/// Returns the size of the terminal at stderr or stdout.
fn terminal_size() -> Option<ScreenSize> {
    let size = rustix::termios::tcgetwinsize(io::stderr())
        .or_else(|_| rustix::termios::tcgetwinsize(io::stdout()))
        .ok()?;
    let (columns, rows) = (usize::from(size.ws_col), usize::from(size.ws_row));
    (columns > 0 && rows > 0).then_some(ScreenSize { columns, rows })
}

impl<Out: Write, Err: Write> Screen<Out, Err> {
    pub(crate) fn new(
        out: Out,
        err: Err,
        features: ScreenFeatures,
        size: fn() -> Option<ScreenSize>,
    ) -> Self {
        let open_rows = OpenRows::default();
        Self {
            out,
            err,
            features,
            size,
            mid_line: false,
            at_prompt: false,
            spinner: None,
            open_rows,
        }
    }

    pub(crate) fn is_live(&self) -> bool {
        self.features.live
    }

    pub(crate) fn streams(&self) -> bool {
        self.features.streams
    }

    /// Returns whether a line can be overwritten.
    pub(crate) fn redraws(&self) -> bool {
        self.features.redraws
    }

    /// Returns whether the answer is rendered.
    pub(crate) fn renders(&self) -> bool {
        self.features.renders
    }

    /// Returns the terminal's width in columns.
    pub(crate) fn width(&self) -> usize {
        self.size().columns
    }

    fn size(&self) -> ScreenSize {
        (self.size)().unwrap_or(DEFAULT_SIZE)
    }

    /// Returns the current layout options.
    pub(crate) fn layout(&self) -> LayoutOptions {
        // A terminal may wrap as soon as its last column is written.
        let width = self.width().saturating_sub(1);
        LayoutOptions { width, has_colour: self.features.colour }
    }

    /// Writes rows of the rendered answer: final ones, and ones that may still change, which replace the
    /// previous ones of that kind.
    pub(crate) fn write_rows(
        &mut self,
        done: &[ScreenRow],
        open: Vec<ScreenRow>,
    ) -> io::Result<()> {
        self.leave_live_line()?;
        let size = self.size();
        let text = self.open_rows.replace(done, open, size);
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    /// Writes to stderr between the final rows of the answer and the open ones, which move down.
    fn write_above_open_rows(
        &mut self,
        write: impl FnOnce(&mut Self) -> io::Result<()>,
    ) -> io::Result<()> {
        if self.open_rows.is_empty() {
            return write(self);
        }
        let erased = self.open_rows.erase(self.size());
        self.out.write_all(erased.as_bytes())?;
        self.out.flush()?;
        write(self)?;
        self.out.write_all(self.open_rows.redraw().as_bytes())?;
        self.out.flush()
    }

    /// Writes part of the answer.
    pub(crate) fn write_text(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.leave_live_line()?;
        let shown = if self.features.streams { show_controls(text) } else { Cow::Borrowed(text) };
        self.out.write_all(shown.as_bytes())?;
        self.out.flush()?;
        self.mid_line = !text.ends_with('\n');
        Ok(())
    }

    /// Ends the current line of the answer, if one is open.
    pub(crate) fn end_line(&mut self) -> io::Result<()> {
        if self.mid_line { self.write_text("\n") } else { Ok(()) }
    }

    /// Writes lines about the turn.
    pub(crate) fn write_line(&mut self, tone: Tone, text: &str) -> io::Result<()> {
        self.leave_live_line()?;
        if self.features.live && self.features.streams {
            self.end_line()?;
        }
        self.write_above_open_rows(|screen| {
            for line in text.lines() {
                let line = screen.shown(line);
                if let Some(code) = tone.ansi_code().filter(|_| screen.features.colour) {
                    writeln!(screen.err, "\x1b[{code}m{line}\x1b[0m")?;
                } else {
                    writeln!(screen.err, "{line}")?;
                }
            }
            screen.err.flush()
        })
    }

    /// Writes a line that shows progress: never more than one line, and never wider than the terminal. If it
    /// is too long, cuts the text but not the tail.
    pub(crate) fn write_progress(&mut self, tone: Tone, text: &str, tail: &str) -> io::Result<()> {
        let line = single_line(&show_controls(text));
        let width = self.width();
        let line = fit(&line, width.saturating_sub(columns(tail)));
        let line = fit(&format!("{line}{tail}"), width).into_owned();
        self.write_line(tone, &line)
    }

    /// Writes a question and leaves the cursor after it.
    pub(crate) fn write_prompt(&mut self, question: &str) -> io::Result<()> {
        self.leave_live_line()?;
        self.leave_open_rows()?;
        if self.features.live && self.features.streams {
            self.end_line()?;
        }
        write!(self.err, "{} ", self.shown(question))?;
        self.at_prompt = true;
        self.err.flush()
    }

    /// Returns whether the cursor is after a question.
    pub(crate) fn is_at_prompt(&self) -> bool {
        self.at_prompt
    }

    /// Records that the person has ended the line after a question.
    pub(crate) fn end_prompt(&mut self) {
        self.at_prompt = false;
    }

    /// Advances the spinner by one frame if a person is watching and no line of the answer is open.
    pub(crate) fn spin(&mut self, label: &str) -> io::Result<()> {
        let is_answering = self.mid_line && self.features.streams || !self.open_rows.is_empty();
        if !self.features.redraws || is_answering {
            return Ok(());
        }
        let width = self.width();
        let step = self.spinner.as_ref().map_or(0, |drawn| drawn.step + 1);
        let erased = self.take_spinner();
        let frame = SPINNER_FRAMES[step % SPINNER_FRAMES.len()];
        let line = format!("{frame} {}", single_line(&show_controls(label)));
        // A terminal may wrap as soon as its last column is written.
        let line = fit(&line, width.saturating_sub(1)).into_owned();
        // In one write, or the line would flicker.
        self.err.write_all(format!("{erased}{line}").as_bytes())?;
        self.err.flush()?;
        self.spinner = Some(DrawnSpinner { step, line });
        Ok(())
    }

    /// Returns a text about the turn in the form written to stderr.
    fn shown<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.features.live { show_controls(text) } else { Cow::Borrowed(text) }
    }

    /// Removes the spinner and leaves the line of a question.
    fn leave_live_line(&mut self) -> io::Result<()> {
        self.hide_spinner()?;
        if std::mem::take(&mut self.at_prompt) {
            writeln!(self.err)?;
        }
        Ok(())
    }

    fn hide_spinner(&mut self) -> io::Result<()> {
        let erased = self.take_spinner();
        if erased.is_empty() {
            return Ok(());
        }
        self.err.write_all(erased.as_bytes())?;
        self.err.flush()
    }

    /// Forgets the spinner and returns the text that erases it.
    fn take_spinner(&mut self) -> String {
        let Some(drawn) = self.spinner.take() else {
            return String::new();
        };
        // If the window became narrower, the terminal has wrapped the line, and the cursor is at its end.
        let rows_above = rows(&drawn.line, self.width()) - 1;
        erase_rows(rows_above)
    }

    /// Leaves the open rows on the screen unchanged.
    fn leave_open_rows(&mut self) -> io::Result<()> {
        self.out.write_all(self.open_rows.leave().as_bytes())?;
        self.out.flush()
    }

    pub(crate) fn close(&mut self) -> io::Result<()> {
        self.leave_live_line()?;
        self.leave_open_rows()?;
        self.end_line()?;
        self.out.flush()
    }
}

/// Leaves the cursor at the start of a line, however the command ends.
impl<Out: Write, Err: Write> Drop for Screen<Out, Err> {
    fn drop(&mut self) {
        // A failure could not be reported anywhere.
        let _closed = self.close();
    }
}

impl Tone {
    const fn ansi_code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Faint => Some("2"),
            Self::Warning => Some("33"),
            Self::Bold => Some("1"),
            Self::Added => Some("32"),
            Self::Removed => Some("31"),
        }
    }
}

impl From<Style> for Tone {
    fn from(style: Style) -> Self {
        match style {
            Style::Plain => Self::Plain,
            Style::Bold | Style::Match => Self::Bold,
            Style::Faint => Self::Faint,
            Style::Good => Self::Added,
            Style::Warning => Self::Warning,
            Style::Bad => Self::Removed,
        }
    }
}

/// Puts a text on one line, because progress has only one.
fn single_line(text: &str) -> String {
    text.replace(['\n', '\t'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(tty: bool) -> Screen<Vec<u8>, Vec<u8>> {
        let features =
            ScreenFeatures { streams: tty, live: tty, redraws: tty, ..ScreenFeatures::default() };
        Screen::new(Vec::new(), Vec::new(), features, || Some(ScreenSize { columns: 20, rows: 24 }))
    }

    #[test]
    fn a_line_about_the_turn_never_lands_inside_the_answer() {
        let mut screen = screen(true);
        screen.write_text("half a sen").unwrap();
        screen.write_line(Tone::Faint, "• Bash ls").unwrap();
        screen.write_text("tence").unwrap();
        screen.close().unwrap();
        assert_eq!(
            String::from_utf8(std::mem::take(&mut screen.out)).unwrap(),
            "half a sen\ntence\n"
        );
        assert_eq!(String::from_utf8(std::mem::take(&mut screen.err)).unwrap(), "• Bash ls\n");
    }

    #[test]
    fn a_pipe_gets_the_answer_and_nothing_else() {
        let mut screen = screen(false);
        screen.spin("working").unwrap();
        screen.write_text("answer").unwrap();
        screen.close().unwrap();
        assert_eq!(String::from_utf8(std::mem::take(&mut screen.out)).unwrap(), "answer\n");
        assert!(screen.err.is_empty());
    }

    #[test]
    fn live_lines_are_never_wider_than_the_terminal() {
        let mut screen = screen(true);
        let title = "Bash 日本語\tcat <<EOF\nand so on";
        screen.spin(title).unwrap();
        screen.spin(title).unwrap();
        screen.write_progress(Tone::Faint, &format!("• {title}"), "").unwrap();
        let err = String::from_utf8(std::mem::take(&mut screen.err)).unwrap();
        let lines = "⠋ Bash 日本語 cat …\r\x1b[K⠙ Bash 日本語 cat …\r\x1b[K• Bash 日本語 cat <…\n";
        assert_eq!(err, lines);
    }

    #[test]
    fn a_spinner_that_a_narrower_window_has_wrapped_is_removed_whole() {
        let mut screen = screen(true);
        screen.spin("a long label of a tool").unwrap();
        screen.size = || Some(ScreenSize { columns: 8, rows: 24 });
        screen.spin("a long label of a tool").unwrap();
        let err = String::from_utf8(std::mem::take(&mut screen.err)).unwrap();
        assert_eq!(err, "⠋ a long label of …\r\x1b[K\x1b[A\x1b[K\x1b[A\x1b[K⠙ a lo…");
    }

    #[test]
    fn a_question_that_is_withdrawn_leaves_its_line() {
        let mut screen = screen(true);
        screen.write_prompt("yes?").unwrap();
        screen.write_line(Tone::Faint, "decided elsewhere").unwrap();
        screen.write_prompt("and now?").unwrap();
        screen.end_prompt();
        screen.write_line(Tone::Faint, "typed").unwrap();
        let err = String::from_utf8(std::mem::take(&mut screen.err)).unwrap();
        assert_eq!(err, "yes? \ndecided elsewhere\nand now? typed\n");
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
        let err = String::from_utf8(std::mem::take(&mut terminal.err)).unwrap().replace(ours, "");
        let out = String::from_utf8(std::mem::take(&mut terminal.out)).unwrap();
        for text in [&err, &out] {
            let raw = |char: char| char.is_control() && char != '\n';
            assert!(!text.contains(raw), "{text:?}");
        }
        assert_eq!(out, "rm ␛[2Jx␍\\u{9b}1m\n");

        let mut pipe = screen(false);
        write_all(&mut pipe);
        assert_eq!(String::from_utf8(std::mem::take(&mut pipe.out)).unwrap(), format!("{evil}\n"));
        assert_eq!(
            String::from_utf8(std::mem::take(&mut pipe.err)).unwrap(),
            format!("{evil}\n{evil} \n")
        );
    }
}

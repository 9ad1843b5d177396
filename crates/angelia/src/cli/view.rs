//! The width and the colours of a report. Every text from outside passes [`show_controls`] before
//! it is coloured.

use std::io::{self, IsTerminal as _};

use jiff::{SignedDuration, Timestamp};

use super::{
    print::show_controls,
    text_width::{columns, fit},
};
use crate::config::Environment;

/// The width of a report that does not go to a terminal, so that nothing is cut.
const UNLIMITED: usize = usize::MAX;

/// A style of text on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Bold,
    Faint,
    Good,
    Warning,
    Bad,
    /// A word that was searched for.
    Match,
}

impl Style {
    const fn code(self) -> &'static str {
        match self {
            Self::Plain => "0",
            Self::Bold => "1",
            Self::Faint => "2",
            Self::Good => "32",
            Self::Warning => "33",
            Self::Bad => "31",
            Self::Match => "1;31",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) width: usize,
    pub(crate) has_colour: bool,
    pub(crate) is_terminal: bool,
}

impl View {
    /// For a pipe or a file: everything in full, without colours.
    pub(crate) const PLAIN: Self = Self { width: UNLIMITED, has_colour: false, is_terminal: false };

    /// Returns the view for the terminal, pipe or file at stdout.
    pub(crate) fn of_stdout(environment: &Environment) -> Self {
        if !io::stdout().is_terminal() {
            return Self::PLAIN;
        }
        let (width, _) = terminal_size();
        let has_colour = environment.non_empty("NO_COLOR").is_none() && !is_dumb(environment);
        Self { width, has_colour, is_terminal: true }
    }

    pub(crate) fn paint(&self, style: Style, text: &str) -> String {
        let text = show_controls(text);
        if self.has_colour && style != Style::Plain && !text.is_empty() {
            format!("\x1b[{}m{text}\x1b[0m", style.code())
        } else {
            text.into_owned()
        }
    }

    /// Cuts a text without line breaks to `width` columns, and pads it to that width.
    pub(crate) fn cell(&self, style: Style, text: &str, width: usize) -> String {
        let text = fit(text, width);
        let padding = width.saturating_sub(columns(&text));
        format!("{}{}", self.paint(style, &text), " ".repeat(padding))
    }

    /// Cuts a text without line breaks to the rest of the line.
    pub(crate) fn rest(&self, style: Style, text: &str, used: usize) -> String {
        self.paint(style, &fit(text, self.width.saturating_sub(used)))
    }
}

/// Returns the style of a line in a unified diff.
pub(crate) fn diff_style(line: &str) -> Style {
    match line.as_bytes().first() {
        Some(b'+') if line.starts_with("+++ ") => Style::Bold,
        Some(b'-') if line.starts_with("--- ") => Style::Bold,
        Some(b'+') => Style::Good,
        Some(b'-') => Style::Bad,
        Some(b'\\') => Style::Warning,
        Some(b'@') => Style::Faint,
        _ => Style::Plain,
    }
}

/// Separates the parts of a line.
const SEPARATOR: &str = " · ";

/// Breaks a line between its parts if it is too long. Does not break a part that is itself too
/// long.
pub(crate) fn break_parts(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in text.split(SEPARATOR) {
        match lines.last_mut() {
            Some(line) if columns(line) + SEPARATOR.chars().count() + columns(part) <= width => {
                line.push_str(SEPARATOR);
                line.push_str(part);
            }
            _ => lines.push(part.to_owned()),
        }
    }
    lines
}

pub(crate) fn is_dumb(environment: &Environment) -> bool {
    environment.get("TERM").is_none_or(|term| term == "dumb" || term.is_empty())
}

/// Returns the columns and rows of the terminal at stdout.
pub(crate) fn terminal_size() -> (usize, usize) {
    match rustix::termios::tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
            (usize::from(size.ws_col), usize::from(size.ws_row))
        }
        _ => (80, 24),
    }
}

/// Formats a number of bytes: `171 MB`.
pub(crate) fn format_bytes(bytes: u64) -> String {
    const MEGA: u64 = 1_000_000;
    match bytes {
        0..MEGA => format!("{} kB", bytes.div_ceil(1000)),
        _ if bytes < 10_000 * MEGA => format!("{} MB", (bytes + MEGA / 2) / MEGA),
        _ => format!("{} GB", (bytes + 500 * MEGA) / (1000 * MEGA)),
    }
}

/// Formats a number of tokens: `870`, `3.1k`, `2.5M`.
#[expect(clippy::cast_precision_loss, reason = "one digit after the point is shown")]
pub(crate) fn format_tokens(count: u64) -> String {
    match count {
        0..1000 => count.to_string(),
        1000..1_000_000 => format!("{:.1}k", count as f64 / 1e3),
        _ => format!("{:.1}M", count as f64 / 1e6),
    }
}

/// Formats a cost: cents and more with two digits, less with four.
pub(crate) fn format_cost(cost_usd: f64) -> String {
    if cost_usd >= 1.0 || cost_usd == 0.0 {
        format!("${cost_usd:.2}")
    } else {
        format!("${cost_usd:.4}")
    }
}

/// Formats a duration with its two largest units: `2d 3h`, `5m 10s`.
pub(crate) fn format_span(seconds: u64) -> String {
    let units = [(86_400, "d"), (3600, "h"), (60, "m"), (1, "s")];
    let first = units.iter().position(|(size, _)| seconds >= *size).unwrap_or(3);
    let (size, unit) = units[first];
    let whole = format!("{}{unit}", seconds / size);
    match units.get(first + 1) {
        Some((smaller, unit)) if (seconds % size) / smaller > 0 => {
            format!("{whole} {}{unit}", (seconds % size) / smaller)
        }
        _ => whole,
    }
}

/// Formats the age of a time with one unit: `3m ago`.
pub(crate) fn format_ago(at: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(at).max(SignedDuration::ZERO).as_secs().unsigned_abs();
    let span = format_span(seconds);
    let greatest = span.split(' ').next().unwrap_or_default();
    if seconds < 5 { "now".to_owned() } else { format!("{greatest} ago") }
}

/// Formats the time until a moment: `in 2h 3m`.
pub(crate) fn format_until(at: Timestamp, now: Timestamp) -> String {
    match u64::try_from(at.duration_since(now).as_secs()) {
        Ok(seconds) if seconds > 0 => format!("in {}", format_span(seconds)),
        _ => "now".to_owned(),
    }
}

/// Returns the first characters of an id, for tables.
pub(crate) fn short_id(id: &str) -> &str {
    id.get(..13).unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let spans = [0, 59, 60, 125, 3600, 3 * 86_400 + 7200].map(format_span);
        assert_eq!(spans, ["0s", "59s", "1m", "2m 5s", "1h", "3d 2h"]);
        assert_eq!([999, 3100, 2_500_000].map(format_tokens), ["999", "3.1k", "2.5M"]);
        let sizes = [900, 171_400_000, 12_000_000_000].map(format_bytes);
        assert_eq!(sizes, ["1 kB", "171 MB", "12 GB"]);
        assert_eq!([0.0, 0.0009, 12.5].map(format_cost), ["$0.00", "$0.0009", "$12.50"]);
        let (then, now) = (Timestamp::UNIX_EPOCH, Timestamp::from_second(7300).unwrap());
        assert_eq!(
            (format_ago(then, now), format_until(now, then)),
            ("2h ago".into(), "in 2h 1m".into())
        );
    }

    #[test]
    fn a_line_is_broken_between_its_parts() {
        let text = "running · pid 4242 · up 2h 5m";
        assert_eq!(break_parts(text, 80), [text]);
        assert_eq!(break_parts(text, 18), ["running · pid 4242", "up 2h 5m"]);
        assert_eq!(break_parts(text, 3), ["running", "pid 4242", "up 2h 5m"]);
    }

    #[test]
    fn foreign_text_cannot_change_the_terminal() {
        let view = View { width: 80, has_colour: true, is_terminal: true };
        assert_eq!(view.paint(Style::Bold, "a\x1b[2Jb"), "\x1b[1ma␛[2Jb\x1b[0m");
        assert_eq!(View::PLAIN.cell(Style::Bold, "日本語", 5), "日本…");
        assert_eq!(View::PLAIN.cell(Style::Bold, "ab", 4), "ab  ");
    }
}

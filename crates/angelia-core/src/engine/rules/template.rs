//! `{from} says: {text}`. A template is taken apart once; what a message says is put between its
//! pieces and never looked at again, so a message cannot bring placeholders of its own.

use std::{fmt::Write as _, sync::Arc};

use jiff::{
    fmt::strtime::{BrokenDownTime, Config},
    tz::TimeZone,
};

use super::Seen;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    /// As written, with braces that mean nothing.
    Text(Arc<str>),
    From,
    Said,
    Type,
    /// Whole seconds since 1970.
    Seconds,
    /// In words of `strftime`, local time.
    Time(Arc<str>),
    /// A code for terminals.
    Code(Arc<str>),
}

/// Whether colours are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    Colour,
    Plain,
}

impl Template {
    /// Every text is a template: what looks like a placeholder and is none stays as it is.
    pub fn parse(text: &str) -> Self {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(open) = rest.find('{') {
            literal.push_str(&rest[..open]);
            rest = &rest[open..];
            let end = rest.find('}');
            let Some((piece, end)) = end.and_then(|end| Some((piece(&rest[1..end])?, end))) else {
                literal.push('{');
                rest = &rest[1..];
                continue;
            };
            if !literal.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut literal).into()));
            }
            pieces.push(piece);
            rest = &rest[end + 1..];
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            pieces.push(Piece::Text(literal.into()));
        }
        Self(pieces)
    }

    /// Only the message's text.
    pub fn text() -> Self {
        Self(vec![Piece::Said])
    }

    /// There is something of the message in it.
    pub fn has_placeholders(&self) -> bool {
        let fixed = |piece: &Piece| matches!(piece, Piece::Text(_) | Piece::Code(_));
        !self.0.iter().all(fixed)
    }

    pub fn render(&self, seen: &Seen, zone: &TimeZone, ink: Ink) -> String {
        let mut out = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::From => out.push_str(&seen.from),
                Piece::Said => out.push_str(&seen.text),
                Piece::Type => out.push_str(seen.kind.as_deref().unwrap_or_default()),
                // A string takes whatever is written.
                Piece::Seconds => _ = write!(out, "{}", seen.at.as_second()),
                Piece::Time(format) => push_time(&mut out, format, seen, zone),
                Piece::Code(code) if ink == Ink::Colour => out.push_str(code),
                Piece::Code(_) => {}
            }
        }
        out
    }
}

fn piece(name: &str) -> Option<Piece> {
    Some(match name {
        "from" => Piece::From,
        "text" => Piece::Said,
        "type" => Piece::Type,
        "ts" => Piece::Seconds,
        "bold" => Piece::Code("\x1b[1m".into()),
        "reset" => Piece::Code("\x1b[0m".into()),
        _ => match name.split_once(':')? {
            ("ts", format) if !format.is_empty() => Piece::Time(format.into()),
            ("color", colour) => Piece::Code(colour_code(colour).into()),
            _ => return None,
        },
    })
}

/// Empty for a colour nobody knows.
fn colour_code(name: &str) -> String {
    const COLOURS: [&str; 8] =
        ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
    let name = name.trim().to_ascii_lowercase();
    let (name, bold) = match name.strip_prefix("bold_") {
        Some(name) => (name, "1;"),
        None => (name.as_str(), ""),
    };
    let found = COLOURS.iter().position(|colour| *colour == name);
    found.map_or_else(String::new, |number| format!("\x1b[{bold}3{number}m"))
}

fn push_time(out: &mut String, format: &str, seen: &Seen, zone: &TimeZone) {
    let time = BrokenDownTime::from(&seen.at.to_zoned(zone.clone()));
    // What it does not know it leaves as it is.
    let lenient = Config::new().lenient(true);
    let mut text = String::new();
    match time.format_with_config(&lenient, format, &mut text) {
        Ok(()) => out.push_str(&text),
        Err(_unusable) => _ = write!(out, "{{ts:{format}}}"),
    }
}

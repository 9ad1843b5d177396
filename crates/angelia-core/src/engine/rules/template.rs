//! Templates such as `{from} says: {text}`. A template is parsed once. The text of a message is
//! inserted as it is and never parsed, so a message cannot bring its own placeholders.

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
    /// Fixed text, including braces that are no placeholder.
    Text(Arc<str>),
    From,
    Said,
    Type,
    /// Unix time in whole seconds.
    Seconds,
    /// Local time in this `strftime` format.
    Time(Arc<str>),
    /// A terminal control sequence.
    Code(Arc<str>),
}

/// Whether terminal colours are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    Colour,
    Plain,
}

impl Template {
    /// Parses any text: an unknown placeholder is kept as fixed text.
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

    /// A template that consists of the message's text.
    pub fn text() -> Self {
        Self(vec![Piece::Said])
    }

    /// Whether the template uses anything of the message.
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
                // Writing to a `String` cannot fail.
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

/// Returns an empty string for an unknown colour.
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
    // Unknown conversions are kept as they are.
    let lenient = Config::new().lenient(true);
    let mut text = String::new();
    match time.format_with_config(&lenient, format, &mut text) {
        Ok(()) => out.push_str(&text),
        Err(_unusable) => _ = write!(out, "{{ts:{format}}}"),
    }
}

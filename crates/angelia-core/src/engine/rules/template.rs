//! Templates such as `{from} says: {text}`. A template is parsed only once. The text of a message
//! is inserted unchanged and never parsed, so a message cannot inject placeholders.

use std::{fmt::Write as _, sync::Arc};

use jiff::{
    fmt::strtime::{BrokenDownTime, Config},
    tz::TimeZone,
};

use super::RuleInput;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(Vec<TemplatePart>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum TemplatePart {
    /// Fixed text, including braces that do not form a placeholder.
    Literal(Arc<str>),
    From,
    MessageText,
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
pub enum ColourMode {
    Colour,
    Plain,
}

impl Template {
    /// Parses any text. An unknown placeholder is kept as fixed text.
    pub fn parse(text: &str) -> Self {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(open) = rest.find('{') {
            literal.push_str(&rest[..open]);
            rest = &rest[open..];
            let end = rest.find('}');
            let Some((piece, end)) =
                end.and_then(|end| Some((parse_placeholder(&rest[1..end])?, end)))
            else {
                literal.push('{');
                rest = &rest[1..];
                continue;
            };
            if !literal.is_empty() {
                pieces.push(TemplatePart::Literal(std::mem::take(&mut literal).into()));
            }
            pieces.push(piece);
            rest = &rest[end + 1..];
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            pieces.push(TemplatePart::Literal(literal.into()));
        }
        Self(pieces)
    }

    /// Returns a template that consists of only the message's text.
    pub fn message_text() -> Self {
        Self(vec![TemplatePart::MessageText])
    }

    /// Returns whether the template uses any part of the message.
    pub fn has_placeholders(&self) -> bool {
        let fixed = |piece: &TemplatePart| {
            matches!(piece, TemplatePart::Literal(_) | TemplatePart::Code(_))
        };
        !self.0.iter().all(fixed)
    }

    pub fn render(&self, seen: &RuleInput, zone: &TimeZone, ink: ColourMode) -> String {
        let mut out = String::new();
        for piece in &self.0 {
            match piece {
                TemplatePart::Literal(text) => out.push_str(text),
                TemplatePart::From => out.push_str(&seen.from),
                TemplatePart::MessageText => out.push_str(&seen.text),
                TemplatePart::Type => out.push_str(seen.kind.as_deref().unwrap_or_default()),
                // Writing to a `String` cannot fail.
                TemplatePart::Seconds => _ = write!(out, "{}", seen.at.as_second()),
                TemplatePart::Time(format) => push_time(&mut out, format, seen, zone),
                TemplatePart::Code(code) if ink == ColourMode::Colour => out.push_str(code),
                TemplatePart::Code(_) => {}
            }
        }
        out
    }
}

fn parse_placeholder(name: &str) -> Option<TemplatePart> {
    Some(match name {
        "from" => TemplatePart::From,
        "text" => TemplatePart::MessageText,
        "type" => TemplatePart::Type,
        "ts" => TemplatePart::Seconds,
        "bold" => TemplatePart::Code("\x1b[1m".into()),
        "reset" => TemplatePart::Code("\x1b[0m".into()),
        _ => match name.split_once(':')? {
            ("ts", format) if !format.is_empty() => TemplatePart::Time(format.into()),
            ("color", colour) => TemplatePart::Code(colour_code(colour).into()),
            _ => return None,
        },
    })
}

/// Returns the escape sequence of a colour, or an empty string for an unknown colour.
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

fn push_time(out: &mut String, format: &str, seen: &RuleInput, zone: &TimeZone) {
    let time = BrokenDownTime::from(&seen.at.to_zoned(zone.clone()));
    // Keep unknown conversions unchanged.
    let lenient = Config::new().lenient(true);
    let mut text = String::new();
    match time.format_with_config(&lenient, format, &mut text) {
        Ok(()) => out.push_str(&text),
        Err(_unusable) => _ = write!(out, "{{ts:{format}}}"),
    }
}

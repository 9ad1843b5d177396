//! A parser that accepts what models write instead of a JSON object, and outputs the object. It
//! does not guess: it refuses text that may have been cut off or that is ambiguous.

use std::{collections::BTreeSet, fmt::Write as _};

use super::repair::{ArgumentsError, MalformedPart, RepairKind};

/// The maximum nesting depth, about that of other parsers.
const MAX_DEPTH: usize = 120;

const FENCE: &str = "```";

/// Returns the object as JSON, and the mistakes that were repaired.
pub(super) fn read(text: &str) -> Result<(String, BTreeSet<RepairKind>), ArgumentsError> {
    let mut parser = Parser {
        text,
        at: 0,
        out: String::with_capacity(text.len() + 8),
        open: Vec::new(),
        repairs: BTreeSet::new(),
    };
    parser.skip_opening_fence();
    if parser.peek() != Some('{') {
        return Err(match parser.peek() {
            None => parser.cut_off(),
            Some('[') => ArgumentsError::NotAnObject { found: "a list" },
            Some('"' | '\'') => ArgumentsError::NotAnObject { found: "a string" },
            Some(first) if first.is_ascii_digit() || first == '-' => {
                ArgumentsError::NotAnObject { found: "a number" }
            }
            Some(_) => parser.malformed(MalformedPart::Value),
        });
    }
    parser.value()?;
    parser.rest()?;
    Ok((parser.out, parser.repairs))
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    out: String,
    /// The closing brackets of the open containers.
    open: Vec<char>,
    repairs: BTreeSet<RepairKind>,
}

type Parsed<T = ()> = Result<T, ArgumentsError>;

impl Parser<'_> {
    fn remaining(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.remaining().chars().next()
    }

    fn advance(&mut self, character: char) {
        self.at += character.len_utf8();
    }

    fn skip_blanks(&mut self) {
        let rest = self.remaining();
        self.at += rest.len() - rest.trim_start().len();
    }

    fn note(&mut self, kind: RepairKind) {
        self.repairs.insert(kind);
    }

    fn cut_off(&self) -> ArgumentsError {
        ArgumentsError::CutOff { bytes: self.text.len() }
    }

    fn malformed(&self, what: MalformedPart) -> ArgumentsError {
        ArgumentsError::Malformed { at: self.at, what }
    }

    /// Returns the error for a missing part: at its end, the text was cut off; elsewhere, it is
    /// malformed.
    fn missing(&self, what: MalformedPart) -> ArgumentsError {
        if self.remaining().is_empty() { self.cut_off() } else { self.malformed(what) }
    }

    fn skip_opening_fence(&mut self) {
        self.skip_blanks();
        if let Some(rest) = self.remaining().strip_prefix(FENCE) {
            let word = rest.len() - rest.trim_start_matches(char::is_alphanumeric).len();
            self.at += FENCE.len() + word;
            self.note(RepairKind::CodeFence);
            self.skip_blanks();
        }
    }

    /// Reads what may follow the object: a closing fence, surplus closing brackets, further
    /// objects.
    fn rest(&mut self) -> Parsed {
        loop {
            self.skip_blanks();
            match self.peek() {
                None => return Ok(()),
                Some(closer @ ('}' | ']')) => {
                    self.advance(closer);
                    self.note(RepairKind::SurplusCloser);
                }
                Some('`') if self.remaining().starts_with(FENCE) => {
                    self.at += FENCE.len();
                    self.note(RepairKind::CodeFence);
                }
                Some('{') => {
                    let first = std::mem::take(&mut self.out);
                    self.value()?;
                    self.out = first;
                    self.note(RepairKind::DoubledObject);
                }
                Some(_) => return Err(self.malformed(MalformedPart::Rest)),
            }
        }
    }

    fn value(&mut self) -> Parsed {
        self.skip_blanks();
        match self.peek() {
            Some('{') => self.container('}'),
            Some('[') => self.container(']'),
            Some(quote @ ('"' | '\'')) => self.string(quote),
            Some(first) if first == '-' || first.is_ascii_digit() => self.number(),
            Some(first) if first.is_alphabetic() => self.word(),
            _ => Err(self.missing(MalformedPart::Value)),
        }
    }

    fn container(&mut self, closer: char) -> Parsed {
        if self.open.len() >= MAX_DEPTH {
            return Err(self.malformed(MalformedPart::Depth));
        }
        let opener = if closer == '}' { '{' } else { '[' };
        self.advance(opener);
        self.out.push(opener);
        self.open.push(closer);
        let mut is_first = true;
        while self.has_next(closer, is_first)? {
            if !is_first {
                self.out.push(',');
            }
            is_first = false;
            if closer == '}' {
                self.key()?;
            }
            self.value()?;
        }
        self.open.pop();
        self.out.push(closer);
        Ok(())
    }

    /// Advances to the next value of a container, or past its end. Returns whether there is another
    /// value.
    fn has_next(&mut self, closer: char, is_first: bool) -> Parsed<bool> {
        let mut after_comma = false;
        loop {
            self.skip_blanks();
            match self.peek() {
                // After a complete value, only the closing brackets are missing; after a comma, a
                // value is missing.
                None if is_first || after_comma => return Err(self.cut_off()),
                None => {
                    self.note(RepairKind::MissingCloser);
                    return Ok(false);
                }
                Some(',') if !after_comma && !is_first => {
                    self.advance(',');
                    after_comma = true;
                }
                Some(found @ ('}' | ']')) => {
                    if after_comma {
                        self.note(RepairKind::TrailingComma);
                    }
                    if found == closer {
                        self.advance(found);
                        return Ok(false);
                    }
                    let (_, outer) = self.open.split_last().unwrap_or((&closer, &[]));
                    if outer.contains(&found) {
                        // This closes an outer container, so the closing bracket of this one is
                        // missing.
                        self.note(RepairKind::MissingCloser);
                        return Ok(false);
                    }
                    self.advance(found);
                    self.note(RepairKind::SurplusCloser);
                }
                Some(_) if is_first || after_comma => return Ok(true),
                Some(_) => return Err(self.malformed(MalformedPart::Separator)),
            }
        }
    }

    fn key(&mut self) -> Parsed {
        match self.peek() {
            Some(quote @ ('"' | '\'')) => self.string(quote)?,
            _ => return Err(self.missing(MalformedPart::Key)),
        }
        self.skip_blanks();
        if self.peek() != Some(':') {
            return Err(self.missing(MalformedPart::Colon));
        }
        self.advance(':');
        self.out.push(':');
        Ok(())
    }

    /// Copies a string without changing its characters. Those that JSON does not allow are escaped.
    fn string(&mut self, quote: char) -> Parsed {
        if quote == '\'' {
            self.note(RepairKind::SingleQuotes);
        }
        self.advance(quote);
        self.out.push('"');
        loop {
            let Some(character) = self.peek() else { return Err(self.cut_off()) };
            if character == '\\' {
                self.escape(quote)?;
                continue;
            }
            self.advance(character);
            match character {
                end if end == quote => break,
                '"' => self.out.push_str("\\\""),
                control if control < ' ' => {
                    let _infallible = write!(self.out, "\\u{:04x}", u32::from(control));
                    self.note(RepairKind::ControlCharacter);
                }
                other => self.out.push(other),
            }
        }
        self.out.push('"');
        Ok(())
    }

    fn escape(&mut self, quote: char) -> Parsed {
        let rest = self.remaining();
        let Some(escaped) = rest.chars().nth(1) else { return Err(self.cut_off()) };
        let length = match escaped {
            '"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't' => 2,
            'u' => match unicode_escape(rest) {
                Some(length) => length,
                None if rest.len() < 6 => return Err(self.cut_off()),
                None => {
                    self.literal_backslash();
                    return Ok(());
                }
            },
            '\'' if quote == '\'' => {
                self.at += 2;
                self.out.push('\'');
                return Ok(());
            }
            _ => {
                self.literal_backslash();
                return Ok(());
            }
        };
        self.out.push_str(&self.text[self.at..self.at + length]);
        self.at += length;
        Ok(())
    }

    /// Copies a backslash that does not start an escape, as in `C:\Users`.
    fn literal_backslash(&mut self) {
        self.at += 1;
        self.out.push_str("\\\\");
        self.note(RepairKind::BadEscape);
    }

    fn number(&mut self) -> Parsed {
        let rest = self.remaining();
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
        let length = rest.find(|c| !is_part(c)).ok_or_else(|| self.cut_off())?;
        let number = rest[..length].to_owned();
        if serde_json::from_str::<f64>(&number).is_err() {
            return Err(self.malformed(MalformedPart::Value));
        }
        self.out.push_str(&number);
        self.at += length;
        Ok(())
    }

    fn word(&mut self) -> Parsed {
        let rest = self.remaining();
        let length = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
        let (json, is_python) = match &rest[..length] {
            "true" => ("true", false),
            "false" => ("false", false),
            "null" => ("null", false),
            "True" => ("true", true),
            "False" => ("false", true),
            "None" => ("null", true),
            _ if length == rest.len() => return Err(self.cut_off()),
            _ => return Err(self.malformed(MalformedPart::Value)),
        };
        self.out.push_str(json);
        self.at += length;
        if is_python {
            self.note(RepairKind::PythonWord);
        }
        Ok(())
    }
}

/// Returns the length of a valid `\u` escape: six bytes, or twelve for a surrogate pair.
fn unicode_escape(text: &str) -> Option<usize> {
    let unit = |text: &str| {
        let digits = text.strip_prefix("\\u")?.get(..4)?;
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hex.then(|| u16::from_str_radix(digits, 16).ok()).flatten()
    };
    match unit(text)? {
        0xd800..=0xdbff => {
            let low = text.get(6..).and_then(unit)?;
            (0xdc00..=0xdfff).contains(&low).then_some(12)
        }
        0xdc00..=0xdfff => None,
        _ => Some(6),
    }
}

//! Positions of members in a JSON text, which may have comments and trailing commas, as editors
//! allow. Pure.

use std::ops::Range;

/// Far above any real file.
const MAX_DEPTH: usize = 64;

/// The positions of an object and its members.
#[derive(Debug)]
pub(super) struct JsonObject {
    /// After the opening brace.
    pub(super) start: usize,
    pub(super) members: Vec<JsonMember>,
}

#[derive(Debug)]
pub(super) struct JsonMember {
    pub(super) name: String,
    /// The position at which the member's name begins.
    pub(super) start: usize,
    pub(super) value: Range<usize>,
    /// The position of the comma after the member.
    pub(super) comma: Option<usize>,
}

impl JsonObject {
    /// Parses a text that is a single object.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut scanner = JsonScanner { text, at: 0 };
        scanner.skip('\u{feff}');
        scanner.skip_blanks()?;
        let object = scanner.object(0)?;
        scanner.skip_blanks()?;
        (scanner.at == text.len()).then_some(object)
    }

    /// Parses the object that is the value of a member.
    pub(super) fn of_member(text: &str, member: &JsonMember) -> Option<Self> {
        let mut scanner = JsonScanner { text, at: member.value.start };
        scanner.object(0)
    }

    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.members.iter().position(|member| member.name == name)
    }

    /// Returns the text without a member of this object.
    pub(super) fn without_member(&self, text: &str, index: usize) -> Option<String> {
        let member = self.members.get(index)?;
        let before = index.checked_sub(1).and_then(|before| self.members.get(before));
        let range = if let Some(before) = before {
            // Remove the comma before the last member as well.
            before.comma?..member.value.end
        } else {
            let between = text.get(self.start..member.start)?;
            let blank = between.len() - between.trim_end().len();
            let end = member.comma.map_or(member.value.end, |comma| comma + 1);
            member.start - blank..end
        };
        Some(format!("{}{}", text.get(..range.start)?, text.get(range.end..)?))
    }
}

struct JsonScanner<'a> {
    text: &'a str,
    at: usize,
}

impl JsonScanner<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn skip(&mut self, char: char) -> bool {
        let found = self.rest().starts_with(char);
        if found {
            self.at += char.len_utf8();
        }
        found
    }

    /// Skips white space and comments.
    fn skip_blanks(&mut self) -> Option<()> {
        loop {
            let rest = self.rest();
            let words = rest.trim_start();
            let length = if let Some(comment) = words.strip_prefix("//") {
                comment.find('\n').unwrap_or(comment.len()) + 2
            } else if let Some(comment) = words.strip_prefix("/*") {
                comment.find("*/")? + 4
            } else {
                0
            };
            self.at += rest.len() - words.len() + length;
            if length == 0 {
                return Some(());
            }
        }
    }

    fn object(&mut self, depth: usize) -> Option<JsonObject> {
        if depth > MAX_DEPTH || !self.skip('{') {
            return None;
        }
        let mut object = JsonObject { start: self.at, members: Vec::new() };
        loop {
            self.skip_blanks()?;
            if self.skip('}') {
                return Some(object);
            }
            let start = self.at;
            let name = self.string()?;
            self.skip_blanks()?;
            if !self.skip(':') {
                return None;
            }
            self.skip_blanks()?;
            let value = self.value(depth + 1)?;
            self.skip_blanks()?;
            let comma = self.rest().starts_with(',').then_some(self.at);
            object.members.push(JsonMember { name, start, value, comma });
            if !self.skip(',') && !self.rest().starts_with('}') {
                return None;
            }
        }
    }

    fn list(&mut self, depth: usize) -> Option<()> {
        if depth > MAX_DEPTH || !self.skip('[') {
            return None;
        }
        loop {
            self.skip_blanks()?;
            if self.skip(']') {
                return Some(());
            }
            self.value(depth + 1)?;
            self.skip_blanks()?;
            if !self.skip(',') && !self.rest().starts_with(']') {
                return None;
            }
        }
    }

    fn value(&mut self, depth: usize) -> Option<Range<usize>> {
        let start = self.at;
        match self.rest().chars().next()? {
            '{' => drop(self.object(depth)?),
            '[' => self.list(depth)?,
            '"' => drop(self.string()?),
            _ => {
                let is_word = |char: char| char.is_ascii_alphanumeric() || "+-.".contains(char);
                let rest = self.rest();
                let length = rest.len() - rest.trim_start_matches(is_word).len();
                if length == 0 {
                    return None;
                }
                self.at += length;
            }
        }
        Some(start..self.at)
    }

    fn string(&mut self) -> Option<String> {
        let rest = self.rest();
        let inside = rest.strip_prefix('"')?;
        let mut is_escaped = false;
        let end = inside.find(|char: char| {
            let is_end = char == '"' && !is_escaped;
            is_escaped = char == '\\' && !is_escaped;
            is_end
        })?;
        let literal = rest.get(..end + 2)?;
        let text = serde_json::from_str(literal).ok()?;
        self.at += end + 2;
        Some(text)
    }
}

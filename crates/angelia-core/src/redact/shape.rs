//! Patterns of tokens.
//!
//! Every pattern is recognised by its first [`MAX_HEAD_BYTES`] bytes at most and never matches
//! beyond its line; this allows a stream to be redacted as it arrives. Every pattern also contains
//! one of a few keywords, and only patterns whose keyword occurs are tried.

use std::{
    ops::Range,
    sync::{LazyLock, OnceLock},
};

use aho_corasick::AhoCorasick;
use regex::Regex;

/// This many bytes of a secret and of the text that introduces it are enough to recognise it.
pub(super) const LONGEST_HEAD: usize = 512;

struct Shape {
    /// A match contains one of these, in any case.
    words: &'static [&'static str],
    /// The first group that matches is the secret, or the whole match if there is no group.
    pattern: &'static str,
    compiled: OnceLock<Option<Regex>>,
}

const fn shape(words: &'static [&'static str], pattern: &'static str) -> Shape {
    Shape { words, pattern, compiled: OnceLock::new() }
}

static SHAPES: [Shape; 11] = [
    shape(&["sk-ant-"], r"sk-ant-[A-Za-z0-9_-]{8,}"),
    shape(&["sk-"], r"(?-u:\b)sk-[A-Za-z0-9_-]{20,}"),
    shape(
        &["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"],
        r"(?:gh[pousr]|github_pat)_[A-Za-z0-9_]{20,}",
    ),
    shape(&["xox"], r"xox[abeoprs]-[A-Za-z0-9-]{10,}"),
    shape(&["akia", "asia"], r"(?-u:\b)A[KS]IA[A-Z0-9]{16}"),
    shape(&["aiza"], r"AIza[A-Za-z0-9_-]{30,}"),
    // Does not require the dots of a JWT: they come late, and base64 JSON does not belong in a log
    // anyway.
    shape(&["eyj"], r"(?-u:\b)eyJ[A-Za-z0-9_-]{17,}(?:\.[A-Za-z0-9_-]+)*"),
    shape(&["bearer"], r"(?i-u:\bbearer)[ \t]{1,8}([A-Za-z0-9._~+/=-]{16,})"),
    shape(
        &["authorization"],
        r#"(?i-u:authorization)\\{0,4}["']?[ \t]{0,8}[:=][ \t]{0,8}\\{0,4}["']?([^\s"'\\][^\r\n"'\\]*)"#,
    ),
    shape(
        &["passw", "secret", "token", "key", "credential"],
        concat!(
            r"(?i-u:password|passwd|secret|token|credential",
            r"|api[_-]?key|access[_-]?key|private[_-]?key|auth[_-]?key)",
            r#"\\{0,4}["']?[ \t]{0,8}[:=>]{1,4}[ \t]{0,8}"#,
            r#"(?:"((?:[^"\\\r\n]|\\[^\r\n])+)|'([^'\r\n]+)|\\{1,4}"([^"\\\r\n]+)"#,
            r#"|([^\s"'\\&:=>][^\s"'&]*))"#,
        ),
    ),
    shape(&["://"], r#"://([!-~&&[^/?#@"'<>\\]]{1,256})@"#),
];

/// The keywords of all patterns, and the index of the pattern that each belongs to.
static WORDS: LazyLock<Option<(AhoCorasick, Vec<usize>)>> = LazyLock::new(|| {
    let mut owners = Vec::new();
    let mut words = Vec::new();
    for (index, shape) in SHAPES.iter().enumerate() {
        owners.extend(shape.words.iter().map(|_| index));
        words.extend(shape.words);
    }
    // Belongs to no pattern, but text that contains it is not clean.
    owners.push(SHAPES.len());
    words.push(&BEGIN_WORD);
    let automaton = AhoCorasick::builder().ascii_case_insensitive(true).build(words).ok()?;
    Some((automaton, owners))
});

impl Shape {
    fn regex(&self) -> Option<&Regex> {
        self.compiled.get_or_init(|| Regex::new(self.pattern).ok()).as_ref()
    }
}

/// A subset of the patterns.
pub(super) struct ShapeSet([bool; SHAPES.len()]);

impl ShapeSet {
    #[cfg(test)]
    pub(super) fn all() -> Self {
        Self([true; SHAPES.len()])
    }

    /// Whether neither a pattern nor the start of a private key can match.
    pub(super) fn none_in(text: &str) -> bool {
        WORDS.as_ref().is_some_and(|(words, _)| !words.is_match(text))
    }

    pub(super) fn possible_in(text: &str) -> Self {
        let Some((words, owners)) = WORDS.as_ref() else {
            return Self([true; SHAPES.len()]);
        };
        let mut set = [false; SHAPES.len()];
        for hit in words.find_overlapping_iter(text) {
            if let Some(shape) = set.get_mut(owners[hit.pattern().as_usize()]) {
                *shape = true;
            }
        }
        Self(set)
    }

    pub(super) fn find(&self, text: &str, found: &mut Vec<Range<usize>>) {
        for (shape, _) in SHAPES.iter().zip(self.0).filter(|(_, wanted)| *wanted) {
            let Some(regex) = shape.regex() else { continue };
            for captures in regex.captures_iter(text) {
                let group = captures.iter().skip(1).flatten().next();
                found.extend(group.or_else(|| captures.get(0)).map(|hit| hit.range()));
            }
        }
    }
}

const BEGIN_WORD: &str = "-----begin";

static BEGIN: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new("-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----").ok());
static END: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new("-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----").ok());

/// Returns the range of the line that starts a private key.
pub(super) fn key_begin(line: &str) -> Option<Range<usize>> {
    // A plain substring search is faster than a regex that starts with five dashes.
    line.contains("PRIVATE KEY").then_some(())?;
    Some(BEGIN.as_ref()?.find(line)?.range())
}

/// Returns the end of the line that ends a private key.
pub(super) fn key_end(line: &str) -> Option<usize> {
    Some(END.as_ref()?.find(line)?.end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_is_valid() {
        for shape in &SHAPES {
            assert!(shape.regex().is_some(), "{}", shape.pattern);
        }
        assert!(WORDS.is_some() && BEGIN.is_some() && END.is_some());
    }
}

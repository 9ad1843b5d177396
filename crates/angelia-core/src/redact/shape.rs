//! Patterns of tokens.
//!
//! Every pattern is recognised by at most its first [`MAX_HEAD_BYTES`] bytes and never matches
//! beyond its line, so a stream can be redacted as it arrives. Every pattern also contains one of a
//! few keywords, and only patterns whose keyword occurs are tried.

use std::{
    ops::Range,
    sync::{LazyLock, OnceLock},
};

use aho_corasick::AhoCorasick;
use regex::Regex;

/// Maximum number of bytes, of a secret and of the text that introduces it, needed to recognise it.
pub(super) const MAX_HEAD_BYTES: usize = 512;

/// Maximum number of bytes before a file name in which the file's path is recognised.
const MAX_PATH_BYTES: usize = 256;

struct SecretPattern {
    /// A match contains one of these, in any case.
    keywords: &'static [&'static str],
    /// The first group that matches is the secret, or the whole match if there is no group.
    pattern: &'static str,
    compiled: OnceLock<Option<Regex>>,
}

const fn secret_pattern(words: &'static [&'static str], pattern: &'static str) -> SecretPattern {
    SecretPattern { keywords: words, pattern, compiled: OnceLock::new() }
}

static SECRET_PATTERNS: [SecretPattern; 12] = [
    secret_pattern(&["sk-ant-"], r"sk-ant-[A-Za-z0-9_-]{8,}"),
    secret_pattern(&["sk-"], r"(?-u:\b)sk-[A-Za-z0-9_-]{20,}"),
    secret_pattern(
        &["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"],
        r"(?:gh[pousr]|github_pat)_[A-Za-z0-9_]{20,}",
    ),
    secret_pattern(&["glpat-"], r"glpat-[A-Za-z0-9_-]{16,}"),
    secret_pattern(&["xox"], r"xox[abeoprs]-[A-Za-z0-9-]{10,}"),
    secret_pattern(&["akia", "asia"], r"(?-u:\b)A[KS]IA[A-Z0-9]{16}"),
    secret_pattern(&["aiza"], r"AIza[A-Za-z0-9_-]{30,}"),
    // Does not require the dots of a JWT, because they come late, and base64-encoded JSON does not
    // belong in a log anyway.
    secret_pattern(&["eyj"], r"(?-u:\b)eyJ[A-Za-z0-9_-]{17,}(?:\.[A-Za-z0-9_-]+)*"),
    secret_pattern(&["bearer"], r"(?i-u:\bbearer)[ \t]{1,8}([A-Za-z0-9._~+/=-]{16,})"),
    secret_pattern(
        &["authorization"],
        r#"(?i-u:authorization)\\{0,4}["']?[ \t]{0,8}[:=][ \t]{0,8}\\{0,4}["']?([^\s"'\\][^\r\n"'\\]*)"#,
    ),
    secret_pattern(
        &["passw", "secret", "token", "key", "credential"],
        concat!(
            r"(?i-u:password|passwd|secret|token|credential",
            r"|api[_-]?key|access[_-]?key|private[_-]?key|auth[_-]?key)",
            r#"\\{0,4}["']?[ \t]{0,8}[:=>]{1,4}[ \t]{0,8}"#,
            r#"(?:"((?:[^"\\\r\n]|\\[^\r\n])+)|'([^'\r\n]+)|\\{1,4}"([^"\\\r\n]+)"#,
            r#"|([^\s"'\\&:=>][^\s"'&]*))"#,
        ),
    ),
    secret_pattern(&["://"], r#"://([!-~&&[^/?#@"'<>\\]]{1,256})@"#),
];

/// The keywords of all patterns, with the index of the pattern for each.
static KEYWORDS: LazyLock<Option<(AhoCorasick, Vec<usize>)>> = LazyLock::new(|| {
    let mut owners = Vec::new();
    let mut words = Vec::new();
    for (index, shape) in SECRET_PATTERNS.iter().enumerate() {
        owners.extend(shape.keywords.iter().map(|_| index));
        words.extend(shape.keywords);
    }
    // Belongs to no pattern, but makes text unclean.
    owners.push(SECRET_PATTERNS.len());
    words.push(&KEY_BEGIN_KEYWORD);
    let automaton = AhoCorasick::builder().ascii_case_insensitive(true).build(words).ok()?;
    Some((automaton, owners))
});

impl SecretPattern {
    fn regex(&self) -> Option<&Regex> {
        self.compiled.get_or_init(|| Regex::new(self.pattern).ok()).as_ref()
    }
}

/// A subset of the patterns.
pub(super) struct PatternSet([bool; SECRET_PATTERNS.len()]);

impl PatternSet {
    #[cfg(test)]
    pub(super) fn all() -> Self {
        Self([true; SECRET_PATTERNS.len()])
    }

    /// Returns whether neither a pattern nor the start of a private key can match.
    pub(super) fn rules_out_all(text: &str) -> bool {
        KEYWORDS.as_ref().is_some_and(|(words, _)| !words.is_match(text))
    }

    pub(super) fn candidates_for(text: &str) -> Self {
        let Some((words, owners)) = KEYWORDS.as_ref() else {
            return Self([true; SECRET_PATTERNS.len()]);
        };
        let mut set = [false; SECRET_PATTERNS.len()];
        for hit in words.find_overlapping_iter(text) {
            if let Some(shape) = set.get_mut(owners[hit.pattern().as_usize()]) {
                *shape = true;
            }
        }
        Self(set)
    }

    pub(super) fn find(&self, text: &str, found: &mut Vec<Range<usize>>) {
        for (shape, _) in SECRET_PATTERNS.iter().zip(self.0).filter(|(_, wanted)| *wanted) {
            let Some(regex) = shape.regex() else { continue };
            let mut from = 0;
            while let Some(captures) = regex.captures_at(text, from) {
                let Some(whole) = captures.get(0) else { break };
                let secret = captures.iter().skip(1).flatten().next().unwrap_or(whole).range();
                if says_about_a_file(text, whole.start(), &secret) {
                    // The sentence itself may contain a secret.
                    from = secret.start;
                } else {
                    found.push(secret);
                    from = whole.end();
                }
            }
        }
    }
}

/// Returns whether the text is a message about a file whose name looks like that of a secret, such
/// as `/etc/passwd: Permission denied`. If masked, it would say neither what failed nor why.
fn says_about_a_file(text: &str, name: usize, value: &Range<usize>) -> bool {
    if !text[name..value.start].ends_with(": ") {
        return false;
    }
    let from = text.floor_char_boundary(name.saturating_sub(MAX_PATH_BYTES));
    let before = &text[from..name];
    let path = before.rsplit([' ', '\t', '"', '\'', '`', '(', '=', ',']).next().unwrap_or(before);
    let is_path = ["/", "~/", "./", "../"].iter().any(|start| path.starts_with(start));
    let value = text[value.clone()].trim_end_matches([',', '.', ';', ':']);
    let is_word = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_alphabetic());
    is_path && (is_word || value.starts_with('/'))
}

const KEY_BEGIN_KEYWORD: &str = "-----begin";

static KEY_BEGIN: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new("-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----").ok());
static KEY_END: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new("-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----").ok());

/// Returns the range of the marker that begins a private key.
pub(super) fn key_begin(line: &str) -> Option<Range<usize>> {
    // A plain substring search is faster than a regex that starts with five dashes.
    line.contains("PRIVATE KEY").then_some(())?;
    Some(KEY_BEGIN.as_ref()?.find(line)?.range())
}

/// Returns the end of the marker that ends a private key.
pub(super) fn key_end(line: &str) -> Option<usize> {
    Some(KEY_END.as_ref()?.find(line)?.end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_is_valid() {
        for shape in &SECRET_PATTERNS {
            assert!(shape.regex().is_some(), "{}", shape.pattern);
        }
        assert!(KEYWORDS.is_some() && KEY_BEGIN.is_some() && KEY_END.is_some());
    }
}

//! Masks secrets in text for logs, errors and failure reports: first exact matches of known values,
//! then everything that looks like a token.
//!
//! Works line by line, so that a stream can be redacted as it arrives, with the same result however
//! it is cut. Only a private key in PEM form spans several lines.

mod shape;
mod spec_secrets;
mod stream;

use std::{borrow::Cow, collections::BTreeSet, fmt, ops::Range, sync::Arc};

use aho_corasick::{AhoCorasick, MatchKind};
use parking_lot::RwLock;

use self::shape::PatternSet;
pub use self::{
    spec_secrets::{may_be_secret, spec_secrets},
    stream::StreamRedactor,
};

const MASK: &str = "[redacted]";

/// Shorter values would mask ordinary words.
const MIN_KNOWN_BYTES: usize = 8;

/// Masks secrets in text. Cheap to clone; all clones know the same values. The default redactor
/// knows no values, only patterns.
#[derive(Clone, Default)]
pub struct Redactor {
    known: Arc<RwLock<Option<Arc<KnownValues>>>>,
}

struct KnownValues {
    lines: BTreeSet<String>,
    values: AhoCorasick,
    longest: usize,
}

impl KnownValues {
    fn new(lines: BTreeSet<String>) -> Option<Self> {
        let longest = lines.iter().map(String::len).max()?;
        let values =
            AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&lines).ok()?;
        Some(Self { lines, values, longest })
    }
}

impl Redactor {
    /// Creates a redactor that masks `values` wherever they occur, unless they are shorter than
    /// eight bytes.
    pub fn new<V: AsRef<str>>(values: impl IntoIterator<Item = V>) -> Self {
        let redactor = Self::default();
        redactor.add(values);
        redactor
    }

    /// Also masks these values from now on, in this redactor and in every clone.
    pub fn add<V: AsRef<str>>(&self, values: impl IntoIterator<Item = V>) {
        let mut known = self.known.write();
        let mut lines = known.as_ref().map(|known| known.lines.clone()).unwrap_or_default();
        for value in values {
            let long = value.as_ref().lines().filter(|line| line.len() >= MIN_KNOWN_BYTES);
            lines.extend(long.map(str::to_owned));
        }
        if let Some(more) = KnownValues::new(lines) {
            *known = Some(Arc::new(more));
        }
    }

    fn known(&self) -> Option<Arc<KnownValues>> {
        self.known.read().clone()
    }

    /// Returns the text with every secret masked. Idempotent.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.is_clean(text) {
            return Cow::Borrowed(text);
        }
        let mut stream = self.stream();
        let mut out = String::with_capacity(text.len());
        for line in text.split_inclusive('\n') {
            stream.push_line(line, &mut out);
        }
        if out == text { Cow::Borrowed(text) } else { Cow::Owned(out) }
    }

    /// Returns the text with known values masked, but not text that merely looks like a secret. For
    /// text that a model works with, such as a file that it is about to change.
    pub fn mask_known<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Some(known) = self.known() else { return Cow::Borrowed(text) };
        let secrets: Vec<_> = known.values.find_iter(text).map(|hit| hit.range()).collect();
        if secrets.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut out = String::with_capacity(text.len());
        mask(text, &secrets, &mut out);
        Cow::Owned(out)
    }

    /// Starts redacting text that arrives in pieces.
    pub fn stream(&self) -> StreamRedactor {
        StreamRedactor::new(self.clone())
    }

    /// Cheaply checks for secrets. `true` guarantees that the text contains none; `false` means
    /// nothing.
    fn is_clean(&self, text: &str) -> bool {
        PatternSet::rules_out_all(text)
            && self.known().is_none_or(|known| !known.values.is_match(text))
    }

    fn longest_known(&self) -> usize {
        self.known().map_or(0, |known| known.longest)
    }

    /// Returns the ranges of a line that must be masked, in order.
    fn secrets(&self, line: &str) -> Vec<Range<usize>> {
        self.secrets_of(line, &PatternSet::candidates_for(line))
    }

    fn secrets_of(&self, line: &str, shapes: &PatternSet) -> Vec<Range<usize>> {
        let mut secrets = SecretRanges::default();
        // The mask of an earlier redaction is not text, so nothing may match across it.
        secrets.add(line.match_indices(MASK).map(|(at, _)| at..at + MASK.len()));
        if let Some(known) = self.known() {
            secrets.refine(line, |piece, found| {
                found.extend(known.values.find_iter(piece).map(|hit| hit.range()));
            });
        }
        // The text between two matches may match another pattern.
        while secrets.refine(line, |piece, found| shapes.find(piece, found)) {}
        secrets.0
    }

    /// Appends the line with its secrets masked to `out`.
    fn redact_line(&self, line: &str, out: &mut String) {
        mask(line, &self.secrets(line), out);
    }
}

fn mask(text: &str, secrets: &[Range<usize>], out: &mut String) {
    let mut shown = 0;
    for secret in secrets {
        out.push_str(&text[shown..secret.start]);
        out.push_str(MASK);
        shown = secret.end;
    }
    out.push_str(&text[shown..]);
}

/// Disjoint ranges in ascending order.
#[derive(Default)]
struct SecretRanges(Vec<Range<usize>>);

impl SecretRanges {
    /// Runs `find` on every unmasked piece of the text. Returns whether it found anything.
    fn refine(&mut self, text: &str, find: impl Fn(&str, &mut Vec<Range<usize>>)) -> bool {
        let mut new = Vec::new();
        let mut found = Vec::new();
        let mut start = 0;
        let end = text.len()..text.len();
        for secret in self.0.iter().cloned().chain(std::iter::once(end)) {
            if start < secret.start {
                find(&text[start..secret.start], &mut found);
                new.extend(found.drain(..).map(|hit| start + hit.start..start + hit.end));
            }
            start = secret.end;
        }
        let found_some = !new.is_empty();
        self.add(new);
        found_some
    }

    /// Merges overlapping ranges, but not adjacent ones. Otherwise a second redaction would merge
    /// the masks of the first.
    fn add(&mut self, more: impl IntoIterator<Item = Range<usize>>) {
        self.0.extend(more);
        self.0.sort_by_key(|secret| secret.start);
        self.0.dedup_by(|next, secret| {
            let overlaps = next.start < secret.end;
            if overlaps {
                secret.end = secret.end.max(next.end);
            }
            overlaps
        });
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

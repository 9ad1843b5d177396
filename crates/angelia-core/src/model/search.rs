//! Full-text search over conversations, case-insensitive in any script.

use std::ops::Range;

use jiff::Timestamp;

use super::{SessionId, TurnId};

/// Maximum number of characters in an excerpt, not counting the ellipses.
const EXCERPT_CHARS: usize = 160;
/// Number of characters shown before the first match.
const EXCERPT_LEAD_CHARS: usize = 30;

/// The words to search for: a text matches if it contains all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchTerms(Vec<SearchTerm>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct SearchTerm {
    word: String,
    folded: Vec<char>,
    /// Whether no character has another case, so that bytes can be compared.
    is_caseless: bool,
}

impl SearchTerms {
    /// Splits a text into words. Returns `None` if there are none.
    pub fn parse(text: &str) -> Option<Self> {
        let terms: Vec<_> = text.split_whitespace().map(SearchTerm::new).collect();
        (!terms.is_empty()).then_some(Self(terms))
    }

    /// Returns the words as they were typed.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|term| term.word.as_str())
    }

    /// Returns the words in the form that [`fold_text`] gives to texts.
    pub fn folded_words(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|term| term.folded.iter().collect())
    }

    pub fn matches(&self, text: &str) -> bool {
        let mut folded = None;
        self.0.iter().all(|term| {
            if term.is_caseless {
                return text.contains(&term.word);
            }
            let folded = folded.get_or_insert_with(|| fold(text));
            find(folded, &term.folded, 0).is_some()
        })
    }

    /// Returns the part of a text around its first match, on one line.
    pub fn excerpt(&self, text: &str) -> Excerpt {
        let line: Vec<char> =
            text.split_whitespace().collect::<Vec<_>>().join(" ").chars().collect();
        let folded: Vec<char> = line.iter().copied().map(fold_char).collect();
        let first = self.0.iter().filter_map(|term| find(&folded, &term.folded, 0)).min();
        let start = first.unwrap_or(0).saturating_sub(EXCERPT_LEAD_CHARS);
        // Start with a whole word if one begins before the match.
        let start =
            (start..first.unwrap_or(0)).find(|at| *at == 0 || line[at - 1] == ' ').unwrap_or(start);
        let end = line.len().min(start + EXCERPT_CHARS);
        let mut marked = vec![false; end - start];
        for term in &self.0 {
            let mut from = start;
            while let Some(at) = find(&folded[..end], &term.folded, from) {
                marked[at - start..at - start + term.folded.len()].fill(true);
                from = at + 1;
            }
        }
        let mut excerpt = Excerpt::default();
        if start > 0 {
            excerpt.text.push('…');
        }
        for (char, is_marked) in line[start..end].iter().zip(marked) {
            excerpt.push(*char, is_marked);
        }
        if end < line.len() {
            excerpt.text.push('…');
        }
        excerpt
    }
}

impl SearchTerm {
    fn new(word: &str) -> Self {
        let has_case = |char: char| fold_char(char) != char || !char.to_uppercase().eq([char]);
        Self { word: word.to_owned(), folded: fold(word), is_caseless: !word.chars().any(has_case) }
    }
}

/// Returns a text in lower case, as words are compared. A text that matches has all
/// [folded words](SearchTerms::folded_words) in this form.
pub fn fold_text(text: &str) -> String {
    text.chars().map(fold_char).collect()
}

fn fold(text: &str) -> Vec<char> {
    text.chars().map(fold_char).collect()
}

/// Converts to lower case, one character for one character, so that positions stay the same.
fn fold_char(char: char) -> char {
    if char.is_ascii() {
        return char.to_ascii_lowercase();
    }
    let mut lower = char.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(only), None) => only,
        _ => char,
    }
}

fn find(text: &[char], word: &[char], from: usize) -> Option<usize> {
    let rest = text.get(from..)?;
    rest.windows(word.len()).position(|window| window == word).map(|at| from + at)
}

/// A part of a text, with the positions of the matching words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Excerpt {
    pub text: String,
    /// Byte ranges of `text`.
    pub marks: Vec<Range<usize>>,
}

impl Excerpt {
    fn push(&mut self, char: char, is_marked: bool) {
        let at = self.text.len();
        self.text.push(char);
        if !is_marked {
            return;
        }
        match self.marks.last_mut() {
            Some(last) if last.end == at => last.end = self.text.len(),
            _ => self.marks.push(at..self.text.len()),
        }
    }
}

/// The speaker of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Speaker {
    Person,
    Agent,
}

impl Speaker {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::Agent => "agent",
        }
    }
}

#[derive(Clone, Debug)]
pub struct SearchQuery {
    pub terms: SearchTerms,
    /// Maximum number of sessions to find.
    pub limit: usize,
}

/// The newest matching text of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchMatch {
    pub session: SessionId,
    pub turn: TurnId,
    /// When the turn was created.
    pub at: Timestamp,
    pub speaker: Speaker,
    pub excerpt: Excerpt,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(text: &str) -> SearchTerms {
        SearchTerms::parse(text).unwrap()
    }

    #[test]
    fn all_words_must_be_there_in_any_case_and_script() {
        let text = "Die Straße führt nach ÖRLINGHAUSEN; 你好，世界 and Ελλάδα";
        for found in ["straße", "örling FÜHRT", "世界", "你", "ΕΛΛΆΔΑ and", "d"] {
            assert!(terms(found).matches(text), "{found}");
        }
        for missing in ["strasse", "führt xyz", "世好"] {
            assert!(!terms(missing).matches(text), "{missing}");
        }
        assert_eq!(SearchTerms::parse(" \n"), None);
    }

    #[test]
    fn an_excerpt_shows_the_first_match_on_one_line() {
        let text = format!("{} needle\nand  Needles {}", "hay ".repeat(50), "stack ".repeat(50));
        let excerpt = terms("needle and").excerpt(&text);
        assert!(excerpt.text.starts_with("…hay ") && excerpt.text.ends_with('…'), "{excerpt:?}");
        let marked: Vec<_> = excerpt.marks.iter().map(|mark| &excerpt.text[mark.clone()]).collect();
        assert_eq!(marked, ["needle", "and", "Needle"]);
        let whole = terms("世界").excerpt("你好 世界");
        assert_eq!(
            (whole.text.as_str(), &whole.text[whole.marks[0].clone()]),
            ("你好 世界", "世界")
        );
    }
}

//! Stop words: the answer ends before the first one that occurs in it. No agent accepts them as an
//! option, so we scan its output. Pure.

use std::sync::Arc;

use super::Refused;

/// More than any caller needs, and few enough to scan every chunk for.
const MOST: usize = 64;

/// Checks the stop words of a request. Empty words are dropped.
pub fn stop_words(given: Vec<Arc<str>>, field: &str) -> Result<Vec<Arc<str>>, Refused> {
    if given.len() > MOST {
        let message = format!("{field}: there may be at most {MOST}");
        return Err(Refused::new(message).at(field));
    }
    Ok(given.into_iter().filter(|word| !word.is_empty()).collect())
}

/// Scans a text that comes in chunks. A suffix that could be the beginning of a stop word is held
/// back until more text arrives.
#[derive(Debug, Default)]
pub(super) struct StopWords {
    words: Vec<Arc<str>>,
    held: String,
}

/// The text that can be sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Free {
    pub(super) text: String,
    /// The stop word at which the text ends.
    pub(super) found: Option<Arc<str>>,
}

impl StopWords {
    pub(super) fn new(words: &[Arc<str>]) -> Self {
        Self { words: words.to_vec(), held: String::new() }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    pub(super) fn push(&mut self, text: &str) -> Free {
        let mut held = std::mem::take(&mut self.held);
        held.push_str(text);
        // The word that is complete first; of those, the longest.
        let found = self
            .words
            .iter()
            .filter_map(|word| held.find(&**word).map(|at| (at + word.len(), at, word)))
            .min_by_key(|(end, at, _)| (*end, *at));
        if let Some((_, at, word)) = found {
            held.truncate(at);
            return Free { text: held, found: Some(Arc::clone(word)) };
        }
        let kept = self.beginning_at_the_end(&held);
        self.held = held.split_off(held.len() - kept);
        Free { text: held, found: None }
    }

    /// Returns the text that was held back. No more text comes, so it is not a stop word.
    pub(super) fn rest(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// Returns the length of the longest suffix of the text that is a proper prefix of a stop word.
    fn beginning_at_the_end(&self, text: &str) -> usize {
        let longest = |word: &Arc<str>| {
            let cuts = word.char_indices().map(|(at, _)| at).rev();
            cuts.take_while(|at| *at > 0)
                .find(|at| word.get(..*at).is_some_and(|start| text.ends_with(start)))
        };
        self.words.iter().filter_map(longest).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*, sample::Index};

    use super::*;

    fn words(words: &[&str]) -> StopWords {
        let words: Vec<Arc<str>> = words.iter().map(|word| Arc::from(*word)).collect();
        StopWords::new(&words)
    }

    /// Returns the text that is sent for these chunks, and the stop word that ended it.
    fn shown(mut words: StopWords, pieces: &[&str]) -> (String, Option<Arc<str>>) {
        let mut all = String::new();
        for piece in pieces {
            let free = words.push(piece);
            all += &free.text;
            if free.found.is_some() {
                return (all, free.found);
            }
        }
        all += &words.rest();
        (all, None)
    }

    #[test]
    fn a_text_ends_before_the_word() {
        let ended = |pieces: &[&str]| shown(words(&["END", "\n\n"]), pieces);
        assert_eq!(ended(&["a b"]), ("a b".to_owned(), None));
        assert_eq!(ended(&["one EN", "D two"]), ("one ".to_owned(), Some("END".into())));
        assert_eq!(ended(&["E", "N"]), ("EN".to_owned(), None));
        assert_eq!(ended(&["a\n", "\nEND"]), ("a".to_owned(), Some("\n\n".into())));
        // The end of one partial match may be the beginning of another.
        assert_eq!(ended(&["EEN", "D"]), ("E".to_owned(), Some("END".into())));
    }

    #[test]
    fn too_many_are_refused_and_empty_ones_passed_over() {
        assert!(stop_words(vec!["x".into(); 65], "stop").is_err());
        let some = stop_words(vec!["".into(), "x".into()], "stop").unwrap();
        assert_eq!(some, ["x".into()]);
    }

    proptest! {
        #[test]
        fn it_does_not_matter_how_the_text_is_cut(
            text in "[abé]{0,30}",
            given in vec("[abé]{1,4}", 1..4),
            cuts in vec(any::<Index>(), 0..6),
        ) {
            let given: Vec<&str> = given.iter().map(String::as_str).collect();
            let letters: Vec<char> = text.chars().collect();
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(letters.len() + 1)).collect();
            at.extend([0, letters.len()]);
            at.sort_unstable();
            let pieces: Vec<String> = at
                .windows(2)
                .map(|pair| letters[pair[0]..pair[1]].iter().collect())
                .collect();
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            let whole = shown(words(&given), &[text.as_str()]);
            prop_assert_eq!(&shown(words(&given), &pieces), &whole);
            let (before, found) = whole;
            let beginning = found.map(|word| format!("{before}{word}"));
            prop_assert!(text.starts_with(beginning.as_ref().unwrap_or(&before)));
            prop_assert!(beginning.is_some() || before == text);
            for word in given {
                prop_assert!(!before.contains(word));
            }
        }
    }
}

//! Stop words: the answer ends before the first one that occurs in it. Agents have no option for
//! this, so we scan their output. Pure.

use std::sync::Arc;

/// Scans a text that arrives in chunks. A suffix that could be the beginning of a stop word is held
/// back until more text arrives.
#[derive(Debug, Default)]
pub(super) struct StopWordScanner {
    words: Vec<Arc<str>>,
    held: String,
}

/// The text that can be sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReleasedText {
    pub(super) text: String,
    /// The stop word at which the text ends.
    pub(super) stop_word: Option<Arc<str>>,
}

impl StopWordScanner {
    pub(super) fn new(words: &[Arc<str>]) -> Self {
        Self { words: words.to_vec(), held: String::new() }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    pub(super) fn push(&mut self, text: &str) -> ReleasedText {
        let mut held = std::mem::take(&mut self.held);
        held.push_str(text);
        // Prefer the word that is completed first; among those, the longest.
        let found = self
            .words
            .iter()
            .filter_map(|word| held.find(&**word).map(|at| (at + word.len(), at, word)))
            .min_by_key(|(end, at, _)| (*end, *at));
        if let Some((_, at, word)) = found {
            held.truncate(at);
            return ReleasedText { text: held, stop_word: Some(Arc::clone(word)) };
        }
        let kept = self.partial_match_len(&held);
        self.held = held.split_off(held.len() - kept);
        ReleasedText { text: held, stop_word: None }
    }

    /// Returns the held-back text. No more text follows, so it is not a stop word.
    pub(super) fn take_held(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// Returns the length of the longest suffix of the text that is a proper prefix of a stop word.
    fn partial_match_len(&self, text: &str) -> usize {
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

    fn words(words: &[&str]) -> StopWordScanner {
        let words: Vec<Arc<str>> = words.iter().map(|word| Arc::from(*word)).collect();
        StopWordScanner::new(&words)
    }

    /// Returns the text sent for these chunks, and the stop word that ended it.
    fn scan(mut words: StopWordScanner, chunks: &[&str]) -> (String, Option<Arc<str>>) {
        let mut all = String::new();
        for chunk in chunks {
            let free = words.push(chunk);
            all += &free.text;
            if free.stop_word.is_some() {
                return (all, free.stop_word);
            }
        }
        all += &words.take_held();
        (all, None)
    }

    #[test]
    fn a_text_ends_before_the_word() {
        let ended = |chunks: &[&str]| scan(words(&["END", "\n\n"]), chunks);
        assert_eq!(ended(&["a b"]), ("a b".to_owned(), None));
        assert_eq!(ended(&["one EN", "D two"]), ("one ".to_owned(), Some("END".into())));
        assert_eq!(ended(&["E", "N"]), ("EN".to_owned(), None));
        assert_eq!(ended(&["a\n", "\nEND"]), ("a".to_owned(), Some("\n\n".into())));
        // The end of one partial match may be the beginning of another.
        assert_eq!(ended(&["EEN", "D"]), ("E".to_owned(), Some("END".into())));
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
            let chunks: Vec<String> = at
                .windows(2)
                .map(|pair| letters[pair[0]..pair[1]].iter().collect())
                .collect();
            let chunks: Vec<&str> = chunks.iter().map(String::as_str).collect();
            let whole = scan(words(&given), &[text.as_str()]);
            prop_assert_eq!(&scan(words(&given), &chunks), &whole);
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

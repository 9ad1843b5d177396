//! Splits text into chunks of a given number of graphemes, never inside one.

use unicode_segmentation::UnicodeSegmentation as _;

/// Returns the length of the first chunk in bytes. It is 0 only for an empty text.
pub(super) fn first_chunk_len(text: &str, characters: usize) -> usize {
    text.grapheme_indices(true).nth(characters.max(1)).map_or(text.len(), |(start, _)| start)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(mut text: &str, characters: usize) -> Vec<&str> {
        let mut pieces = Vec::new();
        while !text.is_empty() {
            let (piece, rest) = text.split_at(first_chunk_len(text, characters));
            pieces.push(piece);
            text = rest;
        }
        pieces
    }

    #[test]
    fn what_people_see_as_one_character_stays_whole() {
        let family = "👨‍👩‍👧‍👦";
        assert_eq!(
            all(&format!("a{family}e\u{301}🇫🇷\r\nz"), 1),
            ["a", family, "e\u{301}", "🇫🇷", "\r\n", "z"]
        );
        assert_eq!(all("abcde", 2), ["ab", "cd", "e"]);
        assert_eq!(all("abc", 0), ["a", "b", "c"]);
        assert_eq!(all("", 3), [""; 0]);
    }

    proptest! {
        #[test]
        fn pieces_are_the_text_and_end_where_characters_end(text in ".{0,200}", size in 1..9_usize) {
            let pieces = all(&text, size);
            prop_assert_eq!(pieces.concat(), text.clone());
            let whole: Vec<&str> = text.graphemes(true).collect();
            let again: Vec<&str> = pieces.iter().flat_map(|piece| piece.graphemes(true)).collect();
            prop_assert_eq!(again, whole);
        }
    }
}

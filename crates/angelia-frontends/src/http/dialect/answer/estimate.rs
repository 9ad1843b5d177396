//! Estimates the number of tokens of a text. We do not have the vendors' tokenizers, and responses
//! mark the number as an estimate.

/// Estimates the tokens of a text: four ASCII characters are about one token, and every other
/// character is about one.
pub fn estimate_tokens(text: &str) -> u64 {
    let ascii = text.bytes().filter(u8::is_ascii).count();
    let others = text.chars().filter(|letter| !letter.is_ascii()).count();
    ascii.div_ceil(4) as u64 + others as u64
}

/// Returns the position at which a text must be cut to stay within `allowed` tokens, or `None` if
/// it fits. This is generous by a quarter, because cutting an answer too early is worse than
/// letting it become a little too long.
pub(super) fn cut_position(text: &str, allowed: u64, used_quarters: &mut u64) -> Option<usize> {
    // All counts are in quarters of a token.
    let ceiling = allowed.saturating_mul(5);
    for (at, letter) in text.char_indices() {
        let cost = if letter.is_ascii() { 1 } else { 4 };
        if used_quarters.saturating_add(cost) > ceiling {
            return Some(at);
        }
        *used_quarters += cost;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_a_token_and_a_sign_is_one() {
        assert_eq!(estimate_tokens(""), 0);
        assert_eq!(estimate_tokens("word"), 1);
        assert_eq!(estimate_tokens("two words"), 3);
        assert_eq!(estimate_tokens("日本"), 2);
    }

    #[test]
    fn a_text_is_cut_between_characters_and_across_pieces() {
        let mut used = 0;
        assert_eq!(cut_position("abc", 1, &mut used), None);
        assert_eq!(cut_position("défg", 1, &mut used), Some(1));
        assert_eq!(cut_position("", 0, &mut 0), None);
        assert_eq!(cut_position("x", 0, &mut 0), Some(0));
    }
}

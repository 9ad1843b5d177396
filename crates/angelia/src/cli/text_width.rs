//! Measures the width of text on a terminal, and cuts it to fit. Wide characters count as two
//! columns, and a cut never splits a grapheme.

use std::borrow::Cow;

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Replaces the text that was cut off.
const ELLIPSIS: &str = "…";

/// Returns the number of columns that a text without line breaks takes. Where terminals differ,
/// returns the larger number: cutting text a little early does no harm, but wrapping does.
pub(crate) fn columns(text: &str) -> usize {
    text.graphemes(true).map(grapheme_columns).sum()
}

/// Returns the text if it fits into this many columns, otherwise its beginning and `…`.
pub(crate) fn fit(text: &str, limit: usize) -> Cow<'_, str> {
    let mut used = 0;
    let mut end_with_ellipsis = 0;
    for (start, grapheme) in text.grapheme_indices(true) {
        used += grapheme_columns(grapheme);
        if used > limit {
            let ellipsis = if limit == 0 { "" } else { ELLIPSIS };
            return Cow::Owned(format!("{}{ellipsis}", &text[..end_with_ellipsis]));
        }
        if used < limit {
            end_with_ellipsis = start + grapheme.len();
        }
    }
    Cow::Borrowed(text)
}

/// Returns the number of rows that a text without line breaks takes on a terminal that wraps it.
pub(crate) fn rows(text: &str, width: usize) -> usize {
    columns(text).div_ceil(width.max(1)).max(1)
}

fn grapheme_columns(grapheme: &str) -> usize {
    // Terminals without support for joined emoji draw their parts side by side.
    let parts: usize = grapheme.chars().map(|char| char.width().unwrap_or(1)).sum();
    grapheme.width().max(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_characters_take_two_columns_and_graphemes_stay_whole() {
        for (text, wide) in [("abc", 3), ("日本", 4), ("e\u{301}", 1), ("❤\u{fe0f}", 2), ("", 0)]
        {
            assert_eq!(columns(text), wide, "{text}");
        }
        assert_eq!(fit("abcdef", 6), "abcdef");
        assert_eq!(fit("abcdef", 5), "abcd…");
        assert_eq!(fit("日本語", 5), "日本…");
        assert_eq!(fit("日本語", 4), "日…");
        assert_eq!(fit("ae\u{301}bc", 3), "ae\u{301}…");
        assert_eq!(fit("abc", 1), "…");
        assert_eq!(fit("abc", 0), "");
        for limit in 0..20 {
            let cut = fit("a👩‍💻日e\u{301}🇩🇪xyz, 日本語", limit);
            assert!(columns(&cut) <= limit, "{limit}: {cut}");
        }
    }

    #[test]
    fn wrapped_text_takes_several_rows() {
        let taken = [rows("", 40), rows("a", 40), rows(&"a".repeat(80), 40), rows("日本", 3)];
        assert_eq!(taken, [1, 1, 2, 2]);
    }
}

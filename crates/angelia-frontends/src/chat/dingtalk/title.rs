//! Tells whether a text needs formatting, and finds its title.

use angelia_core::ports::{BlockKind, RichText, Span, SpanStyle};

/// The longest title. Chat lists and notifications show it.
const MAX_TITLE: usize = 40;

/// Returns whether a text has no formatting and can be sent as plain text.
pub(super) fn is_plain(text: &RichText) -> bool {
    text.blocks.iter().all(|block| {
        let is_plain = |span: &Span| {
            let SpanStyle { bold, italic, strike: _, code, link } = &span.style;
            !bold && !italic && !code && link.is_none()
        };
        block.kind == BlockKind::Text && block.spans.iter().all(is_plain)
    })
}

/// Returns the beginning of a text as a title.
pub(super) fn title_of(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("Angelia");
    line.chars().take(MAX_TITLE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::formatting::parse_markdown;

    #[test]
    fn a_text_without_formatting_needs_no_markdown() {
        assert!(is_plain(&parse_markdown("hello\n\n- a\n- b")));
        assert!(!is_plain(&parse_markdown("hello **you**")));
        assert!(!is_plain(&parse_markdown("> you")));
        assert_eq!(title_of("\n  first line\nsecond"), "first line");
        assert_eq!(title_of(" \n"), "Angelia");
    }
}

//! Formats the result of a search for the model: within the limits, and with a remark if something
//! may be missing.

use std::fmt::Write as _;

use super::{
    excerpt::MAX_BYTES,
    folder_walk::{MAX_DURATION, WalkEnd},
};

/// The maximum number of entries in a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EntryLimit {
    pub(super) count: usize,
    /// The argument that raises the limit.
    pub(super) argument: Option<&'static str>,
}

/// Returns whether a result has room for more entries. [`finish_search`] cuts a result that is too
/// long.
pub(super) fn has_room(text: &str) -> bool {
    text.len() <= MAX_BYTES
}

/// Returns the text for the model, which is `nothing` if nothing was found.
pub(super) fn finish_search(
    mut text: String,
    nothing: &str,
    end: WalkEnd,
    limit: EntryLimit,
) -> String {
    if text.is_empty() {
        text.push_str(nothing);
    }
    if !has_room(&text) {
        text.truncate(text.floor_char_boundary(MAX_BYTES));
        let limit = MAX_BYTES / 1024;
        // Writing to a string cannot fail.
        let _infallible = write!(
            text,
            " …\n(only the first {limit} KiB are shown; narrow the pattern or the path)"
        );
        return text;
    }
    let _infallible = match end {
        WalkEnd::Complete => Ok(()),
        WalkEnd::Enough => {
            let count = limit.count;
            let raise = limit.argument.map(|argument| format!(", or raise `{argument}`"));
            let raise = raise.unwrap_or_default();
            write!(
                text,
                "(only the first {count} are shown; narrow the pattern or the path{raise})"
            )
        }
        WalkEnd::Cancelled => write!(text, "(cancelled; there may be more)"),
        WalkEnd::TooLong => {
            let seconds = MAX_DURATION.as_secs();
            write!(text, "(the search took longer than {seconds} s and was ended; narrow the path)")
        }
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: EntryLimit = EntryLimit { count: 7, argument: None };

    #[test]
    fn what_is_missing_is_said() {
        let finish = |text: &str, end| finish_search(text.to_owned(), "nothing\n", end, LIMIT);
        assert_eq!(finish("", WalkEnd::Complete), "nothing\n");
        assert_eq!(finish("a\n", WalkEnd::Complete), "a\n");
        let cut = finish("a\n", WalkEnd::Enough);
        assert_eq!(cut, "a\n(only the first 7 are shown; narrow the pattern or the path)");
        let raised = EntryLimit { argument: Some("limit"), ..LIMIT };
        let cut = finish_search("a\n".to_owned(), "", WalkEnd::Enough, raised);
        assert!(cut.ends_with("or the path, or raise `limit`)"), "{cut}");
    }

    #[test]
    fn a_long_result_is_cut_between_characters() {
        let long = "ä".repeat(MAX_BYTES);
        let cut = finish_search(long, "", WalkEnd::Enough, LIMIT);
        assert!(
            cut.len() < MAX_BYTES + 100 && cut.contains("ä …\n(only the first 48 KiB"),
            "{cut}"
        );
    }
}

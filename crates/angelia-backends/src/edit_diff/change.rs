//! Applies the changes of one file to its text. Pure.

use std::borrow::Cow;

use angelia_core::model::{FileChange, TextReplacement};

use super::notebook;

/// Returns the text after a change. `None`: the text that the change names is not in the file.
pub(super) fn apply<'a>(text: &'a str, change: &'a FileChange) -> Option<Cow<'a, str>> {
    match change {
        FileChange::Write(content) => Some(Cow::Borrowed(content)),
        FileChange::Replace(replacement) => replace(text, replacement).map(Cow::Owned),
        FileChange::Cell { id, change } => {
            notebook::change_cell(text, id.as_deref(), change).map(Cow::Owned)
        }
        FileChange::Delete => Some(Cow::Borrowed("")),
        FileChange::Patch { .. } => None,
    }
}

fn replace(text: &str, TextReplacement { old, new, all }: &TextReplacement) -> Option<String> {
    if old.is_empty() {
        // Agents write a new file this way.
        return text.is_empty().then(|| new.to_string());
    }
    if !text.contains(&**old) {
        return None;
    }
    Some(if *all { text.replace(&**old, new) } else { text.replacen(&**old, new, 1) })
}

//! A file that belongs entirely to Angelia. Pure.

use super::client::{EditRefusal, FileState, Removal};

/// Returns the new text. Refuses a file without the mark, because it is not Angelia's.
pub(super) fn with_file(
    file: &FileState<'_>,
    mark: &str,
    text: String,
) -> Result<String, EditRefusal> {
    match file.text {
        Some(old) if !old.contains(mark) => {
            Err(EditRefusal::Own("it was not written by Angelia, and is kept".to_owned()))
        }
        _ => Ok(text),
    }
}

pub(super) fn without_file(text: &str, mark: &str) -> Removal {
    let is_ours = text.contains(mark);
    Removal { text: (!is_ours).then(|| text.to_owned()), mode: None }
}

/// Returns the first line of such a file, after the comment sign.
pub(super) fn mark_line(tool: &str) -> String {
    format!(
        "angelia setup {tool}: changes in this file are lost; `angelia setup {tool} --undo` removes it"
    )
}

//! A marked block at the end of a text whose comments begin with `#`. Pure.
//!
//! ```yaml
//! # >>> angelia setup aider: … [open line] [mode 644]
//! model: openai/claude/sonnet
//! # <<< angelia setup aider
//! ```
//!
//! The flags on the first line record what is needed to restore the file.

use super::client::{EditRefusal, FileState, Removal};

const NEW_FILE_FLAG: &str = "[new file]";
const OPEN_LINE_FLAG: &str = "[open line]";
const MODE_FLAG: &str = "[mode ";

/// Returns the text with this tool's block, which replaces an older one.
pub(super) fn with_block(
    file: &FileState<'_>,
    tool: &str,
    body: &[String],
) -> Result<String, EditRefusal> {
    let old = file.text.map(|text| without_block(text, tool)).transpose()?;
    // A file that an earlier block narrowed returns to its original mode.
    let (base, mode) = match old {
        Some(Removal { text, mode }) => (text, mode.or(file.wide_mode)),
        None => (None, None),
    };
    let text = base.as_deref().unwrap_or_default();
    let newline = newline_of(text);
    let open_line = !text.is_empty() && !text.ends_with('\n');
    let mut begin = format!(
        "{}: ours down to `<<<`, changes in it are lost; `angelia setup {tool} --undo` takes it away",
        begin_line(tool)
    );
    if base.is_none() {
        begin = format!("{begin} {NEW_FILE_FLAG}");
    }
    if open_line {
        begin = format!("{begin} {OPEN_LINE_FLAG}");
    }
    if let Some(mode) = mode {
        begin = format!("{begin} {MODE_FLAG}{mode:o}]");
    }
    let mut out = text.to_owned();
    if open_line {
        out.push_str(newline);
    }
    let end = end_line(tool);
    for line in [&begin].into_iter().chain(body).chain([&end]) {
        out.push_str(line);
        out.push_str(newline);
    }
    Ok(out)
}

/// Returns the text without the block of this tool.
pub(super) fn without_block(text: &str, tool: &str) -> Result<Removal, EditRefusal> {
    let Some(start) = find_line(text, &begin_line(tool), 0) else {
        return Ok(Removal { text: Some(text.to_owned()), mode: None });
    };
    let end = find_line(text, &end_line(tool), start).ok_or_else(|| {
        EditRefusal::Unreadable(
            "the end of Angelia's part is gone; remove that part yourself".into(),
        )
    })?;
    let end = line_end(text, end);
    let flags = text.get(start..line_end(text, start)).unwrap_or_default();
    let mut before = text.get(..start).unwrap_or_default();
    let after = text.get(end..).unwrap_or_default();
    if flags.contains(OPEN_LINE_FLAG) && after.is_empty() {
        before = before.strip_suffix('\n').unwrap_or(before);
        before = before.strip_suffix('\r').unwrap_or(before);
    }
    let mode = flags.split_once(MODE_FLAG).and_then(|(_, rest)| rest.split_once(']'));
    let mode = mode.and_then(|(digits, _)| u32::from_str_radix(digits, 8).ok());
    let rest = format!("{before}{after}");
    let is_gone = flags.contains(NEW_FILE_FLAG) && rest.is_empty();
    Ok(Removal { text: (!is_gone).then_some(rest), mode })
}

/// Returns the line break that the text uses.
pub(super) fn newline_of(text: &str) -> &'static str {
    match text.find('\n') {
        Some(at) if text.get(..at).is_some_and(|line| line.ends_with('\r')) => "\r\n",
        _ => "\n",
    }
}

/// Returns the beginning of the line before a block.
pub(super) fn begin_line(tool: &str) -> String {
    format!("# >>> angelia setup {tool}")
}

/// Returns the line after a block.
pub(super) fn end_line(tool: &str) -> String {
    format!("# <<< angelia setup {tool}")
}

/// Returns the position of the first line that starts with `start`, at or after a position.
fn find_line(text: &str, start: &str, from: usize) -> Option<usize> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if at >= from && line.starts_with(start) {
            return Some(at);
        }
        at += line.len();
    }
    None
}

/// Returns the position after the end of the line.
fn line_end(text: &str, at: usize) -> usize {
    let behind = text.get(at..).unwrap_or_default();
    behind.find('\n').map_or(text.len(), |newline| at + newline + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn with(text: Option<&str>, wide_mode: Option<u32>) -> String {
        with_block(&FileState { text, wide_mode }, "x", &["a: 1".to_owned()]).unwrap()
    }

    #[test]
    fn a_block_is_added_replaced_and_removed() {
        let text = with(Some("mine: 2"), Some(0o644));
        insta::assert_snapshot!(text, @"
        mine: 2
        # >>> angelia setup x: ours down to `<<<`, changes in it are lost; `angelia setup x --undo` takes it away [open line] [mode 644]
        a: 1
        # <<< angelia setup x
        ");
        assert_eq!(with(Some(&text), None), text, "the mode is remembered");
        let removed = without_block(&text, "x").unwrap();
        assert_eq!(removed, Removal { text: Some("mine: 2".to_owned()), mode: Some(0o644) });
        // Text that was added in between stays, even after the content of a file that Angelia
        // created.
        let made = with(None, None);
        assert_eq!(without_block(&made, "x").unwrap().text, None);
        let kept = without_block(&format!("{made}b: 1\n"), "x").unwrap();
        assert_eq!(kept.text.as_deref(), Some("b: 1\n"));
        let halved = text.replace("# <<<", "#");
        assert!(matches!(without_block(&halved, "x"), Err(EditRefusal::Unreadable(_))));
    }

    proptest! {
        #[test]
        fn any_text_comes_back(text in "([a-z#> \\[\\]]{0,8}(\n|\r\n)?){0,6}", wide in any::<bool>()) {
            let mode = wide.then_some(0o664);
            let once = with(Some(&text), mode);
            prop_assert_eq!(&with(Some(&once), None), &once);
            let removed = without_block(&once, "x").unwrap();
            prop_assert_eq!(removed, Removal { text: Some(text), mode });
        }
    }
}

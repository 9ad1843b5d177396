//! Writes the unified diff of one file. Pure.
//!
//! Lines that begin with `\` are not part of the diff; they name the parts that it does not show.
//! Programs that apply diffs skip them.

use std::{fmt::Write as _, path::Path, time::Duration};

use angelia_core::model::{CellChange, FileChange};
use similar::TextDiff;

use super::{MAX_FILE_BYTES, OldContent, change::apply, notebook};

/// The longest diff that is kept.
pub(super) const MAX_DIFF_BYTES: usize = 256 * 1024;

/// Comparing may take this long; the rest is then shown as removed and added.
const COMPARE_TIMEOUT: Duration = Duration::from_millis(500);

/// Returns the diff of one file, with its header. Paths below `cwd` are shown relative to it.
pub(super) fn file_diff(
    path: &Path,
    cwd: &Path,
    old: OldContent,
    changes: &[&FileChange],
) -> String {
    let label = |side: &str, path: &Path| match path.strip_prefix(cwd) {
        Ok(inside) => format!("{side}/{}", inside.display()),
        Err(_) => path.display().to_string(),
    };
    let deletes = changes.last().is_some_and(|change| matches!(change, FileChange::Delete));
    let mut new_path = path;
    if let [FileChange::Patch { moved_to: Some(moved), .. }] = changes {
        new_path = moved;
    }
    let new_path = cwd.join(new_path);
    let is_new = old == OldContent::Missing;
    let from = if is_new { "/dev/null".to_owned() } else { label("a", path) };
    let to = if deletes { "/dev/null".to_owned() } else { label("b", &new_path) };
    let mut diff = format!("--- {}\n+++ {}\n", one_line(&from), one_line(&to));
    match old {
        OldContent::Missing => compare(None, changes, &mut diff),
        OldContent::Text(old) => compare(Some(&old), changes, &mut diff),
        OldContent::Unknown(why) => {
            note(&format!("The file is not compared: {why}."), &mut diff);
            show_alone(changes, &mut diff);
        }
    }
    diff
}

/// Appends the difference that the changes make, one after the other.
fn compare(old: Option<&str>, changes: &[&FileChange], diff: &mut String) {
    if let [FileChange::Patch { hunks, .. }] = changes {
        return append_patch(hunks, diff);
    }
    let is_notebook = changes.iter().any(|change| matches!(change, FileChange::Cell { .. }));
    let Some(before) = (if is_notebook {
        notebook::cells_text(old.unwrap_or_default())
    } else {
        Some(old.unwrap_or_default().to_owned())
    }) else {
        note("The file is no notebook that can be read.", diff);
        return show_alone(changes, diff);
    };
    let mut after = old.unwrap_or_default().to_owned();
    for change in changes {
        let Some(next) = apply(&after, change) else {
            note("The text that is to be replaced is not in the file.", diff);
            return show_alone(changes, diff);
        };
        after = next.into_owned();
    }
    if after.len() as u64 > MAX_FILE_BYTES {
        note("The new content is larger than 1 MiB, so it is not compared.", diff);
        return append_lines('+', &after, diff);
    }
    if before == after {
        let nothing = if old.is_none() { "The new file is empty." } else { "Nothing changes." };
        return note(nothing, diff);
    }
    append_hunks(&before, &after, diff);
}

/// Appends the text that the changes themselves contain, where the file cannot be compared.
fn show_alone(changes: &[&FileChange], diff: &mut String) {
    for change in changes {
        match change {
            FileChange::Write(content) => append_lines('+', content, diff),
            FileChange::Replace(replacement) => {
                append_hunks(&replacement.old, &replacement.new, diff);
            }
            FileChange::Patch { hunks, .. } => append_patch(hunks, diff),
            FileChange::Cell {
                change: CellChange::Replace(source) | CellChange::Insert(source),
                ..
            } => append_lines('+', source, diff),
            FileChange::Cell { id, change: CellChange::Delete } => {
                note(&format!("The cell {} is removed.", id.as_deref().unwrap_or("?")), diff);
            }
            FileChange::Delete => note("The file is removed.", diff),
        }
    }
}

/// Appends the agent's own hunks, without their header.
fn append_patch(hunks: &str, diff: &mut String) {
    let begin = if hunks.starts_with("@@") { Some(0) } else { hunks.find("\n@@").map(|at| at + 1) };
    match begin {
        Some(begin) => {
            diff.push_str(&hunks[begin..]);
            if !diff.ends_with('\n') {
                diff.push('\n');
            }
        }
        None if hunks.trim().is_empty() => note("Only the name changes.", diff),
        None => {
            note("The agent's patch has no hunks:", diff);
            append_lines('+', hunks, diff);
        }
    }
}

fn append_hunks(before: &str, after: &str, diff: &mut String) {
    let compared = TextDiff::configure().timeout(COMPARE_TIMEOUT).diff_lines(before, after);
    let _infallible = write!(diff, "{}", compared.unified_diff().context_radius(3));
    if !diff.ends_with('\n') {
        diff.push('\n');
    }
}

fn append_lines(sign: char, text: &str, diff: &mut String) {
    let count = text.lines().count();
    let _infallible = writeln!(diff, "@@ -0,0 +1,{count} @@");
    for line in text.lines() {
        if diff.len() > MAX_DIFF_BYTES {
            // The rest is cut off, but its lines must be counted.
            let _infallible = writeln!(diff, "{sign}");
            continue;
        }
        let _infallible = writeln!(diff, "{sign}{line}");
    }
}

/// Cuts a diff that is too long, and says how much is missing.
pub(super) fn limit_length(mut diff: String) -> String {
    if diff.len() <= MAX_DIFF_BYTES {
        return diff;
    }
    let end = diff.floor_char_boundary(MAX_DIFF_BYTES);
    let end = diff[..end].rfind('\n').map_or(end, |at| at + 1);
    let missing = diff[end..].lines().count();
    diff.truncate(end);
    if !diff.ends_with('\n') {
        diff.push('\n');
    }
    note(&format!("{missing} more lines are not shown; the diff is too long."), &mut diff);
    diff
}

fn note(text: &str, diff: &mut String) {
    let _infallible = writeln!(diff, "\\ {text}");
}

/// A path may contain a line break.
fn one_line(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}

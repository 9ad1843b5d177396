//! Reads a unified diff, because editors need the old and new text of each change.

use std::path::{Path, PathBuf};

use super::tool::Diff;

const NO_NEWLINE: &str = "\\ No newline at end of file";

/// The changes of a unified diff.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct UnifiedDiff {
    /// One entry per hunk.
    pub(super) hunks: Vec<Diff>,
    /// The diff's own notes about parts that it does not show.
    pub(super) notes: Vec<String>,
}

/// How many lines of each side a hunk still has.
#[derive(Clone, Copy, Debug, Default)]
struct LinesLeft {
    old: usize,
    new: usize,
}

/// Parses a unified diff. Relative paths are resolved against `cwd`.
pub(super) fn parse_unified(text: &str, cwd: &Path) -> UnifiedDiff {
    let mut diff = UnifiedDiff::default();
    let (mut old_path, mut new_path): (Option<PathBuf>, Option<PathBuf>) = (None, None);
    let mut left = LinesLeft::default();
    let mut last_sign = ' ';
    for line in text.split_inclusive('\n') {
        if let Some(note) = line.strip_prefix("\\ ") {
            if line.trim_end() == NO_NEWLINE {
                remove_newline(diff.hunks.last_mut(), last_sign);
            } else {
                diff.notes.push(note.trim_end().to_owned());
            }
            continue;
        }
        if left.old > 0 || left.new > 0 {
            last_sign = line.chars().next().unwrap_or(' ');
            if let Some(hunk) = diff.hunks.last_mut() {
                add_line(hunk, line, &mut left);
            }
        } else if let Some(path) = line.strip_prefix("--- ") {
            old_path = header_path(path, cwd);
        } else if let Some(path) = line.strip_prefix("+++ ") {
            new_path = header_path(path, cwd);
        } else if let Some(lines) = hunk_lines(line) {
            left = lines;
            let path = new_path.as_ref().or(old_path.as_ref()).cloned().unwrap_or_default();
            let old = old_path.is_some().then(String::new);
            diff.hunks.push(Diff { path, old, new: String::new() });
        }
    }
    diff
}

/// Returns the path from a header, or `None` for `/dev/null`.
fn header_path(label: &str, cwd: &Path) -> Option<PathBuf> {
    let label = label.trim_end_matches(['\r', '\n']);
    let inside = label.strip_prefix("a/").or_else(|| label.strip_prefix("b/"));
    (label != "/dev/null").then(|| cwd.join(inside.unwrap_or(label)))
}

/// Returns the sizes in `@@ -1,2 +3,4 @@`. A missing size is 1.
fn hunk_lines(line: &str) -> Option<LinesLeft> {
    let ranges = line.strip_prefix("@@ ")?;
    let mut ranges = ranges.split(' ');
    let mut size = |sign: char| -> Option<usize> {
        let range = ranges.next()?.strip_prefix(sign)?;
        range.split_once(',').map_or(Some(1), |(_, size)| size.parse().ok())
    };
    Some(LinesLeft { old: size('-')?, new: size('+')? })
}

fn add_line(hunk: &mut Diff, line: &str, left: &mut LinesLeft) {
    let rest = line.get(1..).unwrap_or_default();
    let (is_old, is_new) = match line.as_bytes().first() {
        Some(b'-') => (true, false),
        Some(b'+') => (false, true),
        _ => (true, true),
    };
    if is_old {
        left.old = left.old.saturating_sub(1);
        hunk.old.get_or_insert_default().push_str(rest);
    }
    if is_new {
        left.new = left.new.saturating_sub(1);
        hunk.new.push_str(rest);
    }
}

fn remove_newline(hunk: Option<&mut Diff>, sign: char) {
    let Some(hunk) = hunk else { return };
    let old = hunk.old.as_mut().filter(|_| sign != '+');
    for text in old.into_iter().chain((sign != '-').then_some(&mut hunk.new)) {
        text.truncate(text.trim_end_matches('\n').len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_hunk_has_both_sides() {
        let text = "--- a/x.rs\n+++ b/x.rs\n@@ -1,2 +1,2 @@\n same\n--- old\n+++ new\n@@ -9 +9,0 @@\n\
                    -gone\n\\ No newline at end of file\n--- /dev/null\n+++ /etc/new\n@@ -0,0 +1,1 \
                    @@\n+first\n\\ 7 more lines are not shown; the diff is too long.\n";
        let diff = parse_unified(text, Path::new("/w"));
        let hunk = |path: &str, old: Option<&str>, new: &str| Diff {
            path: path.into(),
            old: old.map(Into::into),
            new: new.into(),
        };
        assert_eq!(
            diff.hunks,
            [
                hunk("/w/x.rs", Some("same\n-- old\n"), "same\n++ new\n"),
                hunk("/w/x.rs", Some("gone"), ""),
                hunk("/etc/new", None, "first\n"),
            ]
        );
        assert_eq!(diff.notes, ["7 more lines are not shown; the diff is too long."]);
    }

    #[test]
    fn any_text_is_read() {
        for text in
            ["", "@@", "@@ -1 @@", "@@ -a,b +c @@\n+x", "\\ ", "--- \n+++ \n@@ -9,9 +9,9 @@\n"]
        {
            let _ = parse_unified(text, Path::new("/w"));
        }
    }
}

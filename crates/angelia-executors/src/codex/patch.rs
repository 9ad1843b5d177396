//! The files of a patch: their line counts and paths, for people and for permission rules.

use std::{fmt::Write as _, path::PathBuf, sync::Arc};

use angelia_core::model::{FileChange, FileEdit};
use serde_json::value::RawValue;

use super::protocol::item;

/// How many paths a title names.
const MAX_PATHS_IN_TITLE: usize = 3;

/// The files of a patch.
#[derive(Clone, Debug, Default)]
pub(crate) struct PatchSummary(Vec<ChangedFile>);

#[derive(Clone, Debug)]
struct ChangedFile {
    verb: &'static str,
    path: Box<str>,
    moved_to: Option<Box<str>>,
    added: usize,
    removed: usize,
    /// The hunks, or the content of an added or deleted file.
    diff: Arc<str>,
}

impl PatchSummary {
    pub(crate) fn parse(raw: Option<&RawValue>) -> Self {
        let changed = item::parse_changes(raw).into_iter().filter_map(|change| {
            let kind = change.kind.0.as_ref();
            let verb = match kind.and_then(|kind| kind.kind.as_str()) {
                Some("add") => "add",
                Some("delete") => "delete",
                _ => "update",
            };
            let (added, removed) = count_lines(verb, change.diff.as_str().unwrap_or_default());
            Some(ChangedFile {
                verb,
                path: change.path.as_str()?.into(),
                moved_to: kind.and_then(|kind| kind.move_path.as_str().map(Into::into)),
                added,
                removed,
                diff: change.diff.as_str().unwrap_or_default().into(),
            })
        });
        Self(changed.collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns every path that is written to, in order.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        (self.0.iter())
            .flat_map(|one| [Some(&*one.path), one.moved_to.as_deref()].into_iter().flatten())
    }

    /// Returns the changes of the patch, file by file.
    pub(crate) fn edits(&self) -> Vec<FileEdit> {
        let edit = |one: &ChangedFile| FileEdit {
            path: PathBuf::from(&*one.path),
            change: match one.verb {
                "add" => FileChange::Write(Arc::clone(&one.diff)),
                "delete" => FileChange::Delete,
                _ => FileChange::Patch {
                    hunks: Arc::clone(&one.diff),
                    moved_to: one.moved_to.as_deref().map(PathBuf::from),
                },
            },
        };
        self.0.iter().map(edit).collect()
    }

    /// Returns a title such as `update /w/a.rs` or `change 5 files: a, b, c …`.
    pub(crate) fn title(&self) -> String {
        if let [one] = &*self.0 {
            return format!("{} {}", one.verb, one.path);
        }
        let names: Vec<&str> =
            self.0.iter().take(MAX_PATHS_IN_TITLE).map(|one| &*one.path).collect();
        let more = if self.0.len() > MAX_PATHS_IN_TITLE { " …" } else { "" };
        let count = self.0.len();
        let colon = if count == 0 { "" } else { ": " };
        format!("change {count} files{colon}{}{more}", names.join(", "))
    }

    /// Lists the files, one per line, with the numbers of added and removed lines.
    pub(crate) fn file_list(&self) -> String {
        let mut text = String::new();
        for one in &self.0 {
            let _infallible = write!(text, "{} {}", one.verb, one.path);
            if let Some(moved_to) = &one.moved_to {
                let _infallible = write!(text, " → {moved_to}");
            }
            let _infallible = writeln!(text, " (+{} −{})", one.added, one.removed);
        }
        text.truncate(text.trim_end().len());
        text
    }

    /// Returns a summary such as `3 files, +10 −2 lines`.
    pub(crate) fn totals(&self) -> String {
        let (added, removed) =
            (self.0.iter()).fold((0, 0), |sum, one| (sum.0 + one.added, sum.1 + one.removed));
        let files = match self.0.len() {
            1 => "1 file".to_owned(),
            more => format!("{more} files"),
        };
        format!("{files}, +{added} −{removed} lines")
    }
}

/// Counts added and removed lines. Added and deleted files arrive as plain content, not as a diff.
fn count_lines(verb: &str, diff: &str) -> (usize, usize) {
    match verb {
        "add" => (diff.lines().count(), 0),
        "delete" => (0, diff.lines().count()),
        _ => {
            // Skip any headers before the first hunk.
            let hunks = diff.find("@@").map_or(diff, |at| &diff[at..]);
            let starting = |sign| hunks.lines().filter(|line| line.starts_with(sign)).count();
            (starting('+'), starting('-'))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_are_counted_in_lines() {
        let json = r#"[{"path":"/a","kind":{"type":"update","move_path":"/b"},
            "diff":"--- a\n+++ b\n@@ -1 +1,2 @@\n-x\n+y\n+z\n"},
            {"path":"/c","kind":{"type":"add"},"diff":"1\n2\n"},
            {"path":"/d","kind":{"type":"delete"},"diff":"1\n"}]"#;
        let raw = RawValue::from_string(json.to_owned()).unwrap();
        let changes = PatchSummary::parse(Some(&raw));
        assert_eq!(changes.totals(), "3 files, +4 −2 lines");
        assert_eq!(
            changes.file_list(),
            "update /a → /b (+2 −1)\nadd /c (+2 −0)\ndelete /d (+0 −1)"
        );
        assert_eq!(changes.title(), "change 3 files: /a, /c, /d");
        let paths: Vec<&str> = changes.paths().collect();
        assert_eq!(paths, ["/a", "/b", "/c", "/d"]);
        let hunks = "--- a\n+++ b\n@@ -1 +1,2 @@\n-x\n+y\n+z\n".into();
        let patch = FileChange::Patch { hunks, moved_to: Some("/b".into()) };
        let edit = |path: &str, change| FileEdit { path: path.into(), change };
        let write = FileChange::Write("1\n2\n".into());
        let edits = [edit("/a", patch), edit("/c", write), edit("/d", FileChange::Delete)];
        assert_eq!(changes.edits(), edits);
    }
}

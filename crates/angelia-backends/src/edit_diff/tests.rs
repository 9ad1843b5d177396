//! Diffs of edits against files of this machine.

use std::{fs, path::PathBuf, sync::Arc};

use angelia_core::{
    model::{CellChange, FileChange, FileEdit, TextReplacement},
    ports::EditDiffer as _,
};
use tempfile::TempDir;

use super::{FileDiffs, unified::MAX_DIFF_BYTES};

struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn with(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        fs::write(self.0.path().join(name), content).unwrap();
        self
    }

    async fn diff(&self, changes: Vec<(&str, FileChange)>) -> String {
        let edit = |(path, change)| FileEdit { path: PathBuf::from(path), change };
        let edits = changes.into_iter().map(edit).collect();
        FileDiffs.diff(edits, self.0.path().to_owned()).await.unwrap().to_string()
    }
}

fn replace(old: &str, new: &str, all: bool) -> FileChange {
    FileChange::Replace(TextReplacement { old: old.into(), new: new.into(), all })
}

fn write(text: impl Into<Arc<str>>) -> FileChange {
    FileChange::Write(text.into())
}

#[tokio::test]
async fn an_edit_is_shown_in_its_surroundings() {
    let files = Files::new().with("a.txt", "1\n2\n3\n4\nold\n6\n7\n8\n9\n");
    assert_eq!(
        files.diff(vec![("a.txt", replace("old", "new", false))]).await,
        "--- a/a.txt\n+++ b/a.txt\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-old\n+new\n 6\n 7\n 8\n"
    );
    let several =
        vec![("a.txt", replace("old", "new", false)), ("a.txt", replace("new", "x", true))];
    let diff = files.diff(several).await;
    assert!(diff.contains("-old\n+x\n"), "the edits follow one another: {diff}");
    let missing = files.diff(vec![("a.txt", replace("nowhere\n", "x\n", false))]).await;
    assert!(missing.contains("\\ The text that is to be replaced is not in the file.\n"));
    assert!(missing.ends_with("-nowhere\n+x\n"), "{missing}");
}

#[tokio::test]
async fn a_new_file_is_all_added() {
    let files = Files::new();
    let diff = files.diff(vec![("b/c.txt", write("1\n2\n"))]).await;
    assert_eq!(diff, "--- /dev/null\n+++ b/b/c.txt\n@@ -0,0 +1,2 @@\n+1\n+2\n");
    let nowhere = files.diff(vec![("/nowhere/x\ny", write("1"))]).await;
    assert!(nowhere.starts_with("--- /dev/null\n+++ /nowhere/x\u{fffd}y\n"), "{nowhere}");
    assert!(nowhere.ends_with("+1\n\\ No newline at end of file\n"), "{nowhere}");
}

#[tokio::test]
async fn a_file_is_rewritten_deleted_or_patched() {
    let files = Files::new().with("a.txt", "1\n2\n");
    let diff = files.diff(vec![("a.txt", write("1\n3\n"))]).await;
    assert!(diff.ends_with("@@ -1,2 +1,2 @@\n 1\n-2\n+3\n"), "{diff}");
    let same = files.diff(vec![("a.txt", write("1\n2\n"))]).await;
    assert!(same.ends_with("\\ Nothing changes.\n"), "{same}");
    let gone = files.diff(vec![("a.txt", FileChange::Delete)]).await;
    assert_eq!(gone, "--- a/a.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-1\n-2\n");
    let hunks = "--- x\n+++ y\n@@ -1 +1 @@\n-1\n+0".into();
    let patch = FileChange::Patch { hunks, moved_to: Some("c.txt".into()) };
    let diff = files.diff(vec![("a.txt", patch)]).await;
    assert_eq!(diff, "--- a/a.txt\n+++ b/c.txt\n@@ -1 +1 @@\n-1\n+0\n");
}

#[tokio::test]
async fn what_cannot_be_compared_is_said() {
    let files = Files::new().with("binary", b"\0\x01\xff").with("large", "x\n".repeat(600_000));
    rustix::fs::mkfifoat(rustix::fs::CWD, files.0.path().join("pipe"), rustix::fs::Mode::RUSR)
        .unwrap();
    for (name, why) in [
        ("binary", "it is binary"),
        ("large", "it is larger than 1 MiB"),
        ("pipe", "it is not a regular file"),
    ] {
        let diff = files.diff(vec![(name, write("new\n"))]).await;
        assert!(diff.contains(&format!("\\ The file is not compared: {why}.\n")), "{diff}");
        assert!(diff.ends_with("+new\n"), "{diff}");
    }
}

#[tokio::test]
async fn a_diff_has_an_end_and_says_what_is_missing() {
    let files = Files::new();
    for lines in [100_000, 5_000_000] {
        let diff = files.diff(vec![("huge.txt", write("0123456789\n".repeat(lines)))]).await;
        assert!(diff.len() < MAX_DIFF_BYTES + 200, "{}", diff.len());
        let shown = diff.lines().filter(|line| *line == "+0123456789").count();
        let note =
            format!("\\ {} more lines are not shown; the diff is too long.\n", lines - shown);
        assert!(diff.ends_with(&note), "{}", &diff[diff.len() - 200..]);
    }
    let line = files.diff(vec![("wide.txt", write("x".repeat(10_000_000)))]).await;
    assert!(line.len() < MAX_DIFF_BYTES + 200);
}

#[tokio::test]
async fn a_cell_of_a_notebook_is_compared_as_text() {
    let notebook =
        r##"{"cells":[{"id":"one","source":["# Title\n","text"]},{"source":"x = 1\n"}]}"##;
    let files = Files::new().with("n.ipynb", notebook);
    let cell = |id: &str, change| FileChange::Cell { id: Some(id.into()), change };
    let diff =
        files.diff(vec![("n.ipynb", cell("cell-1", CellChange::Replace("x = 2".into())))]).await;
    assert!(diff.ends_with(" # %% cell-1\n-x = 1\n+x = 2\n"), "{diff}");
    let diff = files.diff(vec![("n.ipynb", cell("one", CellChange::Insert("y".into())))]).await;
    assert!(diff.contains(" text\n+# %% new\n+y\n # %% cell-1\n"), "{diff}");
    let diff = files.diff(vec![("n.ipynb", cell("one", CellChange::Delete))]).await;
    assert!(diff.contains("-# %% one\n-# Title\n-text\n"), "{diff}");
    let diff = files.diff(vec![("n.ipynb", cell("none", CellChange::Replace("z".into())))]).await;
    assert!(diff.ends_with("+z\n"), "{diff}");
}

#[tokio::test]
async fn nothing_to_compare_is_no_diff() {
    assert_eq!(FileDiffs.diff(Vec::new(), PathBuf::from("/")).await, None);
}

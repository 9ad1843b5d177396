//! Feeds any text to the patch parser, and what it reads to any file: a change adds and removes exactly
//! the lines that it names.

#![no_main]

use angelia_executors::native::tools::patch::{FilePatch, HunkLine, apply_hunks, parse_patch};

// The input is a patch and a file, separated by a zero.
libfuzzer_sys::fuzz_target!(|data: &str| {
    let (patch, file) = data.split_once('\0').unwrap_or((data, ""));
    match parse_patch(patch) {
        Ok(files) => files.iter().for_each(|patch| check(patch, file)),
        Err(error) => assert!(error.line >= 1 && !error.what.is_empty()),
    }
});

fn check(patch: &FilePatch, file: &str) {
    assert!(!patch.path().is_empty());
    let FilePatch::Update { hunks, .. } = patch else { return };
    let Ok(changed) = apply_hunks(file, hunks) else { return };
    let count = |wanted: fn(&HunkLine) -> bool| {
        hunks.iter().flat_map(|hunk| &hunk.lines).filter(|line| wanted(line)).count()
    };
    let added = count(|line| matches!(line, HunkLine::Add(_)));
    let removed = count(|line| matches!(line, HunkLine::Remove(_)));
    assert_eq!(lines(&changed) + removed, lines(file) + added, "{file:?} became {changed:?}");
}

/// A text without a last line end has one line more than line ends; an empty one has none.
fn lines(text: &str) -> usize {
    let ends = text.matches('\n').count();
    ends + usize::from(!text.is_empty() && !text.ends_with('\n'))
}

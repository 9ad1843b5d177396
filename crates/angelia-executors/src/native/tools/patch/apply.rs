//! Applies the hunks of an update to the text of a file. Lines are compared exactly first, then
//! without trailing spaces and typographic differences, then also without indentation.
//!
//! The hunks must be in the order of the file's lines. A hunk without a header must match exactly
//! one place; after a header, the first match is used.

use super::parse::{Hunk, HunkLine};
use crate::native::tools::replacement::is_same;

/// Why a hunk cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HunkError {
    #[error(
        "the line `{0}` after `@@` is not in the file (after the change before); read the file and name a line of it"
    )]
    Header(String),
    #[error(
        "these lines are not in the file (after the change before); read the file and quote them exactly:\n{0}"
    )]
    Missing(String),
    #[error(
        "these lines are in the file {places} times; name a line before them with `@@`, or quote more lines:\n{lines}"
    )]
    Ambiguous { places: usize, lines: String },
}

/// Returns the text with all hunks applied. Either all are applied, or none.
pub fn apply_hunks(text: &str, hunks: &[Hunk]) -> Result<String, HunkError> {
    let ends_with_newline = text.is_empty() || text.ends_with('\n');
    let body = text.strip_suffix('\n').unwrap_or(text);
    let old: Vec<&str> = if text.is_empty() { Vec::new() } else { body.split('\n').collect() };
    let mut new: Vec<&str> = Vec::with_capacity(old.len());
    let mut done = 0;
    for hunk in hunks {
        let start = find_start(&old, done, hunk)?;
        new.extend(&old[done..start]);
        done = start;
        for line in &hunk.lines {
            match line {
                // Keep the file's own line, which may differ in spaces.
                HunkLine::Keep(_) => {
                    new.push(old[done]);
                    done += 1;
                }
                HunkLine::Remove(_) => done += 1,
                HunkLine::Add(text) => new.push(text),
            }
        }
    }
    new.extend(&old[done..]);
    let mut text = new.join("\n");
    // An empty last line exists only through its line ending.
    if new.last().is_some_and(|last| ends_with_newline || last.is_empty()) {
        text.push('\n');
    }
    Ok(text)
}

/// Returns the index of the line where a hunk begins, not before `from`.
fn find_start(old: &[&str], from: usize, hunk: &Hunk) -> Result<usize, HunkError> {
    let mut after = from;
    for header in &hunk.headers {
        let found = place_of(old, after, &[header]).first().copied();
        after = found.ok_or_else(|| HunkError::Header(header.clone()))? + 1;
    }
    let wanted: Vec<&str> = hunk.lines.iter().filter_map(old_text).collect();
    if wanted.is_empty() {
        // The hunk only adds lines: after the header, or at the end.
        let at_end = hunk.headers.is_empty() || hunk.at_end;
        return Ok(if at_end { old.len() } else { after });
    }
    if hunk.at_end
        && let Some(last) = old.len().checked_sub(wanted.len())
        && last >= after
        && fits(&old[last..], &wanted).is_some()
    {
        return Ok(last);
    }
    // The header may also be the first line of the hunk.
    let mut places = place_of(old, after, &wanted);
    if places.is_empty() && after > from {
        places = place_of(old, after - 1, &wanted);
    }
    match places[..] {
        [] => Err(HunkError::Missing(wanted.join("\n"))),
        [first, ..] if places.len() == 1 || !hunk.headers.is_empty() => Ok(first),
        _ => Err(HunkError::Ambiguous { places: places.len(), lines: wanted.join("\n") }),
    }
}

fn old_text(line: &HunkLine) -> Option<&str> {
    match line {
        HunkLine::Keep(text) | HunkLine::Remove(text) => Some(text),
        HunkLine::Add(_) => None,
    }
}

/// Returns the places where the lines match best, not before `from`.
fn place_of(old: &[&str], from: usize, wanted: &[impl AsRef<str>]) -> Vec<usize> {
    let wanted: Vec<&str> = wanted.iter().map(AsRef::as_ref).collect();
    let Some(last) = old.len().checked_sub(wanted.len()) else { return Vec::new() };
    let fitting: Vec<(usize, Likeness)> =
        (from..=last).filter_map(|at| Some((at, fits(&old[at..], &wanted)?))).collect();
    let best = fitting.iter().map(|(_, likeness)| *likeness).min();
    fitting.iter().filter(|(_, one)| Some(*one) == best).map(|(at, _)| *at).collect()
}

/// How similar two lines are, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Likeness {
    Exact,
    SpacesAtEnd,
    Indentation,
}

fn fits(lines: &[&str], wanted: &[&str]) -> Option<Likeness> {
    if lines.len() < wanted.len() {
        return None;
    }
    let mut worst = Likeness::Exact;
    for (line, wanted) in lines.iter().zip(wanted) {
        let likeness = if line == wanted {
            Likeness::Exact
        } else if is_same(line, wanted) {
            Likeness::SpacesAtEnd
        } else if is_same(line.trim_start(), wanted.trim_start()) {
            Likeness::Indentation
        } else {
            return None;
        };
        worst = worst.max(likeness);
    }
    Some(worst)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        super::parse::{FilePatch, parse_patch},
        *,
    };

    fn apply(text: &str, update: &str) -> Result<String, HunkError> {
        let patch = format!("*** Begin Patch\n*** Update File: a\n{update}\n*** End Patch");
        match parse_patch(&patch).unwrap().remove(0) {
            FilePatch::Update { hunks, .. } => apply_hunks(text, &hunks),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn hunks_change_what_they_name() {
        let file = "fn a() {\n    x();\n}\n\nfn b() {\n    x();\n}\n";
        assert_eq!(
            apply(file, "@@ fn b() {\n-    x();\n+    y();").unwrap(),
            "fn a() {\n    x();\n}\n\nfn b() {\n    y();\n}\n"
        );
        assert_eq!(
            apply(file, " fn b() {\n-    x();\n+    y();").unwrap(),
            "fn a() {\n    x();\n}\n\nfn b() {\n    y();\n}\n"
        );
        let both = apply(file, "@@ fn a() {\n-    x();\n@@ fn b() {\n+    w();\n     x();");
        assert_eq!(both.unwrap(), "fn a() {\n}\n\nfn b() {\n    w();\n    x();\n}\n");
        assert_eq!(apply("a\nb", "-b\n+c").unwrap(), "a\nc", "no newline is added");
        assert_eq!(apply("", "+a").unwrap(), "a\n");
        assert_eq!(apply("a\n", "-a").unwrap(), "");
        assert_eq!(apply("a\nx\nb\nx\n", "-x\n*** End of File").unwrap(), "a\nx\nb\n");
        assert_eq!(apply("a\n", "+end").unwrap(), "a\nend\n");
        assert_eq!(apply("a\nb\n", "@@ a\n+mid").unwrap(), "a\nmid\nb\n");
    }

    #[test]
    fn spaces_may_differ_and_the_files_own_lines_are_kept() {
        assert_eq!(apply("if x: \n\ty\n", " if x:\n-    y\n+\tz").unwrap(), "if x: \n\tz\n");
        // The exact place wins over one that differs in its indentation.
        assert_eq!(apply("  a\na\n", "-a\n+b").unwrap(), "  a\nb\n");
    }

    #[test]
    fn what_does_not_fit_in_one_place_is_refused() {
        let error = apply("x\ny\nx\n", "-x\n+z").unwrap_err();
        assert!(matches!(error, HunkError::Ambiguous { places: 2, .. }), "{error}");
        let error = apply("x\n", "-y").unwrap_err();
        assert!(matches!(error, HunkError::Missing(_)), "{error}");
        let error = apply("x\n", "@@ y\n-x").unwrap_err();
        assert!(matches!(error, HunkError::Header(_)), "{error}");
        // The second change is before the first one.
        assert!(apply("a\nb\n", "-b\n+c\n@@\n-a\n+d").is_err());
    }

    proptest! {
        /// Exactly the lines that the hunk names are added and removed.
        #[test]
        fn the_number_of_lines_is_right(
            file in "[ab\n ]{0,12}", removed in proptest::collection::vec("[ab ]{0,2}", 0..3),
            added in proptest::collection::vec("[xy]{0,2}", 1..3),
        ) {
            let lines = removed.iter().cloned().map(HunkLine::Remove);
            let lines = lines.chain(added.iter().cloned().map(HunkLine::Add)).collect();
            let count = |text: &str| text.split_inclusive('\n').count();
            if let Ok(changed) = apply_hunks(&file, &[Hunk { lines, ..Hunk::default() }]) {
                prop_assert_eq!(count(&changed) + removed.len(), count(&file) + added.len());
            }
        }

        /// A patch made from two versions of a file leads from one to the other.
        #[test]
        fn a_patch_of_the_whole_file_is_applied(
            old in proptest::collection::vec("[a-c ]{0,3}", 1..8),
            new in proptest::collection::vec("[a-c ]{0,3}", 1..8),
        ) {
            let lines = old.iter().map(|line| HunkLine::Remove(line.clone()));
            let lines = lines.chain(new.iter().map(|line| HunkLine::Add(line.clone()))).collect();
            let hunk = Hunk { headers: vec![], lines, at_end: false };
            let text = old.join("\n") + "\n";
            prop_assert_eq!(apply_hunks(&text, &[hunk]), Ok(new.join("\n") + "\n"));
        }
    }
}

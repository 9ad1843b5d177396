//! Parses the text of a patch into changes to files. What models add around it (a here-document,
//! blank lines, line numbers of a unified diff) is ignored; everything else that does not fit is an
//! error with its line.

/// A change to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilePatch {
    Add { path: String, content: String },
    Delete { path: String },
    Update { path: String, move_to: Option<String>, hunks: Vec<Hunk> },
}

impl FilePatch {
    pub fn path(&self) -> &str {
        match self {
            Self::Add { path, .. } | Self::Delete { path } | Self::Update { path, .. } => path,
        }
    }
}

/// A change to consecutive lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hunk {
    /// The texts after `@@`: lines that occur somewhere before the change, in this order.
    pub headers: Vec<String>,
    pub lines: Vec<HunkLine>,
    /// The change is at the end of the file.
    pub at_end: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HunkLine {
    Keep(String),
    Remove(String),
    Add(String),
}

/// Why a text is not a patch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the patch: {what}")]
pub struct PatchError {
    /// Counted from 1.
    pub line: usize,
    pub what: &'static str,
}

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const ADD: &str = "*** Add File: ";
const DELETE: &str = "*** Delete File: ";
const UPDATE: &str = "*** Update File: ";
const MOVE: &str = "*** Move to: ";
const END_OF_FILE: &str = "*** End of File";
const HEADER: &str = "@@";

/// Parses a patch.
pub fn parse_patch(text: &str) -> Result<Vec<FilePatch>, PatchError> {
    let mut lines = PatchLines { lines: text.lines().collect(), next: 0 };
    while lines.peek().is_some_and(|line| line.trim() != BEGIN) {
        // Only the start of a here-document or a fence may precede the patch.
        let line = lines.peek().map(str::trim).unwrap_or_default();
        if !(line.is_empty() || line.contains("<<") || line.starts_with("```")) {
            break;
        }
        lines.next += 1;
    }
    if lines.peek().map(str::trim) != Some(BEGIN) {
        return Err(lines.error("the patch must begin with `*** Begin Patch`"));
    }
    lines.next += 1;
    let mut files = Vec::new();
    loop {
        let Some(line) = lines.peek() else {
            return Err(lines.error("the patch must end with `*** End Patch`; it seems cut off"));
        };
        if line.trim() == END {
            break;
        } else if line.trim().is_empty() {
            lines.next += 1;
        } else {
            files.push(lines.file_patch(line)?);
        }
    }
    if files.is_empty() {
        return Err(lines.error("the patch changes no file"));
    }
    Ok(files)
}

struct PatchLines<'a> {
    lines: Vec<&'a str>,
    next: usize,
}

impl<'a> PatchLines<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.next).copied()
    }

    fn error(&self, what: &'static str) -> PatchError {
        PatchError { line: (self.next + 1).min(self.lines.len().max(1)), what }
    }

    /// Returns whether the next line begins another file or ends the patch.
    fn is_at_marker(&self) -> bool {
        self.peek().is_none_or(|line| {
            let line = line.trim_end();
            line == END || [ADD, DELETE, UPDATE].iter().any(|marker| line.starts_with(marker))
        })
    }

    fn file_patch(&mut self, line: &str) -> Result<FilePatch, PatchError> {
        let path_after =
            |marker: &str| line.strip_prefix(marker).map(|path| path.trim().to_owned());
        let kinds = [ADD, DELETE, UPDATE].map(path_after);
        if kinds.iter().flatten().any(String::is_empty) {
            return Err(self.error("the path is missing"));
        }
        let patch = match kinds {
            [Some(path), ..] => {
                self.next += 1;
                FilePatch::Add { path, content: self.added_content()? }
            }
            [_, Some(path), _] => {
                self.next += 1;
                FilePatch::Delete { path }
            }
            [_, _, Some(path)] => {
                self.next += 1;
                let move_to = self.peek().and_then(|line| line.strip_prefix(MOVE));
                let move_to = move_to.map(|path| path.trim().to_owned());
                if move_to.is_some() {
                    self.next += 1;
                }
                let hunks = self.hunks()?;
                if hunks.is_empty() && move_to.is_none() {
                    return Err(self.error("the update has no changes"));
                }
                FilePatch::Update { path, move_to, hunks }
            }
            _ => {
                return Err(self.error(
                    "expected `*** Add File: `, `*** Update File: ` or `*** Delete File: ` with a path",
                ));
            }
        };
        Ok(patch)
    }

    fn added_content(&mut self) -> Result<String, PatchError> {
        let mut content = String::new();
        while !self.is_at_marker() {
            let line = self.peek().unwrap_or_default();
            match line.strip_prefix('+') {
                Some(text) => {
                    content.push_str(text);
                    content.push('\n');
                }
                // A blank line without its `+`, usually at the end of the content.
                None if line.trim().is_empty() => {}
                None => return Err(self.error("every line of a new file begins with `+`")),
            }
            self.next += 1;
        }
        Ok(content)
    }

    fn hunks(&mut self) -> Result<Vec<Hunk>, PatchError> {
        let mut hunks = Vec::new();
        let mut hunk = Hunk::default();
        while !self.is_at_marker() {
            let line = self.peek().unwrap_or_default();
            let closed = !hunk.lines.is_empty();
            if let Some(header) = line.strip_prefix(HEADER) {
                if closed {
                    hunks.push(std::mem::take(&mut hunk));
                }
                let header = header_text(header);
                hunk.headers.extend((!header.is_empty()).then(|| header.to_owned()));
            } else if line.trim_end() == END_OF_FILE {
                if !closed {
                    return Err(self.error("`*** End of File` must follow the lines of a change"));
                }
                hunk.at_end = true;
                hunks.push(std::mem::take(&mut hunk));
            } else {
                hunk.lines.push(self.hunk_line(line)?);
            }
            self.next += 1;
        }
        remove_blank_end(&mut hunk);
        if !hunk.lines.is_empty() {
            hunks.push(hunk);
        } else if !hunk.headers.is_empty() {
            return Err(self.error("no change follows the `@@` line"));
        }
        let changes = |line: &HunkLine| !matches!(line, HunkLine::Keep(_));
        if hunks.iter().any(|hunk| !hunk.lines.iter().any(changes)) {
            return Err(self.error("a part of the update has neither `+` nor `-` lines"));
        }
        Ok(hunks)
    }

    fn hunk_line(&self, line: &str) -> Result<HunkLine, PatchError> {
        let mut characters = line.chars();
        let first = characters.next();
        let rest = characters.as_str().to_owned();
        match first {
            // Editors and models drop the space of an empty line.
            None => Ok(HunkLine::Keep(String::new())),
            Some(' ') => Ok(HunkLine::Keep(rest)),
            Some('+') => Ok(HunkLine::Add(rest)),
            Some('-') => Ok(HunkLine::Remove(rest)),
            Some(_) => Err(self.error(
                "expected a line that begins with a space, `+` or `-`, or `@@` with a line of the file",
            )),
        }
    }
}

/// Returns the text after `@@`, without the line numbers of a unified diff.
fn header_text(header: &str) -> &str {
    let text = header.strip_prefix(' ').unwrap_or(header).trim_end();
    match text.strip_prefix('-').and_then(|rest| rest.split_once("@@")) {
        Some((numbers, after))
            if numbers.chars().all(|c| c.is_ascii_digit() || " ,+-".contains(c)) =>
        {
            after.strip_prefix(' ').unwrap_or(after)
        }
        _ => text,
    }
}

/// Removes blank lines before the next marker, which are not lines of the file.
fn remove_blank_end(hunk: &mut Hunk) {
    while matches!(hunk.lines.last(), Some(HunkLine::Keep(text)) if text.is_empty()) {
        hunk.lines.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(text: &str) -> HunkLine {
        HunkLine::Keep(text.into())
    }

    #[test]
    fn all_kinds_of_changes_are_read() {
        let patch = "*** Begin Patch\n*** Add File: new.txt\n+one\n+\n+ two\n*** Delete File: old.txt\n\
                     *** Update File: a b.rs\n*** Move to: c.rs\n@@ fn main() {\n keep\n-old\n+new\n\n+x\n\
                     @@\n-last\n*** End of File\n*** End Patch\n";
        let expected = vec![
            FilePatch::Add { path: "new.txt".into(), content: "one\n\n two\n".into() },
            FilePatch::Delete { path: "old.txt".into() },
            FilePatch::Update {
                path: "a b.rs".into(),
                move_to: Some("c.rs".into()),
                hunks: vec![
                    Hunk {
                        headers: vec!["fn main() {".into()],
                        lines: vec![
                            keep("keep"),
                            HunkLine::Remove("old".into()),
                            HunkLine::Add("new".into()),
                            keep(""),
                            HunkLine::Add("x".into()),
                        ],
                        at_end: false,
                    },
                    Hunk {
                        headers: vec![],
                        lines: vec![HunkLine::Remove("last".into())],
                        at_end: true,
                    },
                ],
            },
        ];
        assert_eq!(parse_patch(patch), Ok(expected.clone()));
        let wrapped = format!("apply_patch <<'EOF'\n{patch}EOF\n");
        assert_eq!(parse_patch(&wrapped), Ok(expected));
    }

    #[test]
    fn what_models_add_is_left_out() {
        let patch = "\n*** Begin Patch\n*** Update File: a\n@@ -1,2 +1,2 @@ fn x()\n@@ inner\n-a\n+b\n\n*** End Patch";
        let hunks = match &parse_patch(patch).unwrap()[0] {
            FilePatch::Update { hunks, .. } => hunks.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(hunks[0].headers, ["fn x()", "inner"]);
        assert_eq!(hunks[0].lines.len(), 2);
        assert_eq!(header_text(" -1,2 +3,4 @@"), "");
        assert_eq!(header_text(" - item @@ x"), "- item @@ x");
    }

    #[test]
    fn what_does_not_fit_is_an_error_with_its_line() {
        let table = [
            ("", 1, "begin with"),
            ("*** Update File: a", 1, "begin with"),
            ("*** Begin Patch\n*** End Patch", 2, "changes no file"),
            ("*** Begin Patch\n*** Delete File: a", 2, "cut off"),
            ("*** Begin Patch\n*** Delete File:  \n*** End Patch", 2, "path is missing"),
            ("*** Begin Patch\nwhat\n*** End Patch", 2, "expected `*** Add File"),
            ("*** Begin Patch\n*** Add File: a\n+x\ny\n*** End Patch", 4, "begins with `+`"),
            ("*** Begin Patch\n*** Update File: a\n*** End Patch", 3, "no changes"),
            ("*** Begin Patch\n*** Update File: a\n@@ x\n*** End Patch", 4, "no change follows"),
            ("*** Begin Patch\n*** Update File: a\n x\n*** End Patch", 4, "neither `+` nor `-`"),
            ("*** Begin Patch\n*** Update File: a\nx\n*** End Patch", 3, "begins with a space"),
            (
                "*** Begin Patch\n*** Update File: a\n*** End of File\n*** End Patch",
                3,
                "must follow",
            ),
        ];
        for (patch, line, what) in table {
            let error = parse_patch(patch).unwrap_err();
            assert_eq!(error.line, line, "{patch}: {error}");
            assert!(error.what.contains(what), "{patch}: {error}");
        }
    }
}

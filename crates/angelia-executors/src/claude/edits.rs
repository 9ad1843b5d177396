//! The changes that a call to one of the CLI's file tools makes, for the diff that people see when
//! they decide.

use std::path::Path;

use angelia_core::model::{CellChange, FileChange, FileEdit, TextReplacement};

use super::{access::expand_home, tool::ToolInput};

/// Returns the changes that a call makes. `home` is the CLI's `HOME`, because its file tools expand
/// `~`.
pub(super) fn file_edits(tool: &str, input: &ToolInput<'_>, home: &Path) -> Vec<FileEdit> {
    let Some(path) = input.path().map(|path| expand_home(path, home)) else {
        return Vec::new();
    };
    let changes: Vec<FileChange> = match tool {
        "Write" => {
            input.content.as_str().map(|text| FileChange::Write(text.into())).into_iter().collect()
        }
        "Edit" => replacement(input).into_iter().collect(),
        "MultiEdit" => input.edits.0.iter().flatten().filter_map(replacement).collect(),
        "NotebookEdit" => cell_change(input).into_iter().collect(),
        _ => Vec::new(),
    };
    changes.into_iter().map(|change| FileEdit { path: path.clone(), change }).collect()
}

fn replacement(input: &ToolInput<'_>) -> Option<FileChange> {
    Some(FileChange::Replace(TextReplacement {
        old: input.old_string.as_str()?.into(),
        new: input.new_string.as_str()?.into(),
        all: input.replace_all.get().unwrap_or(false),
    }))
}

fn cell_change(input: &ToolInput<'_>) -> Option<FileChange> {
    let source = || input.new_source.as_str().map(Into::into);
    let change = match input.edit_mode.as_str() {
        Some("delete") => CellChange::Delete,
        Some("insert") => CellChange::Insert(source()?),
        _ => CellChange::Replace(source()?),
    };
    Some(FileChange::Cell { id: input.cell_id.as_str().map(Into::into), change })
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    fn edits(tool: &str, json: &str) -> Vec<FileEdit> {
        let raw = RawValue::from_string(json.to_owned()).unwrap();
        file_edits(tool, &ToolInput::parse(&raw), Path::new("/home/u"))
    }

    fn replace(old: &str, new: &str, all: bool) -> FileChange {
        FileChange::Replace(TextReplacement { old: old.into(), new: new.into(), all })
    }

    #[test]
    fn file_tools_say_what_they_change() {
        let edit = |path: &str, change| FileEdit { path: path.into(), change };
        let cell = |change| FileChange::Cell { id: Some("c1".into()), change };
        let cases = [
            (
                "Write",
                r#"{"file_path":"~/a","content":"x"}"#,
                vec![edit("/home/u/a", FileChange::Write("x".into()))],
            ),
            (
                "Edit",
                r#"{"file_path":"/a","old_string":"x","new_string":""}"#,
                vec![edit("/a", replace("x", "", false))],
            ),
            (
                "MultiEdit",
                r#"{"file_path":"/a","edits":[{"old_string":"x","new_string":"y","replace_all":true},
                    {"old_string":"1","new_string":"2"}]}"#,
                vec![edit("/a", replace("x", "y", true)), edit("/a", replace("1", "2", false))],
            ),
            (
                "NotebookEdit",
                r#"{"notebook_path":"/n.ipynb","cell_id":"c1","new_source":"x"}"#,
                vec![edit("/n.ipynb", cell(CellChange::Replace("x".into())))],
            ),
            (
                "NotebookEdit",
                r#"{"notebook_path":"/n.ipynb","cell_id":"c1","new_source":"","edit_mode":"delete"}"#,
                vec![edit("/n.ipynb", cell(CellChange::Delete))],
            ),
            ("Read", r#"{"file_path":"/a","content":"x"}"#, vec![]),
            ("Write", r#"{"file_path":"/a","content":7}"#, vec![]),
            ("Edit", r#"{"old_string":"x","new_string":"y"}"#, vec![]),
        ];
        for (tool, json, expected) in cases {
            assert_eq!(edits(tool, json), expected, "{tool} {json}");
        }
    }
}

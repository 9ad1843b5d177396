//! The display of a tool call in an editor: its kind, the files that it touches, and the changes
//! that it makes. All of this is derived from the shape of the tool's input, because agents name
//! their tools differently: a path and two texts are an edit, whatever the tool is called. Input of
//! an unknown shape is shown unchanged.

use std::{
    borrow::Cow,
    collections::HashMap,
    path::{Path, PathBuf},
};

use angelia_core::model::ToolClass;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The field names that agents use for the file of a tool call.
const PATH_FIELDS: [&str; 4] = ["file_path", "notebook_path", "path", "abs_path"];

/// The display of a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolDisplay {
    pub kind: &'static str,
    pub locations: Vec<ToolLocation>,
    pub diffs: Vec<Diff>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ToolLocation {
    pub path: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

/// A part of a file before and after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diff {
    pub path: PathBuf,
    /// `None` if the file is new or its old content is unknown.
    pub old: Option<String>,
    pub new: String,
}

type Fields<'a> = HashMap<Cow<'a, str>, &'a RawValue>;

impl ToolDisplay {
    /// Derives the display from a tool's input. Relative paths are resolved against `cwd`.
    pub fn from_input(class: ToolClass, input: &RawValue, cwd: &Path) -> Self {
        let fields: Fields<'_> = serde_json::from_str(input.get()).unwrap_or_default();
        let changes = parse_changes(&fields, cwd);
        if class == ToolClass::Edit && !changes.is_empty() {
            return Self::from_changes(&changes);
        }
        let path = PATH_FIELDS.iter().find_map(|name| text_field(&fields, name));
        let path = path.map(|path| cwd.join(&*path));
        let line = number_field(&fields, "offset").or_else(|| number_field(&fields, "line"));
        let locations = path.iter().map(|path| ToolLocation {
            path: path.clone(),
            line: line.filter(|_| class == ToolClass::Read),
        });
        let diffs = match (&path, class) {
            (Some(path), ToolClass::Edit) => edit_diffs(&fields, path),
            _ => Vec::new(),
        };
        Self { kind: display_kind(class, &fields), locations: locations.collect(), diffs }
    }

    fn from_changes(changes: &[PatchedFile]) -> Self {
        let only = |verb: &str| changes.iter().all(|change| change.verb == verb);
        let kind = if only("delete") { "delete" } else { "edit" };
        let location = |change: &PatchedFile| ToolLocation {
            path: change.moved_to.as_ref().unwrap_or(&change.path).clone(),
            line: change.line,
        };
        Self {
            kind,
            locations: changes.iter().map(location).collect(),
            diffs: changes.iter().flat_map(PatchedFile::diffs).collect(),
        }
    }
}

fn display_kind(class: ToolClass, fields: &Fields<'_>) -> &'static str {
    match class {
        ToolClass::Read if fields.contains_key("pattern") || fields.contains_key("query") => {
            "search"
        }
        ToolClass::Read => "read",
        ToolClass::Edit => "edit",
        ToolClass::Execute => "execute",
        ToolClass::Other if fields.contains_key("url") => "fetch",
        ToolClass::Other if fields.contains_key("query") => "search",
        // A subagent gets its own prompt.
        ToolClass::Other if fields.contains_key("prompt") => "think",
        ToolClass::Other => "other",
    }
}

fn text_field<'a>(fields: &Fields<'a>, name: &str) -> Option<Cow<'a, str>> {
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    let text: Text<'a> = serde_json::from_str(fields.get(name)?.get()).ok()?;
    Some(text.0).filter(|text| !text.is_empty())
}

fn number_field(fields: &Fields<'_>, name: &str) -> Option<u32> {
    serde_json::from_str(fields.get(name)?.get()).ok()
}

/// Returns the diffs of an edit tool: one edit, several edits of one file, or a whole file.
fn edit_diffs(fields: &Fields<'_>, path: &Path) -> Vec<Diff> {
    if let Some(list) = fields.get("edits") {
        let list: Vec<Fields<'_>> = serde_json::from_str(list.get()).unwrap_or_default();
        return list.iter().flat_map(|one| edit_diffs(one, path)).collect();
    }
    let new = ["new_string", "content", "new_source", "new_text"]
        .iter()
        .find_map(|name| Some((*name, fields.get(*name)?)));
    let Some((_, raw)) = new else {
        return Vec::new();
    };
    // The new text may be empty if the edit only removes something.
    let Ok(new) = serde_json::from_str::<String>(raw.get()) else {
        return Vec::new();
    };
    let old = text_field(fields, "old_string").or_else(|| text_field(fields, "old_text"));
    vec![Diff { path: path.to_owned(), old: old.map(Cow::into_owned), new }]
}

/// The change to one file of a patch.
struct PatchedFile {
    verb: String,
    path: PathBuf,
    moved_to: Option<PathBuf>,
    line: Option<u32>,
    patch: String,
}

/// Parses the files of a patch: `[{"path", "kind": {"type", "move_path"}, "diff"}]`.
fn parse_changes(fields: &Fields<'_>, cwd: &Path) -> Vec<PatchedFile> {
    #[derive(Deserialize)]
    struct ChangeJson {
        path: String,
        #[serde(default)]
        kind: ChangeKindJson,
        #[serde(default)]
        diff: String,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct ChangeKindJson {
        r#type: String,
        move_path: Option<String>,
    }
    let Some(list) = fields.get("changes") else {
        return Vec::new();
    };
    let list: Vec<ChangeJson> = serde_json::from_str(list.get()).unwrap_or_default();
    let change = |one: ChangeJson| PatchedFile {
        line: first_hunk_line(&one.diff),
        verb: one.kind.r#type,
        path: cwd.join(one.path),
        moved_to: one.kind.move_path.map(|path| cwd.join(path)),
        patch: one.diff,
    };
    list.into_iter().map(change).collect()
}

/// Returns the line of the first hunk in the new file: 3 in `@@ -1,2 +3,4 @@`.
fn first_hunk_line(patch: &str) -> Option<u32> {
    let head = patch.lines().find(|line| line.starts_with("@@"))?;
    let (_, new) = head.split_once('+')?;
    new.split([',', ' ']).next()?.parse().ok()
}

impl PatchedFile {
    fn diffs(&self) -> Vec<Diff> {
        let path = self.moved_to.as_ref().unwrap_or(&self.path);
        let diff = |old: Option<String>, new: String| Diff { path: path.clone(), old, new };
        match self.verb.as_str() {
            "add" => vec![diff(None, self.patch.clone())],
            "delete" => vec![diff(Some(self.patch.clone()), String::new())],
            _ => hunks(&self.patch).into_iter().map(|(old, new)| diff(Some(old), new)).collect(),
        }
    }
}

/// Returns the old and the new text of every hunk of a unified diff.
fn hunks(patch: &str) -> Vec<(String, String)> {
    let mut hunks: Vec<(String, String)> = Vec::new();
    for line in patch.split_inclusive('\n') {
        if line.starts_with("@@") {
            hunks.push(Default::default());
            continue;
        }
        // Skip the headers before the first hunk.
        let Some((old, new)) = hunks.last_mut() else {
            continue;
        };
        match line.split_at_checked(1) {
            Some(("-", rest)) => old.push_str(rest),
            Some(("+", rest)) => new.push_str(rest),
            Some((" ", rest)) => {
                old.push_str(rest);
                new.push_str(rest);
            }
            _ => {}
        }
    }
    hunks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(class: ToolClass, input: &str) -> ToolDisplay {
        let input = RawValue::from_string(input.to_owned()).unwrap();
        ToolDisplay::from_input(class, &input, Path::new("/w"))
    }

    #[test]
    fn an_edit_is_a_diff_at_its_file() {
        let edit = look(
            ToolClass::Edit,
            r#"{"file_path":"/w/a.rs","old_string":"x\n","new_string":"y\n"}"#,
        );
        assert_eq!(edit.kind, "edit");
        assert_eq!(edit.locations[0].path, Path::new("/w/a.rs"));
        let [diff] = &*edit.diffs else { panic!() };
        assert_eq!((diff.old.as_deref(), &*diff.new), (Some("x\n"), "y\n"));
    }

    #[test]
    fn a_new_file_was_nothing_before_and_a_removal_is_nothing_after() {
        let write = look(ToolClass::Edit, r#"{"file_path":"b","content":"new"}"#);
        assert_eq!(write.diffs[0].old, None);
        assert_eq!(write.diffs[0].path, Path::new("/w/b"));
        let removal = r#"{"file_path":"b","old_string":"gone","new_string":""}"#;
        assert_eq!(look(ToolClass::Edit, removal).diffs[0].new, "");
    }

    #[test]
    fn several_edits_are_several_diffs() {
        let input = r#"{"file_path":"/w/a","edits":[{"old_string":"1","new_string":"2"},
            {"old_string":"3","new_string":"4"}]}"#;
        assert_eq!(look(ToolClass::Edit, input).diffs.len(), 2);
    }

    #[test]
    fn a_patch_is_told_hunk_by_hunk() {
        let input = r#"{"changes":[
            {"path":"a","kind":{"type":"update","move_path":"c"},
             "diff":"--- a\n+++ b\n@@ -1,2 +7,2 @@\n one\n-x\n+y\n@@ -9 +9 @@\n-z\n"},
            {"path":"/w/n","kind":{"type":"add"},"diff":"1\n"},
            {"path":"/w/d","kind":{"type":"delete"},"diff":"2\n"}]}"#;
        let patch = look(ToolClass::Edit, input);
        let place = |path: &str, line| ToolLocation { path: path.into(), line };
        let places = [place("/w/c", Some(7)), place("/w/n", None), place("/w/d", None)];
        assert_eq!(patch.locations, places);
        let sides: Vec<_> =
            (patch.diffs.iter()).map(|diff| (diff.old.as_deref(), &*diff.new)).collect();
        let expected =
            [(Some("one\nx\n"), "one\ny\n"), (Some("z\n"), ""), (None, "1\n"), (Some("2\n"), "")];
        assert_eq!(sides, expected);
    }

    #[test]
    fn what_only_looks_is_no_edit() {
        let read = look(ToolClass::Read, r#"{"file_path":"/w/a","offset":12}"#);
        assert_eq!((read.kind, read.locations[0].line), ("read", Some(12)));
        assert!(read.diffs.is_empty());
        assert_eq!(look(ToolClass::Read, r#"{"pattern":"x"}"#).kind, "search");
        assert_eq!(look(ToolClass::Other, r#"{"url":"http://x"}"#).kind, "fetch");
    }

    #[test]
    fn any_input_has_a_look() {
        for odd in [
            "null",
            "[]",
            "3",
            r#"{"file_path":7,"content":[]}"#,
            r#"{"changes":"x"}"#,
            r#"{"file_path":"a","edits":{}}"#,
        ] {
            let look = look(ToolClass::Edit, odd);
            assert!(look.diffs.is_empty(), "{odd}");
            assert_eq!(look.kind, "edit");
        }
    }
}

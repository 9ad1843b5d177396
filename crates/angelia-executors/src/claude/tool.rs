//! The CLI's tools by name: their classes, and one-line titles for their calls.

use std::{borrow::Cow, sync::Arc};

use angelia_core::model::ToolClass;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::protocol::incoming::{BorrowedStr, Lenient};
use crate::truncation::first_line;

/// The tool that asks the user questions.
pub(crate) const ASK_USER_QUESTION: &str = "AskUserQuestion";

/// Tools that are not in the table, including those of MCP servers, are `Other`, because we do not
/// know what they do. Reading the web sends data to others, so it does not count as reading.
const TOOL_CLASSES: &[(&str, ToolClass)] = &[
    ("Read", ToolClass::Read),
    ("Glob", ToolClass::Read),
    ("Grep", ToolClass::Read),
    ("LS", ToolClass::Read),
    ("NotebookRead", ToolClass::Read),
    ("LSP", ToolClass::Read),
    ("Edit", ToolClass::Edit),
    ("MultiEdit", ToolClass::Edit),
    ("Write", ToolClass::Edit),
    ("NotebookEdit", ToolClass::Edit),
    ("Bash", ToolClass::Execute),
    ("PowerShell", ToolClass::Execute),
    ("BashOutput", ToolClass::Execute),
    ("KillShell", ToolClass::Execute),
    ("KillBash", ToolClass::Execute),
    ("Monitor", ToolClass::Execute),
    ("TaskStop", ToolClass::Execute),
];

pub(crate) fn tool_class(name: &str) -> ToolClass {
    (TOOL_CLASSES.iter().find(|(known, _)| *known == name))
        .map_or(ToolClass::Other, |(_, class)| *class)
}

/// The fields of a tool's input that describe the call.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(crate) struct ToolInput<'a> {
    command: Lenient<BorrowedStr<'a>>,
    file_path: Lenient<BorrowedStr<'a>>,
    #[serde(rename = "filePath")]
    file_path_camel_case: Lenient<BorrowedStr<'a>>,
    notebook_path: Lenient<BorrowedStr<'a>>,
    path: Lenient<BorrowedStr<'a>>,
    pattern: Lenient<BorrowedStr<'a>>,
    url: Lenient<BorrowedStr<'a>>,
    query: Lenient<BorrowedStr<'a>>,
    description: Lenient<BorrowedStr<'a>>,
    skill: Lenient<BorrowedStr<'a>>,
    subject: Lenient<BorrowedStr<'a>>,
    plan: Lenient<BorrowedStr<'a>>,
    pub(super) old_string: Lenient<BorrowedStr<'a>>,
    pub(super) new_string: Lenient<BorrowedStr<'a>>,
    pub(super) replace_all: Lenient<bool>,
    pub(super) content: Lenient<BorrowedStr<'a>>,
    pub(super) cell_id: Lenient<BorrowedStr<'a>>,
    pub(super) new_source: Lenient<BorrowedStr<'a>>,
    pub(super) edit_mode: Lenient<BorrowedStr<'a>>,
    pub(super) edits: Lenient<Vec<ToolInput<'a>>>,
}

impl<'a> ToolInput<'a> {
    pub(crate) fn parse(raw: &'a RawValue) -> Self {
        serde_json::from_str(raw.get()).unwrap_or_default()
    }

    pub(crate) fn command(&self) -> Option<&str> {
        self.command.as_str()
    }

    pub(crate) fn path(&self) -> Option<&str> {
        self.paths().next()
    }

    /// Returns every path in the input.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        [&self.file_path, &self.notebook_path, &self.file_path_camel_case, &self.path]
            .into_iter()
            .filter_map(Lenient::as_str)
    }

    pub(crate) fn pattern(&self) -> Option<&str> {
        self.pattern.as_str()
    }

    pub(crate) fn url(&self) -> Option<&str> {
        self.url.as_str()
    }

    pub(crate) fn description(&self) -> Option<&str> {
        self.description.as_str()
    }

    pub(crate) fn plan(&self) -> Option<&str> {
        self.plan.as_str()
    }

    /// Returns the string that permission patterns match against: a command, a path or a URL.
    pub(crate) fn pattern_subject(&self, name: &str) -> Option<&str> {
        match name {
            "Bash" | "PowerShell" | "Monitor" => self.command(),
            "WebFetch" => self.url(),
            "WebSearch" => self.query.as_str(),
            "Skill" => self.skill.as_str(),
            _ if name.starts_with("mcp__") => None,
            _ => match tool_class(name) {
                ToolClass::Read | ToolClass::Edit => self.path(),
                ToolClass::Execute | ToolClass::Other => None,
            },
        }
    }

    /// Returns a one-line title for people. It is never empty.
    pub(crate) fn title(&self, name: &str) -> Arc<str> {
        let pattern_first = matches!(name, "Glob" | "Grep");
        let about = [
            self.command(),
            self.pattern.as_str().filter(|_| pattern_first),
            self.path(),
            self.pattern.as_str(),
            self.url(),
            self.query.as_str(),
            self.skill.as_str(),
            self.subject.as_str(),
            self.description(),
        ];
        let line = about.into_iter().flatten().find_map(first_line);
        match line {
            // A command needs no tool name in front; everything else does.
            Some(line) if self.command.0.is_some() => line.into(),
            Some(line) => format!("{} {line}", display_name(name)).into(),
            None => display_name(name).into(),
        }
    }

    /// Returns the numbers of added and removed lines if the input is an edit.
    pub(crate) fn line_counts(&self) -> Option<(usize, usize)> {
        let whole = self.content.as_str().or(self.new_source.as_str());
        if let Some(edits) = &self.edits.0 {
            let counts = edits.iter().filter_map(ToolInput::line_counts);
            return Some(counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1)));
        }
        match (self.old_string.as_str(), self.new_string.as_str(), whole) {
            (None, None, None) => None,
            (None, None, Some(whole)) => Some((whole.lines().count(), 0)),
            (old, new, _) => Some(changed_lines(old.unwrap_or(""), new.unwrap_or(""))),
        }
    }
}

/// Returns the display name: `mcp__docs__search` becomes `docs: search`.
fn display_name(name: &str) -> Cow<'_, str> {
    let mcp = name.strip_prefix("mcp__").and_then(|rest| rest.split_once("__"));
    match mcp {
        Some((server, tool)) => format!("{server}: {tool}").into(),
        None if name.is_empty() => "tool".into(),
        None => name.into(),
    }
}

/// Returns the numbers of added and removed lines, ignoring common lines at the start and the end.
fn changed_lines(old: &str, new: &str) -> (usize, usize) {
    let (old, new): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
    let same = |(a, b): &(&&str, &&str)| a == b;
    let start = old.iter().zip(&new).take_while(same).count();
    let (old, new) = (&old[start..], &new[start..]);
    let end = old.iter().rev().zip(new.iter().rev()).take_while(same).count();
    (new.len() - end, old.len() - end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::truncation::MAX_TITLE_CHARS;

    fn with<T>(json: &str, look: impl FnOnce(ToolInput<'_>) -> T) -> T {
        let raw = RawValue::from_string(json.to_owned()).unwrap();
        look(ToolInput::parse(&raw))
    }

    #[test]
    fn titles_say_what_it_is_about() {
        let cases = [
            ("Bash", r#"{"command":"git log\n| head","description":"d"}"#, "git log …"),
            ("Bash", r#"{"command":"\n  ls -l  "}"#, "ls -l"),
            ("Read", r#"{"file_path":"/a/b"}"#, "Read /a/b"),
            ("Grep", r#"{"pattern":"x","path":"/a"}"#, "Grep x"),
            ("WebFetch", r#"{"url":"http://x","prompt":"p"}"#, "WebFetch http://x"),
            ("Agent", r#"{"description":"look around","prompt":"p"}"#, "Agent look around"),
            ("mcp__docs__search", r#"{"query":"q"}"#, "docs: search q"),
            ("mcp__docs__search", r#"{"path":7}"#, "docs: search"),
            ("Odd", "[1]", "Odd"),
            ("", "null", "tool"),
        ];
        for (name, json, expected) in cases {
            assert_eq!(&*with(json, |input| input.title(name)), expected, "{name} {json}");
        }
        let long = format!(r#"{{"command":"{}"}}"#, "é".repeat(500));
        assert_eq!(with(&long, |input| input.title("Bash").chars().count()), MAX_TITLE_CHARS + 2);
    }

    #[test]
    fn subjects_are_what_patterns_name() {
        let subject = |name: &str, json: &str| {
            with(json, |input| input.pattern_subject(name).map(str::to_owned))
        };
        let all = r#"{"command":"c","file_path":"f","url":"u","query":"q"}"#;
        assert_eq!(subject("Bash", all).as_deref(), Some("c"));
        assert_eq!(subject("Write", all).as_deref(), Some("f"));
        assert_eq!(subject("WebFetch", all).as_deref(), Some("u"));
        assert_eq!(subject("mcp__x__y", all), None);
        assert_eq!(subject("NotebookEdit", r#"{"notebook_path":"n"}"#).as_deref(), Some("n"));
    }

    #[test]
    fn edits_are_counted_in_lines() {
        let counts = |json: &str| with(json, |input| input.line_counts());
        assert_eq!(counts(r#"{"content":"a\nb\n"}"#), Some((2, 0)));
        assert_eq!(counts(r#"{"old_string":"a\nb\nc","new_string":"a\nx\ny\nc"}"#), Some((2, 1)));
        assert_eq!(counts(r#"{"old_string":"a\na","new_string":"a"}"#), Some((0, 1)));
        let several = r#"{"edits":[{"old_string":"a","new_string":"b"},
            {"old_string":"","new_string":"c\nd"}]}"#;
        assert_eq!(counts(several), Some((3, 1)));
        assert_eq!(counts("{}"), None);
    }

    #[test]
    fn classes_come_from_one_table() {
        assert_eq!(tool_class("Bash"), ToolClass::Execute);
        assert_eq!(tool_class("mcp__fs__Write"), ToolClass::Other);
        assert_eq!(tool_class("SomethingNew"), ToolClass::Other);
    }
}

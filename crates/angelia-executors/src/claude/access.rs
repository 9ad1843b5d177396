//! The paths and the command that a call to one of the CLI's tools touches, read from its input.

use std::path::{Component, Path, PathBuf};

use angelia_core::model::{CommandAccess, ToolAccess, ToolClass};

use super::tool::{self, ToolInput};

/// The characters that end the literal part of a file pattern.
const GLOB_CHARACTERS: &[char] = &['*', '?', '[', '{', '!'];

/// Returns the paths and the command of the call. `home` is the CLI's `HOME`, because its file
/// tools expand `~`.
pub(super) fn tool_access(tool: &str, input: &ToolInput<'_>, home: &Path) -> ToolAccess {
    let mut access = ToolAccess::default();
    // Collect every field that names a path, because we do not know which one the tool reads.
    let paths = input.paths().map(|path| expand_home(path, home));
    match tool::tool_class(tool) {
        ToolClass::Read => {
            access.reads = paths.collect();
            if access.reads.is_empty() {
                access.reads.push(".".into());
            }
            if tool == "Glob"
                && let Some(pattern) = input.pattern()
            {
                let folder = literal_folder(&expand_home(pattern, home));
                access.reads = access.reads.iter().map(|base| base.join(&folder)).collect();
            }
        }
        ToolClass::Edit => access.writes = paths.collect(),
        ToolClass::Execute => access.command = input.command().map(CommandAccess::shell),
        ToolClass::Other => {}
    }
    access
}

pub(super) fn expand_home(path: &str, home: &Path) -> PathBuf {
    match path.strip_prefix('~') {
        Some("") => home.to_owned(),
        Some(rest) if rest.starts_with('/') => home.join(rest.trim_start_matches('/')),
        _ => path.into(),
    }
}

/// Returns the folder below which a file pattern can match.
fn literal_folder(pattern: &Path) -> PathBuf {
    let is_literal = |component: &Component<'_>| {
        !component.as_os_str().to_string_lossy().contains(GLOB_CHARACTERS)
    };
    let literal: PathBuf = pattern.components().take_while(is_literal).collect();
    // A pattern without a wildcard names a file.
    if literal == pattern { literal.parent().unwrap_or(&literal).to_owned() } else { literal }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    fn access(tool: &str, json: &str) -> ToolAccess {
        let raw = RawValue::from_string(json.to_owned()).unwrap();
        tool_access(tool, &ToolInput::parse(&raw), Path::new("/home/u"))
    }

    fn paths(list: &[&str]) -> Vec<PathBuf> {
        list.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn file_tools_name_their_paths() {
        let cases = [
            ("Read", r#"{"file_path":"/a/b"}"#, vec!["/a/b"]),
            ("Read", r#"{"file_path":"~/.ssh/id"}"#, vec!["/home/u/.ssh/id"]),
            ("LSP", r#"{"filePath":"src/x.rs"}"#, vec!["src/x.rs"]),
            ("Grep", r#"{"pattern":"x"}"#, vec!["."]),
            ("Grep", r#"{"pattern":"x","path":"/etc"}"#, vec!["/etc"]),
            ("Glob", r#"{"pattern":"/srv/.ssh/*"}"#, vec!["/srv/.ssh"]),
            ("Glob", r#"{"pattern":"../*/x","path":"/a/b"}"#, vec!["/a/b/.."]),
            ("Glob", r#"{"pattern":"~/{a,b}"}"#, vec!["/home/u"]),
            ("Glob", r#"{"pattern":"/etc/passwd"}"#, vec!["/etc"]),
        ];
        for (tool, json, expected) in cases {
            let got = access(tool, json);
            assert_eq!(got.reads, paths(&expected), "{tool} {json}");
            assert!(got.writes.is_empty() && got.command.is_none());
        }
        for tool in ["Write", "Edit", "MultiEdit", "NotebookEdit"] {
            let both = access(tool, r#"{"file_path":"/w/a","notebook_path":"/w/.git/b"}"#);
            assert_eq!(both.writes, paths(&["/w/a", "/w/.git/b"]), "{tool}");
        }
    }

    #[test]
    fn commands_are_scripts_and_other_tools_touch_nothing_we_know() {
        let command = access("Bash", r#"{"command":"ls > x","file_path":"y"}"#);
        assert_eq!(command.command, Some(CommandAccess::shell("ls > x")));
        assert!(command.reads.is_empty() && command.writes.is_empty());
        assert_eq!(access("mcp__fs__Write", r#"{"file_path":"x"}"#), ToolAccess::default());
    }
}

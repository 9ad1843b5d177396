//! Checks each file's opening comment, length and name.

use super::{Problem, SourceFile};

const MAX_FILE_LINES: usize = 500;
const TABLE: &str = "// tidy: table";
const EMPTY_NAMES: [&str; 8] =
    ["util", "utils", "common", "helper", "helpers", "manager", "managers", "misc"];

pub(crate) fn check(source: &SourceFile) -> Vec<Problem> {
    if !source.path.ends_with(".rs") {
        return Vec::new();
    }
    let mut problems = Vec::new();
    if !source.text.starts_with("//!") {
        let message = "a file must start with `//!` and say what it is for";
        problems.push(Problem::new(&source.path, 1, message));
    }
    let lines = source.text.lines().count();
    if lines > MAX_FILE_LINES && !source.text.contains(TABLE) {
        let message =
            format!("{lines} lines: split the file by topic, or mark a pure table with `{TABLE}`");
        problems.push(Problem::new(&source.path, lines, message));
    }
    for part in source.path.split('/') {
        let name = part.strip_suffix(".rs").unwrap_or(part);
        let last = name.rsplit(['_', '-']).next().unwrap_or(name);
        if EMPTY_NAMES.contains(&last) {
            let message = format!("`{name}` says nothing about what is inside");
            problems.push(Problem::new(&source.path, 1, message));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, text: &str) -> usize {
        check(&SourceFile { path: path.into(), text: text.into() }).len()
    }

    #[test]
    fn a_file_says_what_it_is_for() {
        assert_eq!(problems("src/a.rs", "//! This.\n"), 0);
        assert_eq!(problems("src/a.rs", "use x;\n"), 1);
        assert_eq!(problems("README.md", "anything"), 0);
    }

    #[test]
    fn only_a_table_may_be_long() {
        let long = format!("//! This.\n{}", "x\n".repeat(900));
        assert_eq!(problems("src/a.rs", &long), 1);
        assert_eq!(problems("src/a.rs", &format!("{long}{TABLE}\n")), 0);
    }

    #[test]
    fn a_name_says_something() {
        for path in ["src/utils.rs", "src/common/a.rs", "src/session_manager.rs"] {
            assert_eq!(problems(path, "//! This.\n"), 1, "{path}");
        }
        assert_eq!(problems("src/uncommon.rs", "//! This.\n"), 0);
    }
}

//! Checks that the tests named in `docs/internals/checklist.md` exist. A row names its tests in its
//! last cell; every name with an underscore there is a test, a module or a folder of tests.

use std::collections::HashSet;

use super::{Problem, SourceFile};

const CHECKLIST: &str = "docs/internals/checklist.md";

pub(crate) fn check(sources: &[SourceFile]) -> Vec<Problem> {
    let Some(checklist) = sources.iter().find(|source| source.path == CHECKLIST) else {
        return Vec::new();
    };
    let names = defined_names(sources);
    let mut problems = Vec::new();
    for (number, line) in checklist.text.lines().enumerate() {
        for name in last_cell(line).split(|c: char| !is_name_character(c)) {
            if name.contains('_') && !names.contains(name) {
                let message = format!("there is no test, module or folder `{name}`");
                problems.push(Problem::new(CHECKLIST, number + 1, message));
            }
        }
    }
    problems
}

const fn is_name_character(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'
}

/// Returns the last cell of a table row, or an empty string for any other line.
fn last_cell(line: &str) -> &str {
    let cells = line.strip_prefix('|').and_then(|line| line.trim_end().strip_suffix('|'));
    cells.and_then(|cells| cells.rsplit(" | ").next()).unwrap_or_default()
}

/// Returns the functions, modules, files and folders of all Rust sources.
fn defined_names(sources: &[SourceFile]) -> HashSet<&str> {
    let mut names = HashSet::new();
    for source in sources {
        let Some(path) = source.path.strip_suffix(".rs") else {
            continue;
        };
        names.extend(path.split('/'));
        let words = source.text.split_whitespace();
        let next_words = source.text.split_whitespace().skip(1);
        for (word, next) in words.zip(next_words) {
            if matches!(word, "fn" | "mod") {
                let end = next.find(|c: char| !is_name_character(c)).unwrap_or(next.len());
                names.insert(&next[..end]);
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.into(), text: text.into() }
    }

    #[test]
    fn a_test_that_is_gone_is_reported() {
        let checklist = "| row | here | test |\n|---|---|---|\n\
            | A01 | `not_a_test` counts | `it_works`, real_hermes::it_is_gone, `by_file` (all) |\n\
            words_outside_of_a_table\n";
        let sources = [
            source(CHECKLIST, checklist),
            source("crates/a/tests/by_file.rs", "async fn it_works() {}\nmod real_hermes;\n"),
        ];
        let problems = check(&sources);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!(problems[0].line, 3);
        assert!(problems[0].message.contains("it_is_gone"));
    }
}

//! Finds absolute paths and package registries of a particular machine in shared files.

use super::{Problem, SourceFile};

/// Returns the forbidden strings and their messages. They are split into two halves, so that this
/// file does not report itself.
fn forbidden_strings() -> Vec<(String, &'static str)> {
    let folder = "a path of one machine; write it relative to the project or to a placeholder";
    let host = "the address of a package registry; name the package only";
    vec![
        (["/ro", "ot/"].concat(), folder),
        (["/wo", "rk/"].concat(), folder),
        (["/Us", "ers/"].concat(), folder),
        (["/t", "mp/"].concat(), folder),
        (["registry.npm", "js"].concat(), host),
        (["index.crates", ".io"].concat(), host),
        (["static.crates", ".io"].concat(), host),
        (["pypi", ".org"].concat(), host),
        (["pythonhosted", ".org"].concat(), host),
    ]
}

pub(crate) fn check(source: &SourceFile) -> Vec<Problem> {
    // Cargo writes the registry's address into its lock file. Recordings, and snapshots made from
    // them, stay as they were recorded.
    let is_recorded = source.path.starts_with("fixtures/") || source.path.ends_with(".snap");
    if source.path.ends_with("Cargo.lock") || is_recorded {
        return Vec::new();
    }
    let traces = forbidden_strings();
    let mut problems = Vec::new();
    for (number, line) in source.text.lines().enumerate() {
        for (trace, message) in &traces {
            let mut found = line.match_indices(trace.as_str());
            if found.any(|(at, _)| !trace.starts_with('/') || !is_inside(line, at)) {
                problems.push(Problem::new(&source.path, number + 1, *message));
            }
        }
    }
    problems
}

/// Returns whether the slash continues a longer path or word, as in `a/work/b`.
fn is_inside(line: &str, at: usize) -> bool {
    let before = line[..at].chars().next_back();
    before.is_some_and(|c| {
        c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '~' | '}' | ')' | '>')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> usize {
        check(&SourceFile { path: "a.md".into(), text: text.into() }).len()
    }

    #[test]
    fn finds_paths_and_hosts() {
        for text in [
            ["see /wo", "rk/main/x"],
            ["\"/ro", "ot/.cache\""],
            ["https://pypi", ".org/x"],
            ["/t", "mp/scratch"],
        ] {
            assert_eq!(problems(&text.concat()), 1, "{text:?}");
        }
    }

    #[test]
    fn leaves_relative_paths_and_longer_words() {
        for text in [["$HOME/wo", "rk/x"], ["frames/wo", "rk/"], ["/works", "hop"], ["a/t", "mp/b"]]
        {
            assert_eq!(problems(&text.concat()), 0, "{text:?}");
        }
    }

    #[test]
    fn leaves_recordings_as_they_are() {
        let text = ["/t", "mp/socket"].concat();
        assert!(check(&SourceFile { path: "fixtures/a.ndjson".into(), text }).is_empty());
    }
}

//! Checks that the README claims only versions that the tests pin.

use super::{Problem, SourceFile};

const SECTION: &str = "## What it is tested with";

pub(crate) fn check(sources: &[SourceFile]) -> Vec<Problem> {
    let Some(readme) = sources.iter().find(|source| source.path == "README.md") else {
        return Vec::new();
    };
    let is_pin = |path: &str| {
        path.starts_with("tests/")
            && (path.ends_with("/package.json") || path.ends_with("/requirements.txt"))
    };
    let pins: Vec<&str> =
        sources.iter().filter(|source| is_pin(&source.path)).map(|it| it.text.as_str()).collect();
    let mut problems = Vec::new();
    for (number, line) in section(&readme.text) {
        for version in line.split([' ', ',', '|']).filter(|word| is_version(word)) {
            let is_pinned = pins.iter().any(|text| {
                text.split(['"', '@', '=', '-', ' ', '\n']).any(|word| word == version)
            });
            if !is_pinned {
                let message = format!("no test pins version {version}");
                problems.push(Problem::new("README.md", number, message));
            }
        }
    }
    problems
}

/// Returns the lines of the section with their numbers.
fn section(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(number, line)| (number + 1, line));
    let section = lines.skip_while(|(_, line)| *line != SECTION).skip(1);
    section.take_while(|(_, line)| !line.starts_with("## "))
}

/// Returns whether the word is a version: numbers with dots.
fn is_version(word: &str) -> bool {
    word.contains('.')
        && word.split('.').all(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_that_no_test_pins_is_a_problem() {
        let source = |path: &str, text: &str| SourceFile { path: path.into(), text: text.into() };
        let readme = format!(
            "9.9.9\n{SECTION}\n| Claude Code | 2.1.1 and 2.1.2 |\n| llm | 0.36, any |\n## Next\n8.8.8"
        );
        let sources = [
            source("README.md", &readme),
            source(
                "tests/npm/claude/package.json",
                "\"claude-code-2.1.1-linux-x64\": \"npm:x@2.1.1\"",
            ),
            source("tests/python/clients/requirements.txt", "llm==0.36 \\\n"),
        ];
        let found = check(&sources);
        assert_eq!(found, [Problem::new("README.md", 3, "no test pins version 2.1.2")]);
    }
}

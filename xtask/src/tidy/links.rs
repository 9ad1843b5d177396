//! Checks the targets that documents name: links, the paths in the code map, and the commands in
//! the README.

use super::{Problem, SourceFile};

/// Checks all documents. `exists` returns whether a path relative to the workspace's root exists.
pub(crate) fn check(sources: &[SourceFile], exists: &dyn Fn(&str) -> bool) -> Vec<Problem> {
    let mut problems = Vec::new();
    for source in sources.iter().filter(|source| source.path.ends_with(".md")) {
        problems.extend(check_links(source, exists));
    }
    for (name, check) in [
        (
            "ARCHITECTURE.md",
            check_paths as fn(&SourceFile, &[SourceFile], &dyn Fn(&str) -> bool) -> Vec<Problem>,
        ),
        ("README.md", check_commands),
    ] {
        match sources.iter().find(|source| source.path == name) {
            Some(source) => problems.extend(check(source, sources, exists)),
            None => problems.push(Problem::new(name, 1, "the file is missing")),
        }
    }
    problems
}

/// Checks the relative links of a document.
fn check_links(source: &SourceFile, exists: &dyn Fn(&str) -> bool) -> Vec<Problem> {
    let folder = source.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut problems = Vec::new();
    for (number, line) in source.text.lines().enumerate() {
        for part in line.split("](").skip(1) {
            let target = part.split(')').next().unwrap_or_default();
            let target = target.split('#').next().unwrap_or_default();
            if target.is_empty() || target.contains(':') {
                continue;
            }
            if !exists(&join(folder, target)) {
                let message = format!("the link to {target} is broken");
                problems.push(Problem::new(&source.path, number + 1, message));
            }
        }
    }
    problems
}

fn join(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Checks the paths in backticks, which start at the root or match the end of a tracked file's
/// path.
fn check_paths(
    source: &SourceFile,
    sources: &[SourceFile],
    exists: &dyn Fn(&str) -> bool,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (number, path) in
        quoted_words(&source.text).into_iter().filter(|(_, word)| is_path(word, exists))
    {
        let path = path.trim_end_matches('/');
        let ending = format!("/{path}");
        let inside = format!("/{path}/");
        let known = exists(path)
            || sources.iter().any(|source| source.path.ends_with(&ending))
            || sources.iter().any(|source| source.path.contains(&inside));
        if !known {
            let message = format!("there is no {path}");
            problems.push(Problem::new(&source.path, number, message));
        }
    }
    problems
}

/// Returns whether the word can only be a file or folder in this workspace.
fn is_path(word: &str, exists: &dyn Fn(&str) -> bool) -> bool {
    let plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
    let first = word.split('/').next().unwrap_or_default();
    let rooted = word.contains('/') && !first.is_empty() && first != "target" && exists(first);
    plain && (rooted || word.ends_with(".rs"))
}

/// Returns every word in backticks outside code blocks, with its line.
fn quoted_words(text: &str) -> Vec<(usize, &str)> {
    let mut in_block = false;
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            found.extend(line.split('`').skip(1).step_by(2).map(|word| (number + 1, word)));
        }
    }
    found
}

/// Checks that every `cargo xtask …` and `angelia …` names an existing command.
fn check_commands(
    source: &SourceFile,
    sources: &[SourceFile],
    _: &dyn Fn(&str) -> bool,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (number, line) in source.text.lines().enumerate() {
        for command in words_after(line, "cargo xtask ") {
            if !crate::COMMANDS.contains(&command) {
                let message = format!("there is no command `cargo xtask {command}`");
                problems.push(Problem::new(&source.path, number + 1, message));
            }
        }
        // `angelia` is the program at the start of a line or of a word in backticks; elsewhere in a
        // text, it is the project's name.
        let typed = line.trim_start().trim_start_matches("$ ");
        let typed = typed.starts_with("angelia ").then(|| words_after(typed, "angelia "));
        let inline = words_after(line, "`angelia ");
        let run = words_after(line, "cargo run --release -- ");
        for command in typed.into_iter().flatten().take(1).chain(inline).chain(run) {
            if !is_subcommand(command, sources) {
                let message = format!("there is no command `angelia {command}`");
                problems.push(Problem::new(&source.path, number + 1, message));
            }
        }
    }
    problems
}

/// Returns the lower-case word that follows each occurrence of `lead` in the line.
fn words_after<'a>(line: &'a str, lead: &str) -> Vec<&'a str> {
    let words = line.split(lead).skip(1).map(|rest| {
        let end = rest.find(|c: char| !(c.is_ascii_lowercase() || c == '-'));
        &rest[..end.unwrap_or(rest.len())]
    });
    words.filter(|word| !word.is_empty() && !word.starts_with('-')).collect()
}

/// Returns whether the program's command-line enums have such a variant, such as `Run` for `run`.
fn is_subcommand(command: &str, sources: &[SourceFile]) -> bool {
    let mut variant = String::new();
    for part in command.split('-') {
        let mut characters = part.chars();
        variant.extend(characters.next().map(|first| first.to_ascii_uppercase()));
        variant.extend(characters);
    }
    let spellings = ["(", " {", ",", "{"].map(|end| format!("    {variant}{end}"));
    sources
        .iter()
        .filter(|source| source.path.starts_with("crates/angelia/src/"))
        .any(|source| spellings.iter().any(|spelling| source.text.contains(spelling)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.into(), text: text.into() }
    }

    fn exists(path: &str) -> bool {
        ["crates", "crates/angelia/src/main.rs", "docs", "docs/a.md"].contains(&path)
    }

    fn messages(problems: Vec<Problem>) -> Vec<String> {
        problems.into_iter().map(|problem| problem.message).collect()
    }

    #[test]
    fn links_are_relative_to_their_document() {
        let text = "[a](a.md) [b](../crates) [c](b.md#x) [d](https://example.com) [e](#here)";
        let found = messages(check_links(&source("docs/x.md", text), &exists));
        assert_eq!(found, ["the link to b.md is broken"]);
    }

    #[test]
    fn paths_of_the_code_map_exist() {
        let text = "`crates/angelia/src/main.rs` `crates/gone` `task.rs` `none.rs` `/v1/messages`\n\
                    ```\n`crates/also-gone`\n```\n`N/M` `engine/turn.rs`";
        let sources =
            [source("crates/angelia-core/src/task.rs", ""), source("x/engine/turn.rs", "")];
        let found = messages(check_paths(&source("ARCHITECTURE.md", text), &sources, &exists));
        assert_eq!(found, ["there is no crates/gone", "there is no none.rs"]);
    }

    #[test]
    fn commands_of_the_readme_exist() {
        let sources = [source("crates/angelia/src/cli/mod.rs", "enum Command {\n    Run(Run),\n}")];
        let text = "cargo xtask test\ncargo xtask dance\nangelia run \"hello\"\n`angelia sing`\n\
                    About angelia itself.\ncargo run --release -- run \"hello\"";
        let found = messages(check_commands(&source("README.md", text), &sources, &exists));
        assert_eq!(
            found,
            ["there is no command `cargo xtask dance`", "there is no command `angelia sing`"]
        );
    }
}

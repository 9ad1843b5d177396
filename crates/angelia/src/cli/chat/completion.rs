//! Completes commands and file names at the prompt line, and decides whether more lines follow.

use std::path::Path;

use rustyline::{
    Context, Helper,
    completion::{Completer, Pair},
    highlight::Highlighter,
    hint::Hinter,
    validate::{ValidationContext, ValidationResult, Validator},
};

use super::chat_command::COMMANDS;

/// Maximum number of names to list; nobody would read more.
const MAX_NAMES: usize = 200;

#[derive(Debug)]
pub(super) struct PromptHelper;

impl Completer for PromptHelper {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        _context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        Ok(complete(line, pos))
    }
}

impl Validator for PromptHelper {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if goes_on(context.input()) {
            ValidationResult::Incomplete
        } else {
            ValidationResult::Valid(None)
        })
    }
}

impl Hinter for PromptHelper {
    type Hint = String;
}

impl Highlighter for PromptHelper {}

impl Helper for PromptHelper {}

/// Returns whether the input continues on another line: the last line ends with `\`, or a code
/// block is open.
pub(super) fn goes_on(input: &str) -> bool {
    let backslashes = input.chars().rev().take_while(|char| *char == '\\').count();
    let fences = input.lines().filter(|line| line.trim_start().starts_with("```")).count();
    backslashes % 2 == 1 || fences % 2 == 1
}

/// Returns the start of the word that can be completed, and its possible completions.
fn complete(line: &str, pos: usize) -> (usize, Vec<Pair>) {
    let before = &line[..pos];
    let begin = before
        .rfind(char::is_whitespace)
        .map_or(0, |place| place + before[place..].chars().next().map_or(1, char::len_utf8));
    let word = &before[begin..];
    let mut pairs: Vec<Pair> = Vec::new();
    if begin == 0 && word.starts_with('/') {
        for (name, ..) in COMMANDS.iter().filter(|(name, ..)| name.starts_with(word)) {
            pairs.push(Pair { display: (*name).to_owned(), replacement: format!("{name} ") });
        }
    }
    let (mark, path) = word.strip_prefix('@').map_or(("", word), |path| ("@", path));
    if pairs.is_empty() && (!path.is_empty() || !mark.is_empty()) {
        pairs.extend(file_names(mark, path));
    }
    (begin, pairs)
}

fn file_names(mark: &str, path: &str) -> Vec<Pair> {
    let (folder, start) =
        path.rsplit_once('/').map_or(("", path), |(folder, start)| (&path[..=folder.len()], start));
    let read_from = if folder.is_empty() { Path::new(".") } else { Path::new(folder) };
    let Ok(entries) = std::fs::read_dir(read_from) else { return Vec::new() };
    let mut pairs: Vec<Pair> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            // A control character could move the cursor, and a space would end the word.
            let is_plain = !name.contains(|char: char| char.is_control() || char.is_whitespace());
            let is_wanted =
                name.starts_with(start) && (!start.is_empty() || !name.starts_with('.'));
            let slash = if entry.path().is_dir() { "/" } else { "" };
            (is_plain && is_wanted).then(|| Pair {
                display: format!("{name}{slash}"),
                replacement: format!("{mark}{folder}{name}{slash}"),
            })
        })
        .take(MAX_NAMES)
        .collect();
    pairs.sort_by(|one, other| one.display.cmp(&other.display));
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_files_are_completed() {
        let names = |line: &str| -> Vec<String> {
            complete(line, line.len()).1.into_iter().map(|pair| pair.replacement).collect()
        };
        assert_eq!(names("/m"), ["/model "]);
        assert!(names("/").contains(&"/quit ".to_owned()));
        assert!(names("").is_empty());
        let folder = tempfile::tempdir().unwrap();
        for name in ["plain.txt", "plan.md", ".hidden", "two words", "evil\x1b[2J"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        std::fs::create_dir(folder.path().join("plants")).unwrap();
        let path = folder.path().display();
        let line = format!("look at @{path}/pla");
        let expected = ["plain.txt", "plan.md", "plants/"].map(|name| format!("@{path}/{name}"));
        assert_eq!(names(&line), expected);
        assert_eq!(complete(&line, line.len()).0, "look at ".len());
        assert_eq!(names(&format!("@{path}/")).len(), 3, "hidden and odd names are left out");
    }

    #[test]
    fn a_line_goes_on_after_a_backslash_and_in_a_code_block() {
        for (input, more) in [
            ("one", false),
            ("one\\", true),
            ("one\\\\", false),
            ("```rust\nfn main", true),
            ("```rust\nfn main\n```", false),
        ] {
            assert_eq!(goes_on(input), more, "{input:?}");
        }
    }
}

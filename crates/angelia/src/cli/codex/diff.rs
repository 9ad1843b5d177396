//! Renders the difference between two texts line by line for people, and masks values that may be
//! secrets. Pure.

use std::{fmt::Write as _, path::Path};

use similar::TextDiff;

/// The number of unchanged lines shown around a change.
const CONTEXT_LINES: usize = 3;

/// Settings whose values are likely to be secrets.
const SECRET_PREFIXES: [&str; 2] = ["env = {", "http_headers = {"];

pub(super) fn render_diff(path: &Path, old: &str, new: &str) -> String {
    format!("--- {0}\n+++ {0}\n{1}", path.display(), render_hunks(old, new, CONTEXT_LINES))
}

fn render_hunks(old: &str, new: &str, context: usize) -> String {
    let (old, new) = (split_lines(old), split_lines(new));
    let diff = TextDiff::from_slices(&old, &new);
    let mut text = String::new();
    for hunk in diff.grouped_ops(context) {
        text.push_str("@@\n");
        for change in hunk.iter().flat_map(|op| diff.iter_changes(op)) {
            let (line, ending) = match change.value().strip_suffix('\n') {
                Some(line) => (line.trim_end_matches('\r'), ""),
                None => (change.value(), "\n\\ no newline at the end"),
            };
            // Writing to a string cannot fail.
            let _infallible = writeln!(text, "{}{}{ending}", change.tag(), mask_secret(line));
        }
    }
    text
}

/// Splits only at line feeds, like TOML.
fn split_lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// Keeps the name of a secret setting and hides its value.
fn mask_secret(line: &str) -> String {
    let Some(start) = SECRET_PREFIXES.iter().find(|start| line.starts_with(*start)) else {
        return line.to_owned();
    };
    format!("{start} … }}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn changes_are_shown_with_what_is_around_them() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9";
        let new = "1\n2\n3\n4\nx\n6\n7\n8\n9\nenv = { KEY = \"secret\" }\n";
        let expected = "--- f\n+++ f\n@@\n 2\n 3\n 4\n-5\n+x\n 6\n 7\n 8\n-9\n\
                        \\ no newline at the end\n+9\n+env = { … }\n";
        assert_eq!(render_diff(Path::new("f"), old, new), expected);
    }

    proptest! {
        #[test]
        fn both_texts_are_in_it(old in "([abc]\n){0,12}", new in "([abc]\n){0,12}") {
            prop_assume!(old != new);
            let text = render_hunks(&old, &new, 12);
            let side = |other_sign: char| {
                let lines = text.split_inclusive('\n').filter(|line| *line != "@@\n");
                let lines = lines.filter(|line| !line.starts_with(other_sign));
                lines.map(|line| &line[1..]).collect::<String>()
            };
            prop_assert_eq!(side('+'), old);
            prop_assert_eq!(side('-'), new);
        }
    }
}

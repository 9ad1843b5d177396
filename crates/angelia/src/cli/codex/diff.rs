//! Compares two texts line by line and renders the difference for people. Values that may be
//! secrets are masked. Pure.

use std::{fmt::Write as _, path::Path};

/// The number of unchanged lines shown around a change.
const CONTEXT_LINES: usize = 3;

/// Settings whose values are likely to be secrets.
const SECRET_PREFIXES: [&str; 2] = ["env = {", "http_headers = {"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DiffSide {
    Both,
    Old,
    New,
}

pub(super) fn render_diff(path: &Path, old: &str, new: &str) -> String {
    let lines = diff_lines(&split_lines(old), &split_lines(new));
    let mut text = format!("--- {0}\n+++ {0}\n", path.display());
    let near = |at: usize| {
        let from = at.saturating_sub(CONTEXT_LINES);
        let to = (at + CONTEXT_LINES + 1).min(lines.len());
        let around = lines.get(from..to).unwrap_or_default();
        around.iter().any(|(side, _)| *side != DiffSide::Both)
    };
    let mut in_a_hunk = false;
    for (at, (side, line)) in lines.iter().enumerate() {
        if !near(at) {
            in_a_hunk = false;
            continue;
        }
        if !in_a_hunk {
            text.push_str("@@\n");
            in_a_hunk = true;
        }
        let sign = match side {
            DiffSide::Both => ' ',
            DiffSide::Old => '-',
            DiffSide::New => '+',
        };
        let (line, ending) = match line.strip_suffix('\n') {
            Some(line) => (line.trim_end_matches('\r'), ""),
            None => (*line, "\n\\ no newline at the end"),
        };
        // Writing to a string cannot fail.
        let _infallible = writeln!(text, "{sign}{}{ending}", mask_secret(line));
    }
    text
}

fn split_lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// Diffs by the longest common subsequence. The common head and tail are cut off first, because
/// they need no search.
fn diff_lines<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(DiffSide, &'a str)> {
    let same = |(a, b): &(&&str, &&str)| a == b;
    let head = old.iter().zip(new).take_while(same).count();
    let (old_rest, new_rest) = (old.get(head..), new.get(head..));
    let (old_rest, new_rest) = (old_rest.unwrap_or_default(), new_rest.unwrap_or_default());
    let ends = old_rest.iter().rev().zip(new_rest.iter().rev());
    let tail = ends.take_while(same).count();
    let old_middle = old_rest.get(..old_rest.len() - tail).unwrap_or_default();
    let new_middle = new_rest.get(..new_rest.len() - tail).unwrap_or_default();
    let both = |line: &&'a str| (DiffSide::Both, *line);
    let mut lines: Vec<(DiffSide, &str)> = old.iter().take(head).map(both).collect();
    lines.extend(diff_middle(old_middle, new_middle));
    lines.extend(old.iter().skip(old.len() - tail).map(both));
    lines
}

fn diff_middle<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(DiffSide, &'a str)> {
    // `common[i, j]` is the length of the longest common subsequence of `old[i..]` and `new[j..]`.
    let width = new.len() + 1;
    let mut common = vec![0_usize; (old.len() + 1) * width];
    let value = |common: &[usize], i: usize, j: usize| common.get(i * width + j).copied();
    for (i, one) in old.iter().enumerate().rev() {
        for (j, other) in new.iter().enumerate().rev() {
            let longest = if one == other {
                value(&common, i + 1, j + 1).unwrap_or_default() + 1
            } else {
                value(&common, i + 1, j).max(value(&common, i, j + 1)).unwrap_or_default()
            };
            if let Some(cell) = common.get_mut(i * width + j) {
                *cell = longest;
            }
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut lines = Vec::new();
    loop {
        match (old.get(i), new.get(j)) {
            (Some(one), Some(other)) if one == other => {
                lines.push((DiffSide::Both, *one));
                (i, j) = (i + 1, j + 1);
            }
            (Some(one), other)
                if other.is_none() || value(&common, i + 1, j) >= value(&common, i, j + 1) =>
            {
                lines.push((DiffSide::Old, *one));
                i += 1;
            }
            (_, Some(other)) => {
                lines.push((DiffSide::New, *other));
                j += 1;
            }
            _ => return lines,
        }
    }
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
            let lines = diff_lines(&split_lines(&old), &split_lines(&new));
            let of = |not: DiffSide| {
                let lines = lines.iter().filter(|(side, _)| *side != not);
                lines.map(|(_, line)| *line).collect::<String>()
            };
            prop_assert_eq!(of(DiffSide::New), &*old);
            prop_assert_eq!(of(DiffSide::Old), &*new);
        }
    }
}

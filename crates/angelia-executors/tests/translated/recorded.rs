//! Recorded conversations, a message of either side on every line, and what they are put through.
//! Included by path where recordings are like that.

use std::{fs, path::Path};

use serde_json::value::RawValue;

use super::translated::damage::reverse;

pub(crate) struct Fixture {
    pub(crate) name: String,
    pub(crate) lines: Vec<Line>,
}

#[derive(Clone)]
pub(crate) struct Line {
    /// Of the agent, not of the client.
    pub(crate) out: bool,
    pub(crate) msg: String,
}

pub(crate) fn fixture(folder: &Path, name: &str) -> Fixture {
    #[derive(serde::Deserialize)]
    struct Recorded<'a> {
        dir: &'a str,
        #[serde(borrow)]
        msg: &'a RawValue,
    }
    let text = fs::read_to_string(folder.join(format!("{name}.jsonl"))).unwrap();
    let lines = text.lines().map(|line| {
        let recorded: Recorded<'_> = serde_json::from_str(line).unwrap();
        Line { out: recorded.dir == "out", msg: recorded.msg.get().to_owned() }
    });
    Fixture { name: name.to_owned(), lines: lines.collect() }
}

/// All that are in there, which are so many at least.
pub(crate) fn all(folder: &Path, at_least: usize) -> Vec<Fixture> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|file| Some(file.strip_suffix(".jsonl")?.to_owned()))
        .collect();
    names.sort();
    assert!(names.len() >= at_least, "the recordings are there");
    names.iter().map(|name| fixture(folder, name)).collect()
}

/// Whole; `check` is told the lines and what they are.
pub(crate) fn whole(fixtures: &[Fixture], check: impl Fn(&[Line], &str)) {
    for fixture in fixtures {
        check(&fixture.lines, &fixture.name);
    }
}

pub(crate) fn cut_at_any_line(fixtures: &[Fixture], check: impl Fn(&[Line], &str)) {
    for Fixture { name, lines } in fixtures {
        for count in 0..lines.len() {
            check(&lines[..count], &format!("{name} cut after {count}"));
        }
    }
}

pub(crate) fn without_any_one_line(fixtures: &[Fixture], check: impl Fn(&[Line], &str)) {
    for Fixture { name, lines } in fixtures {
        for missing in 0..lines.len() {
            let mut lines = lines.clone();
            lines.remove(missing);
            check(&lines, &format!("{name} without {missing}"));
        }
    }
}

/// They say the same when the keys of every object are reversed. Kept JSON is kept in its own order:
/// it begins at one of the `signs`.
pub(crate) fn whatever_order_of_keys(
    fixtures: &[Fixture],
    signs: &[&str],
    spell: impl Fn(&[Line]) -> String,
) {
    let plain = |lines: &[Line]| -> Vec<String> {
        let said = spell(lines);
        let short = said.lines().map(|line| {
            let ends = signs.iter().filter_map(|sign| line.find(sign));
            line[..ends.min().unwrap_or(line.len())].to_owned()
        });
        short.collect()
    };
    for Fixture { name, lines } in fixtures {
        let reversed: Vec<Line> =
            (lines.iter()).map(|line| Line { msg: reverse(&line.msg), ..line.clone() }).collect();
        assert_eq!(plain(lines), plain(&reversed), "{name}");
    }
}

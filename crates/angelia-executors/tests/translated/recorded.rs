//! Recorded conversations with one message of either side per line, and the transformations that
//! tests apply to them. Included by path by the tests with such recordings.

use std::{fs, path::Path};

use serde_json::value::RawValue;

use super::translated::damage::reverse;

pub(crate) struct Fixture {
    pub(crate) name: String,
    pub(crate) lines: Vec<Line>,
}

#[derive(Clone)]
pub(crate) struct Line {
    /// The message is the agent's, not the client's.
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

/// Reads all recordings in the folder and asserts that there are at least `at_least`.
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

/// Checks every whole recording; `check` gets the lines and a description of them.
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

/// Asserts that the result is the same when the keys of every object are reversed. Raw JSON keeps
/// its own order, so everything from one of the `signs` on is not compared.
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

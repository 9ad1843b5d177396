//! Finds the text that an edit refers to, and replaces it. Pure.
//!
//! Models quote a file almost right. Three kinds of matches are tried: the exact text; the same
//! lines apart from trailing spaces and typographic characters; the same lines at another
//! indentation. The last two count only if exactly one place matches.

use std::fmt::Write as _;

use super::tool::CallError;

/// The maximum number of places named in a message.
const MAX_NAMED_PLACES: usize = 5;

/// More places are not counted.
const MAX_PLACES: usize = 1000;

/// A text, and the text that replaces it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replacement<'a> {
    pub(super) old: &'a str,
    pub(super) new: &'a str,
    pub(super) all: bool,
}

/// A text after its replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Replaced {
    pub(super) text: String,
    /// The number of places that were replaced.
    pub(super) places: usize,
    /// The lines of the new text at the first place, counted from 1; the end is not included.
    pub(super) lines: std::ops::Range<usize>,
    /// The difference between the found text and the given one.
    pub(super) remark: Option<&'static str>,
}

impl Replacement<'_> {
    pub(super) fn apply(&self, text: &str) -> Result<Replaced, CallError> {
        if self.old.is_empty() {
            return Err(CallError::new(
                "old_string is empty; quote the text to replace, or use `write` for a whole file",
            ));
        }
        if self.old == self.new {
            return Err(CallError::new(
                "old_string and new_string are equal; nothing would change",
            ));
        }
        let places = places_of(text, self.old);
        match places[..] {
            [] => self.apply_loosely(text),
            [at, ..] if places.len() == 1 || self.all => {
                let (changed, count) = if self.all {
                    (text.replace(self.old, self.new), text.matches(self.old).count())
                } else {
                    (splice(text, at..at + self.old.len(), self.new), 1)
                };
                Ok(replaced(text, changed, at, self.new, count, None))
            }
            _ => Err(CallError::new(format!(
                "old_string is in the file {} times ({}); quote more lines around the one you \
                 mean, or set replace_all",
                places.len(),
                line_list(text, &places)
            ))),
        }
    }

    fn apply_loosely(&self, text: &str) -> Result<Replaced, CallError> {
        let lines = lines_of(text);
        let wanted: Vec<&str> =
            self.old.strip_suffix('\n').unwrap_or(self.old).split('\n').collect();
        let is_blank = wanted.iter().all(|line| line.trim().is_empty());
        let windows = || lines.windows(wanted.len()).filter(|_| !is_blank);

        let same: Vec<_> = windows()
            .filter(|window| window.iter().zip(&wanted).all(|(line, old)| is_same(line.text, old)))
            .collect();
        if let [window] = same[..] {
            let new = with_ends_of(window, self.new);
            let remark = "spaces at the ends of lines or typographic characters differed";
            return Ok(self.replace_window(text, window, &new, remark));
        }
        let shifted: Vec<_> = windows()
            .filter_map(|window| {
                let texts: Vec<&str> = window.iter().map(|line| line.text).collect();
                Some((window, find_shift(&texts, &wanted)?))
            })
            .collect();
        if let ([(window, shift)], true) = (&shifted[..], same.is_empty()) {
            let new = with_ends_of(window, &shift.apply(self.new));
            let remark = "the indentation differed; that of the file was kept";
            return Ok(self.replace_window(text, window, &new, remark));
        }
        let places: Vec<usize> = if same.is_empty() {
            shifted.iter().map(|(window, _)| window[0].start).collect()
        } else {
            same.iter().map(|window| window[0].start).collect()
        };
        Err(CallError::new(if places.is_empty() {
            format!(
                "old_string is not in the file{}; read the part you want to change and quote it \
                 exactly",
                self.nearest_line(&lines)
            )
        } else {
            format!(
                "old_string is not exactly in the file, and {} places differ from it only in \
                 spaces ({}); quote the one you mean exactly",
                places.len(),
                line_list(text, &places)
            )
        }))
    }

    fn replace_window(
        &self,
        text: &str,
        window: &[Line<'_>],
        new: &str,
        remark: &'static str,
    ) -> Replaced {
        let start = window[0].start;
        let last = &window[window.len() - 1];
        // `old` ends with a line ending only if that is to be replaced as well.
        let end = if self.old.ends_with('\n') { last.end } else { last.start + last.text.len() };
        replaced(text, splice(text, start..end, new), start, new, 1, Some(remark))
    }

    /// Says where the first line of `old` is, if it occurs at all.
    fn nearest_line(&self, lines: &[Line<'_>]) -> String {
        let first = self.old.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let found = lines.iter().position(|line| line.text.trim() == first.trim());
        match found {
            Some(at) if !first.trim().is_empty() => {
                format!(" (its first line is line {}, but what follows differs)", at + 1)
            }
            _ => String::new(),
        }
    }
}

fn replaced(
    old_text: &str,
    text: String,
    at: usize,
    new: &str,
    places: usize,
    remark: Option<&'static str>,
) -> Replaced {
    let first = line_number(old_text, at);
    let lines = first..first + new.strip_suffix('\n').unwrap_or(new).split('\n').count();
    Replaced { text, places, lines, remark }
}

/// Returns all places of a text, including overlapping ones, because a text that overlaps itself is
/// ambiguous.
fn places_of(text: &str, wanted: &str) -> Vec<usize> {
    let step = wanted.chars().next().map_or(1, char::len_utf8);
    let mut places = Vec::new();
    let mut from = 0;
    while let Some(at) = text[from..].find(wanted) {
        places.push(from + at);
        from += at + step;
        if places.len() == MAX_PLACES {
            break;
        }
    }
    places
}

/// A line of a text.
#[derive(Clone, Copy, Debug)]
struct Line<'a> {
    /// Without its line ending, which may be `\r\n`.
    text: &'a str,
    start: usize,
    /// The offset after its line ending.
    end: usize,
}

fn lines_of(text: &str) -> Vec<Line<'_>> {
    let mut start = 0;
    let lines = text.split_inclusive('\n').map(|whole| {
        let line = whole.strip_suffix('\n').unwrap_or(whole);
        let line = line.strip_suffix('\r').unwrap_or(line);
        let found = Line { text: line, start, end: start + whole.len() };
        start += whole.len();
        found
    });
    lines.collect()
}

/// Returns the new text with the line endings of the lines that it replaces, in case the file mixes
/// them.
fn with_ends_of(window: &[Line<'_>], new: &str) -> String {
    let has_crlf = window[0].end - window[0].start == window[0].text.len() + 2;
    if has_crlf { new.replace("\r\n", "\n").replace('\n', "\r\n") } else { new.to_owned() }
}

fn splice(text: &str, range: std::ops::Range<usize>, new: &str) -> String {
    [&text[..range.start], new, &text[range.end..]].concat()
}

fn line_number(text: &str, at: usize) -> usize {
    1 + memchr::memchr_iter(b'\n', &text.as_bytes()[..at]).count()
}

fn line_list(text: &str, places: &[usize]) -> String {
    let mut list = String::from("line");
    for (count, at) in places.iter().take(MAX_NAMED_PLACES).enumerate() {
        let separator = if count == 0 { " " } else { ", " };
        let _infallible = write!(list, "{separator}{}", line_number(text, *at));
    }
    if places.len() > MAX_NAMED_PLACES {
        list.push_str(" …");
    }
    list
}

/// Returns whether two lines differ only in trailing spaces and typographic characters.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    one.trim_end().chars().map(plain).eq(other.trim_end().chars().map(plain))
}

/// Returns the plain character for a typographic one.
fn plain(c: char) -> char {
    match c {
        '\u{2018}'..='\u{201b}' => '\'',
        '\u{201c}'..='\u{201f}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{a0}' | '\u{2002}'..='\u{200a}' | '\u{202f}' | '\u{3000}' => ' ',
        other => other,
    }
}

/// The difference between the indentation of the file and that of the given text.
#[derive(Clone, Debug, PartialEq, Eq)]
enum IndentShift {
    Add(String),
    Remove(String),
}

impl IndentShift {
    fn apply(&self, text: &str) -> String {
        let shifted = text.split_inclusive('\n').map(|line| match self {
            _ if line.trim().is_empty() => line.to_owned(),
            Self::Add(indent) => format!("{indent}{line}"),
            Self::Remove(indent) => line.strip_prefix(&**indent).unwrap_or(line).to_owned(),
        });
        shifted.collect()
    }
}

/// Returns the change of indentation that turns the given lines into those of the file, if it is
/// the same for all lines.
fn find_shift(found: &[&str], given: &[&str]) -> Option<IndentShift> {
    let mut shift: Option<IndentShift> = None;
    for (found, given) in found.iter().zip(given) {
        if !is_same(found.trim_start(), given.trim_start()) {
            return None;
        }
        if found.trim().is_empty() {
            continue;
        }
        let indent = |line: &str| line[..line.len() - line.trim_start().len()].to_owned();
        let (found, given) = (indent(found), indent(given));
        let this = match (found.strip_suffix(&*given), given.strip_suffix(&*found)) {
            (Some(more), _) => IndentShift::Add(more.to_owned()),
            (None, Some(less)) => IndentShift::Remove(less.to_owned()),
            (None, None) => return None,
        };
        match &shift {
            None => shift = Some(this),
            Some(known) if *known == this => {}
            Some(_) => return None,
        }
    }
    shift
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn replace(text: &str, old: &str, new: &str) -> Result<Replaced, String> {
        let replacement = Replacement { old, new, all: false };
        replacement.apply(text).map_err(|error| error.to_string())
    }

    fn text_of(text: &str, old: &str, new: &str) -> String {
        replace(text, old, new).unwrap().text
    }

    #[test]
    fn the_exact_text_is_replaced_if_it_is_there_once() {
        let done = replace("a\nb\nc\n", "b", "x\ny").unwrap();
        let expected =
            Replaced { text: "a\nx\ny\nc\n".into(), places: 1, lines: 2..4, remark: None };
        assert_eq!(done, expected);
        let error = replace("a\na\nb\na", "a", "x").unwrap_err();
        assert!(error.contains("3 times (line 1, 2, 4)"), "{error}");
        let all = Replacement { old: "a", new: "b", all: true }.apply("a a\na").unwrap();
        assert_eq!((&*all.text, all.places), ("b b\nb", 3));
        assert!(replace("a", "a", "a").unwrap_err().contains("equal"));
        assert!(replace("a", "", "a").unwrap_err().contains("empty"));
    }

    #[test]
    fn lines_that_differ_in_what_nobody_sees_are_found() {
        assert_eq!(text_of("if x:  \n    y\n", "if x:\n    y", "z"), "z\n");
        assert_eq!(text_of("say(“hi”)\n", "say(\"hi\")", "say()"), "say()\n");
        assert_eq!(text_of("a\r\nb\r\nc\n", "a\nb\n", "x\ny\n"), "x\r\ny\r\nc\n");
        let error = replace("a \nb\na  \nb\n", "a\nb", "x").unwrap_err();
        assert!(error.contains("2 places") && error.contains("line 1, 3"), "{error}");
    }

    #[test]
    fn the_files_indentation_wins() {
        let file = "mod a {\n        if x {\n            y();\n        }\n}\n";
        let old = "    if x {\n        y();\n    }\n";
        let done = replace(file, old, "    if x {\n        z();\n\n    }\n").unwrap();
        let expected = "mod a {\n        if x {\n            z();\n\n        }\n}\n";
        assert_eq!((&*done.text, done.lines), (expected, 2..6));
        assert!(done.remark.unwrap().contains("indentation"));
        // The given text is indented more than the file.
        assert_eq!(text_of("a\n  b\n", "    a\n      b", "    c\n      d"), "c\n  d\n");
        // The shift is not the same everywhere, so the structure differs.
        assert!(replace("a\n    b\n", "  a\n  b", "c").is_err());
    }

    #[test]
    fn what_is_not_there_is_said_with_the_nearest_line() {
        let error = replace("one\ntwo\n", "  two\nthree", "x").unwrap_err();
        assert!(error.contains("its first line is line 2"), "{error}");
        let error = replace("one\n", "zzz", "x").unwrap_err();
        assert!(error.contains("not in the file; read the part"), "{error}");
        assert!(replace("a\n\n\nb", " \n ", "x").is_err(), "blank lines are nowhere in particular");
    }

    proptest! {
        #[test]
        fn nothing_but_the_place_changes(
            before in "[ a-c\n“\t]{0,20}", old in "[ a-c\n\"\t]{1,8}", after in "[ a-c\n\r]{0,20}",
            new in "[x\n ]{0,8}",
        ) {
            let text = format!("{before}{old}{after}");
            let replacement = Replacement { old: &old, new: &new, all: false };
            match replacement.apply(&text) {
                // The exact text is there, so nothing else may match.
                Ok(done) => {
                    prop_assert_eq!(done.remark, None);
                    prop_assert_eq!(done.text, format!("{before}{new}{after}"));
                }
                Err(error) => prop_assert!(
                    places_of(&text, &old).len() > 1 || old == new, "{}", error
                ),
            }
        }

        #[test]
        fn any_text_is_survived(text in any::<String>(), old in any::<String>(), new in "[a\n ]{0,4}") {
            let _any = Replacement { old: &old, new: &new, all: false }.apply(&text);
        }
    }
}

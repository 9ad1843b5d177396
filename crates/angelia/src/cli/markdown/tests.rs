//! Tests of rows and of the resulting screen, with the text arriving in arbitrary pieces.

use proptest::prelude::*;

use super::*;
use crate::cli::{
    run::open_rows::{OpenRows, ScreenSize},
    text_width::columns,
};

/// Every kind of Markdown that models write.
pub(crate) const SAMPLE: &str = include_str!("sample.md");

/// A model of a terminal that understands our output: a cursor, a screen and the lines that have
/// scrolled off.
struct TerminalModel {
    size: ScreenSize,
    lines: Vec<String>,
    row: usize,
    /// The first line that is still on the screen.
    top: usize,
}

impl TerminalModel {
    fn new(size: ScreenSize) -> Self {
        Self { size, lines: vec![String::new()], row: 0, top: 0 }
    }

    fn write(&mut self, text: &str) {
        let mut rest = text;
        let mut at_start = false;
        while let Some(char) = rest.chars().next() {
            if let Some(sequence) = rest.strip_prefix("\x1b[") {
                let end = sequence.find(|char: char| char.is_ascii_alphabetic()).unwrap();
                let (number, name) = (&sequence[..end], &sequence[end..=end]);
                match name {
                    "A" => {
                        assert_eq!(number, "", "one row at a time");
                        self.row = self.row.saturating_sub(1).max(self.top);
                    }
                    "K" => {
                        assert!(at_start, "only whole rows are cleared");
                        self.lines[self.row].clear();
                        let below = &self.lines[self.row + 1..];
                        assert!(below.iter().all(String::is_empty), "rows are cleared upwards");
                        self.lines.truncate(self.row + 1);
                    }
                    "m" => {}
                    other => panic!("{other:?} is not one of our sequences"),
                }
                rest = &sequence[end + 1..];
                continue;
            }
            match char {
                '\r' => at_start = true,
                '\n' => {
                    self.row += 1;
                    at_start = false;
                    if self.row == self.lines.len() {
                        self.lines.push(String::new());
                    }
                    self.top = self.top.max((self.row + 1).saturating_sub(self.size.rows));
                }
                char => {
                    assert!(!char.is_control(), "{char:?} reaches the terminal");
                    self.lines[self.row].push(char);
                    let used = columns(&self.lines[self.row]);
                    assert!(used < self.size.columns, "{:?} is too wide", self.lines[self.row]);
                }
            }
            rest = &rest[char.len_utf8()..];
        }
    }
}

/// Returns the screen after a text that came in these pieces, with the lines that have scrolled
/// off.
fn show(pieces: &[&str], size: ScreenSize, has_colour: bool) -> Vec<String> {
    let options = LayoutOptions { width: size.columns - 1, has_colour };
    let mut terminal = TerminalModel::new(size);
    let mut rows = OpenRows::default();
    let mut stream = MarkdownStream::default();
    for piece in pieces {
        let done = stream.push(piece, options);
        terminal.write(&rows.replace(&done, stream.open_rows(options), size));
    }
    let done = stream.finish(options);
    terminal.write(&rows.replace(&done, Vec::new(), size));
    terminal.lines
}

fn plain(text: &str, columns: usize) -> String {
    show(&[text], ScreenSize { columns, rows: 24 }, false).join("\n")
}

#[test]
fn an_answer_is_laid_out_for_the_width() {
    let coloured = |columns: usize| {
        let options = LayoutOptions { width: columns - 1, has_colour: true };
        let rows = {
            let mut stream = MarkdownStream::default();
            let mut rows = stream.push(SAMPLE, options);
            rows.extend(stream.finish(options));
            rows
        };
        let text: Vec<String> = rows.into_iter().map(|row| row.text).collect();
        text.join("\n").replace('\x1b', "␛")
    };
    insta::assert_snapshot!("at_80_columns", coloured(80));
    insta::assert_snapshot!("at_40_columns", coloured(40));
    insta::assert_snapshot!("without_colours", plain(SAMPLE, 60));
}

#[test]
fn the_text_is_shown_while_it_arrives() {
    let options = LayoutOptions { width: 30, has_colour: false };
    let mut stream = MarkdownStream::default();
    let open = |stream: &MarkdownStream| -> Vec<String> {
        stream.open_rows(options).into_iter().map(|row| row.text).collect()
    };
    assert!(stream.push("A **bo", options).is_empty());
    assert_eq!(open(&stream), ["A **bo"]);
    assert!(stream.push("ld** word\n-", options).is_empty());
    assert_eq!(open(&stream), ["A **bold** word"], "a mark alone is not shown yet");
    let done = stream.push(" item\n```sh\nls -l\ncat", options);
    let done: Vec<_> = done.iter().map(|row| row.text.as_str()).collect();
    assert_eq!(done, ["A **bold** word", "• item", "  ls -l"], "lines of code do not wait");
    assert_eq!(open(&stream), ["  cat"]);
}

#[test]
fn what_only_looks_like_markdown_is_kept() {
    assert_eq!(plain("2 * 3 * 4 and a_b_c and <T>", 60), "2 * 3 * 4 and a_b_c and <T>\n");
    assert_eq!(plain("an *unclosed **mark", 60), "an *unclosed **mark\n");
    assert_eq!(plain("~~~\nnever closed", 60), "  never closed\n");
    assert_eq!(plain("&#27;[2J &#9; \x1b[2J", 60), "␛[2J ␛[2J\n");
    assert_eq!(plain("one\r\ntwo\r\n\r\nthree", 60), "one two\n\nthree\n");
}

#[test]
fn words_are_wrapped_and_wide_characters_too() {
    assert_eq!(plain("aaa bbb ccc", 8), "aaa bbb\nccc\n");
    assert_eq!(plain("- aaa bbb ccc", 10), "• aaa bbb\n  ccc\n");
    assert_eq!(plain("> aaa bbb ccc", 10), "│ aaa bbb\n│ ccc\n");
    assert_eq!(plain("日本語、日本語。", 8), "日本\n語、日\n本語。\n");
    assert_eq!(plain("abcdefghij", 6), "abcde\nfghij\n");
    assert_eq!(plain("```\nabcdefghij\n```", 8), "  abcde\n  fghij\n");
}

#[test]
fn a_table_that_does_not_fit_is_a_list() {
    let table = "| name | meaning |\n|:--|--:|\n| a | first of all |\n| bcd | second |\n";
    assert_eq!(
        plain(table, 40),
        "name │      meaning\n─────┼─────────────\na    │ first of all\nbcd  │       second\n"
    );
    assert_eq!(
        plain(table, 14),
        "name: a\nmeaning:\nfirst of all\n\nname: bcd\nmeaning:\nsecond\n"
    );
}

fn fragments() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "# Heading\n",
        "\n",
        "\n\n",
        "- item\n",
        "  - nested\n",
        "1. one\n",
        "2) two\n",
        "```rust\n",
        "```\n",
        "~~~\n",
        "**",
        "*",
        "`",
        "_",
        "`code`",
        "> quote\n",
        ">",
        "---\n",
        "===\n",
        "| a | b |\n",
        "|---|:-:|\n",
        "| 1 | 2 |\n",
        "日本語のテキスト。",
        "[text](https://example.org/a)",
        "![alt](p.png)",
        "<https://example.org>",
        "<b>",
        "~~struck~~",
        "- [x] done\n",
        "    indented\n",
        "\t",
        "&#27;",
        "&#10;",
        "\x1b[2J",
        "\r\n",
        "\u{9b}",
        "👩‍💻",
        "e\u{301}",
        "\\",
        "  \n",
        " ",
        "word ",
        "another-long-word ",
        "https://example.org/a/very/long/address/that/does/not/fit ",
    ]);
    let part = prop_oneof![4 => known.prop_map(str::to_owned), 1 => "[ -~]{0,12}", 1 => ".{0,6}"];
    prop::collection::vec(part, 0..40).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// The pieces in which a text arrives leave no trace, no row is too wide, and no control
    /// character reaches the terminal (the model of the terminal checks the last two).
    #[test]
    fn any_text_cut_anywhere_gives_the_same_screen(
        text in fragments(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..30),
        columns in 10_usize..90,
        rows in 3_usize..30,
        has_colour: bool,
    ) {
        let size = ScreenSize { columns, rows };
        let whole = show(&[&text], size, has_colour);
        let mut places: Vec<usize> =
            cuts.iter().map(|cut| text.floor_char_boundary(cut.index(text.len() + 1))).collect();
        places.push(text.len());
        places.sort_unstable();
        let mut begin = 0;
        let mut pieces = Vec::new();
        for place in places {
            pieces.push(&text[begin..place]);
            begin = place;
        }
        prop_assert_eq!(&show(&pieces, size, has_colour), &whole);
        let single: Vec<&str> = text.split_inclusive(|_: char| true).collect();
        prop_assert_eq!(&show(&single, size, has_colour), &whole);
    }

    /// No letter is lost on the way.
    #[test]
    fn every_word_is_shown(words in prop::collection::vec("[a-zA-Z日本語]{1,20}", 1..60), columns in 12_usize..90) {
        for text in [words.join(" "), words.join("\n- "), format!("```\n{}\n```", words.join("\n"))] {
            let shown: String = plain(&text, columns).chars().filter(|char| char.is_alphabetic()).collect();
            let said: String = text.chars().filter(|char| char.is_alphabetic()).collect();
            prop_assert_eq!(shown, said);
        }
    }
}

/// A block that never ends does not make each piece of it more expensive.
#[test]
fn an_endless_paragraph_is_passed_on() {
    let options = LayoutOptions { width: 79, has_colour: true };
    let mut stream = MarkdownStream::default();
    let mut rows = 0;
    for _ in 0..20_000 {
        rows += stream.push("word ", options).len();
    }
    assert!(rows > 1000, "{rows}");
    let long_line = "x".repeat(40_000);
    assert_eq!(
        show(&[&long_line], ScreenSize { columns: 80, rows: 24 }, false).concat(),
        long_line
    );
}

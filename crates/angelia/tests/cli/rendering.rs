//! Answers as a real terminal shows them: Markdown, wide and narrow, resized, without colours, raw.

use std::{fs, os::unix::fs::PermissionsExt as _, thread, time::Duration};

use crate::{
    machine::{Machine, until},
    tmux::TmuxTerminal,
};

/// The demo agent repeats it. The last words come one by one.
const ANSWER: &str = "an answer:

# Result

Some **bold**, *slanted* and `code` words that are longer than a narrow line, and 日本語のテキストも折り返されます。

1. first
   - nested
2. second

> quoted

| name | what it means |
|------|--------------:|
| a    | the first one |

```rust
fn main() {}
```
!words 3 20";

/// The text on the screen below the lines about the agent, without the parts that differ from run
/// to run.
fn answer_of(text: &str) -> String {
    let begin = text.find("You said").unwrap_or_else(|| panic!("no answer:\n{text}"));
    let end = text[begin..].find(" in · ").map_or(text.len(), |place| begin + place);
    let end = text[begin..end].rfind('\n').map_or(end, |place| begin + place);
    text[begin..end].to_owned()
}

/// Runs `angelia run` with the answer in a file, so that the shell changes nothing in it.
fn open<'a>(machine: &'a Machine, columns: u32, before: &str, options: &str) -> TmuxTerminal<'a> {
    fs::write(machine.work().join("prompt.md"), ANSWER).unwrap();
    let line = format!("{before} $ANGELIA run {options} \"$(cat prompt.md)\"");
    TmuxTerminal::open(machine, columns, &line)
}

#[test]
fn markdown_is_rendered_at_80_and_at_40_columns() {
    let machine = Machine::with_shell();
    for columns in [80, 40] {
        let terminal = open(&machine, columns, "", "");
        let text = terminal.wait_for_end(0);
        insta::assert_snapshot!(format!("answer_at_{columns}_columns"), answer_of(&text));
        let coloured = terminal.coloured_text();
        for code in ["\x1b[1m", "\x1b[3m", "\x1b[36m", "\x1b[2m"] {
            assert!(coloured.contains(code), "{code:?}: {coloured:?}");
        }
    }
}

#[test]
fn without_colours_the_marks_stay() {
    let machine = Machine::with_shell();
    let terminal = open(&machine, 60, "NO_COLOR=1", "");
    let text = terminal.wait_for_end(0);
    insta::assert_snapshot!("answer_without_colours", answer_of(&text));
    assert!(!terminal.coloured_text().contains("\x1b["), "{text}");
}

/// A dumb terminal, `--raw` and a pipe get the source.
#[test]
fn the_source_is_printed_where_it_is_asked_for() {
    let machine = Machine::with_shell();
    for (before, options) in [("TERM=dumb", ""), ("", "--raw")] {
        let terminal = open(&machine, 80, before, options);
        let text = terminal.wait_for_end(0);
        for line in ["# Result", "Some **bold**, *slanted*", "| a    | the first one |", "```rust"]
        {
            assert!(text.contains(line), "{line}:\n{text}");
        }
    }
    let piped = machine.angelia(&["run", ANSWER]);
    let said = ANSWER.replace("an answer", "You said: an answer").replace("!words 3 20", "");
    assert_eq!(piped.stdout, format!("{}\n\nword1 word2 word3\n", said.trim_end()));
}

/// An answer that is longer than the screen, in a window that becomes narrow meanwhile: every word
/// is there once.
#[test]
fn a_resized_window_loses_nothing() {
    let machine = Machine::with_shell();
    let terminal = TmuxTerminal::open(&machine, 80, "$ANGELIA run '!words 400 10'");
    terminal.wait_for("word20 ");
    terminal.resize(40);
    let text = terminal.wait_for_end(0);
    let words: Vec<&str> =
        text.split_whitespace().filter(|word| word.starts_with("word")).collect();
    let expected: Vec<String> = (1..=400).map(|number| format!("word{number}")).collect();
    assert_eq!(words, expected, "{text}");
    let long = text.lines().filter(|line| line.starts_with("word")).any(|line| line.len() > 40);
    assert!(!long, "{text}");
}

#[test]
fn the_text_appears_while_it_arrives() {
    let machine = Machine::with_shell();
    let terminal = TmuxTerminal::open(&machine, 40, "$ANGELIA run '!words 5 1\n!words 1000 200'");
    let text = terminal.wait_for("word3 ");
    assert!(!text.contains("[ended"), "{text}");
    terminal.type_keys(&["C-c"]);
    let text = terminal.wait_for_end(130);
    assert!(text.contains("interrupted"), "{text}");
}

#[test]
fn tools_end_with_a_mark_and_their_time() {
    let machine = Machine::with_shell();
    let prompt = "!tool Read 1200\n!ask rm it\n!write notes.txt 2";
    let terminal = TmuxTerminal::open(&machine, 60, &format!("$ANGELIA run '{prompt}'"));
    terminal.wait_for("[q]uit?");
    terminal.type_keys(&["n", "Enter"]);
    terminal.wait_for("[d]iff [q]uit?");
    terminal.type_keys(&["y", "Enter"]);
    let text = terminal.wait_for_end(0);
    let read = text.lines().find(|line| line.starts_with("✓ Read")).unwrap();
    let seconds = read.rsplit(" · ").next().unwrap().trim_end_matches(" s");
    assert!(seconds.parse::<f64>().unwrap() >= 1.2, "{text}");
    assert!(text.lines().any(|line| line.starts_with("✗ Bash rm it")), "{text}");
    assert!(text.lines().any(|line| line.starts_with("✓ Write notes.txt")), "{text}");
    // The diff can be looked at later, too.
    let turn = machine.list("turns")[0]["id"].as_str().unwrap().to_owned();
    let shown = machine.angelia(&["turns", "show", "--diff", &turn]);
    shown.assert_code(0).assert_stdout("\nWrite notes.txt · once by owner\n--- /dev/null\n");
    shown.assert_stdout("+pretended line 2\n");
}

#[test]
fn the_diff_of_the_last_edit_is_shown_on_request() {
    let machine = Machine::with_shell();
    let line = "$ANGELIA run '!write notes.txt 50\n!hang'";
    let terminal = TmuxTerminal::open(&machine, 80, line);
    terminal.wait_for("[d]iff [q]uit?");
    assert!(!terminal.text().contains("+pretended line 50"));
    terminal.type_keys(&["y", "Enter"]);
    terminal.wait_for("✓ Write");
    terminal.type_keys(&["d", "Enter"]);
    terminal.wait_for("+pretended line 50");
    terminal.type_keys(&["/stop", "Enter"]);
    terminal.wait_for_end(130);
}

#[test]
fn an_edit_that_nobody_was_asked_about_is_shown_too() {
    let machine = Machine::with_shell();
    machine.configure("profiles:\n  default: {executor: parrot, permissions: edit}\n");
    let line = "$ANGELIA run '!write notes.txt 50\n!hang'";
    let terminal = TmuxTerminal::open(&machine, 80, line);
    terminal.wait_for("✓ Write");
    assert!(!terminal.text().contains("[q]uit?"));
    terminal.type_keys(&["d", "Enter"]);
    terminal.wait_for("+pretended line 50");
    terminal.type_keys(&["/stop", "Enter"]);
    terminal.wait_for_end(130);
    let shown = machine.angelia(&["turns", "show", "--diff", "last"]);
    shown.assert_code(0).assert_stdout("\nWrite notes.txt · nobody was asked\n--- /dev/null\n");
    shown.assert_stdout("+pretended line 50\n");
    machine.angelia(&["run", "hello"]).assert_code(0);
    machine.angelia(&["turns", "show", "--diff", "last"]).assert_stdout("no edits");
}

#[test]
fn an_edit_is_asked_about_with_its_diff() {
    let machine = Machine::with_shell();
    fs::write(machine.work().join("known.txt"), "old line\npretended line 2\n").unwrap();
    let terminal = TmuxTerminal::open(&machine, 80, "$ANGELIA run '!write known.txt 2'");
    let text = terminal.wait_for("[q]uit?");
    let begin = text.find("? Write").unwrap();
    let shown = text[begin..].replace(&*machine.work().to_string_lossy(), "WORK");
    insta::assert_snapshot!("approval_with_a_diff", shown);
    terminal.type_keys(&["n", "Enter"]);
    terminal.wait_for_end(0);
}

/// A question that nobody has answered for a while is shown on the desktop, without its words.
#[test]
fn a_waiting_question_is_shown_on_the_desktop() {
    let mut machine = Machine::with_shell();
    let bin = machine.place.root().join("bin");
    fs::create_dir_all(&bin).unwrap();
    let told = machine.place.root().join("told");
    let program = bin.join("notify-send");
    fs::write(&program, format!("#!/bin/sh\nprintf '%s|' \"$@\" >> '{}'\n", told.display()))
        .unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    machine.set("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display()));
    machine.set("DISPLAY", ":7");
    let terminal = TmuxTerminal::open(&machine, 80, "$ANGELIA run '!ask rm \"$HOME\"'");
    terminal.wait_for("[q]uit?");
    until("the desktop is told", || told.exists());
    terminal.type_keys(&["n", "Enter"]);
    terminal.wait_for_end(0);
    let place = machine.work().file_name().unwrap().to_string_lossy().into_owned();
    assert_eq!(
        fs::read_to_string(&told).unwrap(),
        format!("--app-name=angelia|--|Angelia|{place}: an agent waits for your answer|")
    );
    // Switched off, nobody is told.
    fs::remove_file(&told).unwrap();
    machine.configure("desktop_notifications: off\n");
    let terminal = TmuxTerminal::open(&machine, 80, "$ANGELIA run '!ask rm it'");
    terminal.wait_for("[q]uit?");
    thread::sleep(Duration::from_millis(5500));
    terminal.type_keys(&["n", "Enter"]);
    terminal.wait_for_end(0);
    assert!(!told.exists());
}

//! Tests of the screen of a real terminal: tmux, wide and narrow, resized, without colours.

use std::{thread, time::Duration};

use crate::{
    machine::{Machine, SAYS_AND_HANGS},
    tmux::TmuxTerminal,
};

/// Lines of the screen that contain a text.
fn lines_with<'a>(text: &'a str, part: &str) -> Vec<&'a str> {
    text.lines().filter(|line| line.contains(part)).collect()
}

#[test]
fn keys_typed_before_a_question_do_not_answer_it() {
    let machine = Machine::with_shell();
    let line = "$ANGELIA run '!tool Read 1500\n!ask rm everything\n!ask rm the rest'";
    let terminal = TmuxTerminal::open(&machine, 80, line);
    terminal.wait_for("Read pretended");
    // A whole line, and the beginning of one.
    terminal.type_keys(&["y", "Enter", "y"]);
    terminal.wait_for("[y]es");
    terminal.type_keys(&["Enter"]);
    thread::sleep(Duration::from_millis(500));
    let text = terminal.text();
    assert!(!text.contains("→"), "nobody has answered:\n{text}");
    // Two answers at once: the second is typed before the next question is there.
    terminal.type_keys(&["y", "Enter", "y", "Enter"]);
    terminal.wait_for("? rm the rest");
    thread::sleep(Duration::from_millis(800));
    let text = terminal.text();
    assert_eq!(lines_with(&text, "→ once (by owner)").len(), 1, "{text}");
    assert!(!text.contains("[ended"), "{text}");
    terminal.type_keys(&["n", "Enter"]);
    let text = terminal.wait_for_end(0);
    assert_eq!(lines_with(&text, "→ deny (by owner)").len(), 1, "{text}");
}

#[test]
fn a_long_title_takes_one_line_whatever_the_width() {
    let machine = Machine::with_shell();
    let title = format!("LONG_{}_日本語", "x".repeat(300));
    for columns in [80, 40] {
        let line = format!("$ANGELIA run '!tool {title} 2500\n!words 3'");
        let terminal = TmuxTerminal::open(&machine, columns, &line);
        terminal.wait_for("LONG_");
        thread::sleep(Duration::from_millis(600));
        let during = terminal.wait_for("LONG_");
        assert_eq!(lines_with(&during, "LONG_").len(), 1, "the spinner:\n{during}");
        if columns == 80 {
            terminal.resize(40);
            thread::sleep(Duration::from_millis(600));
            let narrow = terminal.text();
            let spinners = narrow.lines().filter(|line| line.starts_with(is_spinner)).count();
            assert_eq!(spinners, 1, "the spinner was drawn anew:\n{narrow}");
        }
        let text = terminal.wait_for_end(0);
        assert_eq!(lines_with(&text, "✓ LONG_").len(), 1, "only the tool remains:\n{text}");
        assert!(!text.contains(is_spinner), "{text}");
        assert!(text.contains("word1 word2 word3"), "{text}");
    }
}

fn is_spinner(char: char) -> bool {
    ('\u{2801}'..='\u{28ff}').contains(&char)
}

#[test]
fn a_dumb_terminal_gets_plain_lines() {
    let machine = Machine::with_shell();
    let line = "TERM=dumb $ANGELIA run '!tool Read 400\n!words 3' 2>&1 | cat -v; TERM=dumb $ANGELIA \
                run '!tool Read 400\n!words 3'";
    let terminal = TmuxTerminal::open(&machine, 80, line);
    let text = terminal.wait_for_end(0);
    assert!(text.contains("• Read pretended.txt") && text.contains("word1 word2 word3"), "{text}");
    assert!(!text.contains(is_spinner), "{text}");
    assert!(!terminal.coloured_text().contains('\x1b'), "{text}");
}

#[test]
fn a_question_and_its_options_are_shown_once() {
    let machine = Machine::with_shell();
    let terminal = TmuxTerminal::open(&machine, 40, "$ANGELIA run '!question'");
    let asked = terminal.wait_for("number or text");
    assert_eq!(lines_with(&asked, "?").len(), 1, "{asked}");
    assert_eq!(lines_with(&asked, "number or text").len(), 1, "{asked}");
    assert_eq!(lines_with(&asked, "1. ").len(), 1, "{asked}");
    terminal.type_keys(&["1", "Enter"]);
    terminal.wait_for_end(0);
}

#[test]
fn what_each_answer_means_is_explained_on_request() {
    let machine = Machine::with_shell();
    let terminal = TmuxTerminal::open(&machine, 80, "$ANGELIA run '!ask rm everything'");
    terminal.wait_for("[y]es [s]ession [a]lways [n]o [e]xplain [q]uit?");
    terminal.type_keys(&["e", "Enter"]);
    let text = terminal.wait_for("angelia approvals approve");
    assert!(text.contains("a  allows it in this directory from now on: "), "{text}");
    terminal.type_keys(&["q", "Enter"]);
    terminal.wait_for_end(130);
}

#[test]
fn an_edit_is_approved_with_its_diff_in_sight() {
    let machine = Machine::with_shell();
    std::fs::write(machine.work().join("known.txt"), "old line\x1b[2J\npretended line 2\n")
        .unwrap();
    let line = "$ANGELIA run '!write known.txt 2'; $ANGELIA run '!write fresh.txt 100'";
    let terminal = TmuxTerminal::open(&machine, 80, line);
    let prompt = "[y]es [s]ession [a]lways [n]o [e]xplain [d]iff [q]uit?";
    let text = terminal.wait_for(prompt);
    let diff = "--- a/known.txt\n+++ b/known.txt\n@@ -1,2 +1,2 @@\n-old line␛[2J\n+pretended line 1\n \
                pretended line 2\n";
    assert!(text.contains(diff), "{text}");
    let coloured = terminal.coloured_text();
    assert!(coloured.contains("\x1b[31m") && coloured.contains("\x1b[32m"), "{coloured:?}");
    terminal.type_keys(&["n", "Enter"]);
    // A new file, of which only the beginning is shown.
    terminal.wait_for("? Write fresh.txt");
    terminal.wait_for("… 63 more lines: [d]iff");
    until_prompts(&terminal, prompt, 2);
    let text = terminal.text();
    assert!(
        text.contains("--- /dev/null\n+++ b/fresh.txt\n@@ -0,0 +1,100 @@\n+pretended line 1\n")
    );
    assert!(text.contains("+pretended line 37\n") && !text.contains("+pretended line 38\n"));
    terminal.type_keys(&["d", "Enter"]);
    terminal.wait_for("+pretended line 100\n");
    terminal.type_keys(&["y", "Enter"]);
    let text = terminal.wait_for_end(0);
    assert!(text.contains("You allowed"), "{text}");
    assert!(!machine.work().join("fresh.txt").exists(), "a parrot only pretends");
}

#[track_caller]
fn until_prompts(terminal: &TmuxTerminal<'_>, prompt: &str, count: usize) {
    crate::machine::until("the prompts are shown", || {
        lines_with(&terminal.text(), prompt).len() == count
    });
}

/// Another terminal sees the same diff, cut in the list and whole by itself.
#[test]
fn an_approval_is_listed_and_shown_with_its_diff() {
    let machine = Machine::with_shell();
    let daemon = machine.serve();
    let terminal = TmuxTerminal::open(&machine, 40, "$ANGELIA run '!write fresh.txt 100'");
    terminal.wait_for("[q]uit?");
    let approval = &machine.list("approvals")[0];
    let id = approval["id"].as_str().unwrap();
    let diff = approval["diff"].as_str().unwrap();
    assert!(diff.ends_with("+pretended line 100\n"), "{approval}");
    let session = &approval["session"];
    assert_eq!(session["id"], approval["session_id"]);
    assert_eq!(session["profile"], "default");
    assert_eq!(session["cwd"].as_str().unwrap(), machine.work().to_str().unwrap());
    let listed = machine.angelia(&["approvals", "list"]);
    listed.assert_code(0).assert_stdout("    +pretended line 37\n");
    listed.assert_stdout(&format!("    … 63 more lines: angelia approvals show {id}\n"));
    let shown = machine.angelia(&["approvals", "show", id]);
    shown
        .assert_code(0)
        .assert_stdout("    +pretended line 100\n")
        .assert_stdout("profile default");
    let json = machine.angelia(&["approvals", "show", id, "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["diff"], diff);
    machine.angelia(&["approvals", "approve", id]).assert_code(0);
    // The prompt is withdrawn from the terminal that shows it.
    let text = terminal.wait_for_end(0);
    assert!(text.contains("→ once (by owner)"), "{text}");
    daemon.stop().assert_code(0);
}

#[test]
fn whoever_stops_watching_is_left_at_the_start_of_a_line() {
    let machine = Machine::with_shell();
    let daemon = machine.serve();
    let running = machine.start(&["run", SAYS_AND_HANGS]);
    running.wait_for_stdout("said before");
    let turn = machine.list("turns")[0]["id"].as_str().unwrap().to_owned();
    let terminal = TmuxTerminal::open(&machine, 80, &format!("$ANGELIA turns watch {turn}"));
    terminal.wait_for("✓ Wait");
    terminal.type_keys(&["C-c"]);
    let text = terminal.wait_for_end(130);
    assert!(text.lines().any(|line| line == "[ended with 130]"), "{text}");
    assert!(!text.contains(is_spinner), "{text}");
    daemon.stop().assert_code(0);
}

/// The terminal of a turn says why the turn has ended when the daemon in another one is stopped.
#[test]
fn a_daemon_that_is_stopped_is_named_as_the_reason() {
    let machine = Machine::with_shell();
    machine.configure("drain: 0\n");
    let daemon = machine.serve();
    let line = format!("$ANGELIA run '{SAYS_AND_HANGS}'");
    let terminal = TmuxTerminal::open(&machine, 80, &line);
    terminal.wait_for("✓ Wait");
    daemon.stop().assert_code(0);
    let text = terminal.wait_for_end(130);
    assert!(text.contains("interrupted: angelia was shut down\n"), "{text}");
    assert!(text.contains("the daemon that ran the turn was stopped"), "{text}");
}

#[test]
fn what_was_not_used_is_not_counted() {
    let machine = Machine::with_shell();
    let terminal = TmuxTerminal::open(&machine, 80, "$ANGELIA run '!fail auth'");
    let text = terminal.wait_for_end(77);
    assert!(!text.contains(" in · ") && !text.contains("0 out"), "{text}");
}

//! A person at a terminal: the output, the questions, and a typed Ctrl-C.
//!
//! `script` provides the terminal; its standard input is what is typed.

use std::{io::Write as _, process::Stdio};

use crate::{
    agent_processes::agent_pids,
    machine::{ANGELIA, Machine, ProgramOutput, RunningCommand, SAYS_AND_HANGS},
};

struct Terminal {
    running: RunningCommand,
    keyboard: std::process::ChildStdin,
}

impl Terminal {
    fn open(machine: &Machine, arguments: &str) -> Self {
        let mut command = machine.program("/usr/bin/script");
        let line = format!("stty -echo; exec '{ANGELIA}' {arguments}");
        command.args(["-qefc", &line, "/dev/null"]).env("TERM", "xterm").env("SHELL", "/bin/sh");
        let mut running = RunningCommand::spawn(command, Stdio::piped());
        let keyboard = running.child.stdin.take().unwrap();
        Self { running, keyboard }
    }

    fn type_in(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }

    fn wait(self) -> ProgramOutput {
        let ran = self.running.wait();
        drop(self.keyboard);
        ran
    }
}

#[test]
fn a_turn_is_shown_with_its_tools_and_its_price() {
    let machine = Machine::with_shell();
    let ran = Terminal::open(&machine, "run '!tool Read 300\n!words 3'").wait();
    ran.assert_code(0)
        .assert_stdout("parrot · parrot")
        .assert_stdout("✓ Read pretended.txt")
        .assert_stdout("word1 word2 word3");
    ran.assert_stdout(" in · ").assert_stdout(" out · $0.00 · ");
    ran.assert_stdout("\x1b[2m").assert_stdout("\r\x1b[K");
}

#[test]
fn colours_are_left_out_where_they_are_not_wanted() {
    let mut machine = Machine::with_shell();
    machine.set("NO_COLOR", "1");
    let ran = Terminal::open(&machine, "run '!tool Read\n!words 3'").wait();
    ran.assert_code(0).assert_stdout("✓ Read pretended.txt");
    assert!(!ran.stdout.contains("\x1b[2m") && !ran.stdout.contains("\x1b[33m"), "{ran:#?}");
}

#[test]
fn an_approval_is_asked_and_answered() {
    let machine = Machine::with_shell();
    for (keys, allowed) in [("y\n", true), ("nonsense\nn\n", false)] {
        let mut terminal = Terminal::open(&machine, "run '!ask rm everything'");
        terminal.running.wait_for_stdout("[y]es");
        terminal.type_in(keys);
        let ran = terminal.wait();
        ran.assert_code(0).assert_stdout("rm everything");
        ran.assert_stdout(if allowed { "→ once (by owner)" } else { "→ deny (by owner)" });
    }
    let mut terminal = Terminal::open(&machine, "run '!ask rm everything'");
    terminal.running.wait_for_stdout("[y]es");
    terminal.type_in("q\n");
    terminal.wait().assert_code(130);
}

/// The sequences of a model, a tool or an agent are shown: they must not move the cursor, fill the
/// clipboard or set the title.
#[test]
fn escape_sequences_are_shown_and_not_sent() {
    let machine = Machine::with_shell();
    let osc = "\x1b]52;c;ZXZpbA==\x07";
    for (prompt, shown) in [
        (format!("{osc} \u{9b}2J"), "␛]52;c;ZXZpbA==␇"),
        (format!("!ask rm {osc}"), "␛]52;c;ZXZpbA==␇"),
    ] {
        let mut terminal = Terminal::open(&machine, &format!("run '{prompt}'"));
        if prompt.starts_with("!ask") {
            terminal.running.wait_for_stdout("[y]es");
            terminal.type_in("y\n");
        }
        let ran = terminal.wait();
        ran.assert_code(0).assert_stdout(shown);
        assert!(!ran.stdout.contains("\x1b]") && !ran.stdout.contains('\u{9b}'), "{ran:#?}");
    }
    // The record is shown later in the same way, and a pipe gets the text unchanged.
    let id = machine.list("turns")[1]["id"].as_str().unwrap().to_owned();
    let ran = Terminal::open(&machine, &format!("turns show {id}")).wait();
    ran.assert_code(0).assert_stdout("␛]52;c;ZXZpbA==␇");
    assert!(!ran.stdout.contains("\x1b]"), "{ran:#?}");
    machine.angelia(&["turns", "show", &id]).assert_code(0).assert_stdout(osc);
    machine.angelia(&["run", osc]).assert_code(0).assert_stdout(osc);
}

#[test]
fn a_question_is_asked_and_answered() {
    let machine = Machine::with_shell();
    let mut terminal = Terminal::open(&machine, "run '!question'");
    terminal.running.wait_for_stdout("number or text");
    terminal.type_in("aubergine\n");
    terminal.wait().assert_code(0).assert_stdout("aubergine");
}

#[test]
fn an_approval_reaches_the_person_through_the_daemon() {
    let machine = Machine::with_shell();
    let serving = machine.serve();
    let mut terminal = Terminal::open(&machine, "run '!ask rm everything'");
    terminal.running.wait_for_stdout("[y]es");
    terminal.type_in("s\n");
    terminal.wait().assert_code(0).assert_stdout("→ session (by owner)");
    serving.stop().assert_code(0);
}

#[test]
fn where_nobody_can_answer_it_is_declined_and_said() {
    let machine = Machine::new();
    for arguments in [&["run", "!ask rm everything"][..], &["run", "--json", "!ask rm everything"]]
    {
        let ran = machine.angelia(arguments);
        ran.assert_code(0);
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(said.contains("nobody is there to approve it"), "{ran:#?}");
        assert!(said.contains("allowed_tools"), "{ran:#?}");
    }
}

#[test]
fn ctrl_c_as_it_is_typed_interrupts() {
    let machine = Machine::with_shell();
    let mut terminal = Terminal::open(&machine, &format!("run '{SAYS_AND_HANGS}'"));
    terminal.running.wait_for_stdout("said before");
    terminal.type_in("\x03");
    terminal.wait().assert_code(130).assert_stdout("interrupting").assert_stdout("interrupted");
    assert_eq!(machine.list("turns")[0]["status"], "interrupted");
    assert!(agent_pids(&machine).is_empty());
}

#[test]
fn a_terminal_that_goes_away_takes_its_turn_along() {
    let machine = Machine::with_shell();
    let terminal = Terminal::open(&machine, &format!("run '{SAYS_AND_HANGS}'"));
    terminal.running.wait_for_stdout("said before");
    // Killing `script` closes the terminal, so the kernel sends SIGHUP.
    terminal.running.signal(rustix::process::Signal::KILL);
    drop(terminal);
    crate::machine::until("the turn ends", || {
        machine.list("turns")[0]["status"] == "interrupted" && agent_pids(&machine).is_empty()
    });
}

#[test]
fn no_prompt_at_a_terminal_is_no_prompt() {
    let machine = Machine::with_shell();
    Terminal::open(&machine, "run").wait().assert_code(2).assert_stdout("there is no prompt");
}

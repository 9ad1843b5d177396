//! A person at a terminal: the output, the questions, and a typed Ctrl-C.
//!
//! `script` provides the terminal; its standard input is what is typed.

use std::{io::Write as _, process::Stdio};

use crate::{
    agents::marked,
    stage::{ANGELIA, Machine, Ran, Running, SAYS_AND_HANGS},
};

struct Terminal {
    running: Running,
    keyboard: std::process::ChildStdin,
}

impl Terminal {
    fn open(machine: &Machine, arguments: &str) -> Self {
        let mut command = machine.program("/usr/bin/script");
        let line = format!("stty -echo; exec '{ANGELIA}' {arguments}");
        command.args(["-qefc", &line, "/dev/null"]).env("TERM", "xterm").env("SHELL", "/bin/sh");
        let mut running = Running::of(command, Stdio::piped());
        let keyboard = running.child.stdin.take().unwrap();
        Self { running, keyboard }
    }

    fn type_in(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }

    fn wait(self) -> Ran {
        let ran = self.running.wait();
        drop(self.keyboard);
        ran
    }
}

#[test]
fn a_turn_is_shown_with_its_tools_and_its_price() {
    let machine = Machine::with_shell();
    let ran = Terminal::open(&machine, "run '!tool Read 300\n!words 3'").wait();
    ran.is(0).says("parrot · parrot").says("• Read pretended.txt").says("word1 word2 word3");
    ran.says(" in, ").says(" out, cache ").says("$0.0000");
    ran.says("\x1b[2m").says("\r\x1b[K");
}

#[test]
fn colours_are_left_out_where_they_are_not_wanted() {
    let mut machine = Machine::with_shell();
    machine.set("NO_COLOR", "1");
    let ran = Terminal::open(&machine, "run '!tool Read\n!words 3'").wait();
    ran.is(0).says("• Read pretended.txt");
    assert!(!ran.stdout.contains("\x1b[2m") && !ran.stdout.contains("\x1b[33m"), "{ran:#?}");
}

#[test]
fn an_approval_is_asked_and_answered() {
    let machine = Machine::with_shell();
    for (keys, allowed) in [("y\n", true), ("nonsense\nn\n", false)] {
        let mut terminal = Terminal::open(&machine, "run '!ask rm everything'");
        terminal.running.until_says("[y]es once");
        terminal.type_in(keys);
        let ran = terminal.wait();
        ran.is(0).says("rm everything");
        ran.says(if allowed { "→ once (by owner)" } else { "→ deny (by owner)" });
    }
    let mut terminal = Terminal::open(&machine, "run '!ask rm everything'");
    terminal.running.until_says("[y]es once");
    terminal.type_in("q\n");
    terminal.wait().is(130);
}

#[test]
fn a_question_is_asked_and_answered() {
    let machine = Machine::with_shell();
    let mut terminal = Terminal::open(&machine, "run '!question'");
    terminal.running.until_says("number or text");
    terminal.type_in("aubergine\n");
    terminal.wait().is(0).says("aubergine");
}

#[test]
fn an_approval_reaches_the_person_through_the_daemon() {
    let machine = Machine::with_shell();
    let serving = machine.serve();
    let mut terminal = Terminal::open(&machine, "run '!ask rm everything'");
    terminal.running.until_says("[y]es once");
    terminal.type_in("s\n");
    terminal.wait().is(0).says("→ session (by owner)");
    serving.stop().is(0);
}

#[test]
fn where_nobody_can_answer_it_is_declined_and_said() {
    let machine = Machine::new();
    for arguments in [&["run", "!ask rm everything"][..], &["run", "--json", "!ask rm everything"]]
    {
        let ran = machine.angelia(arguments);
        ran.is(0);
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(said.contains("nobody is there to approve it"), "{ran:#?}");
        assert!(said.contains("allowed_tools"), "{ran:#?}");
    }
}

#[test]
fn ctrl_c_as_it_is_typed_interrupts() {
    let machine = Machine::with_shell();
    let mut terminal = Terminal::open(&machine, &format!("run '{SAYS_AND_HANGS}'"));
    terminal.running.until_says("said before");
    terminal.type_in("\x03");
    terminal.wait().is(130).says("interrupting").says("interrupted");
    assert_eq!(machine.list("turns")[0]["status"], "interrupted");
    assert!(marked(&machine).is_empty());
}

#[test]
fn a_terminal_that_goes_away_takes_its_turn_along() {
    let machine = Machine::with_shell();
    let terminal = Terminal::open(&machine, &format!("run '{SAYS_AND_HANGS}'"));
    terminal.running.until_says("said before");
    // Killing `script` closes the terminal, so the kernel sends SIGHUP.
    terminal.running.signal(rustix::process::Signal::KILL);
    drop(terminal);
    crate::stage::until("the turn ends", || {
        machine.list("turns")[0]["status"] == "interrupted" && marked(&machine).is_empty()
    });
}

#[test]
fn no_prompt_at_a_terminal_is_no_prompt() {
    let machine = Machine::with_shell();
    Terminal::open(&machine, "run").wait().is(2).says("there is no prompt");
}

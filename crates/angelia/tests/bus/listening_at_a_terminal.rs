//! `angelia bus listen` in a real terminal, with tmux on a private socket.

use std::{
    fs,
    time::{Duration, Instant},
};

use crate::bus_machine::{BusMachine, text};

const DEADLINE: Duration = Duration::from_mins(1);

/// A tmux server for this test only; killed when the test ends.
struct Terminal<'a>(&'a BusMachine);

impl<'a> Terminal<'a> {
    fn start(machine: &'a BusMachine, columns: &str, program: &str) -> Self {
        let terminal = Self(machine);
        let session = ["-f", "/dev/null", "new-session", "-d", "-x", columns, "-y", "30", program];
        terminal.tmux(&session);
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let mut tmux = self.0.program("tmux");
        let ran = tmux.env("TMUX_TMPDIR", self.0.root()).args(arguments).output().unwrap();
        assert!(ran.status.success(), "is tmux installed? {ran:?}");
        text(&ran.stdout)
    }

    /// Waits until the screen, with its colours, contains something.
    fn wait_for(&self, expected: &str) -> String {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let screen = self.tmux(&["capture-pane", "-p", "-e"]);
            if screen.contains(expected) {
                return screen;
            }
            assert!(Instant::now() < deadline, "no `{expected}` in:\n{screen}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        let mut tmux = self.0.program("tmux");
        let _gone = tmux.env("TMUX_TMPDIR", self.0.root()).arg("kill-server").output();
    }
}

fn send(machine: &BusMachine, arguments: &[&str]) {
    let sent = machine.angelia(&[&["notify", "--to", "r", "--from", "ci"], arguments].concat());
    assert!(sent.status.success(), "{sent:?}");
}

/// Returns whether a line begins with a time and a sender, as `12:34:56 ci: `.
fn has_heading(line: &str) -> bool {
    let (time, rest) = line.split_at_checked(8).unwrap_or(("", ""));
    let is_time = time.bytes().enumerate().all(|(place, byte)| match place {
        2 | 5 => byte == b':',
        _ => byte.is_ascii_digit(),
    });
    time.len() == 8 && is_time && rest.starts_with(" ci: ")
}

#[test]
fn a_person_sees_when_a_message_was_sent_and_by_whom() {
    let machine = BusMachine::without_hermes();
    let _running = machine.start_in_background();
    let rules = "callbacks:\n\
                 - {match_type: mine, print_format: 'as I like it: {text}'}\n\
                 - {match_type: ask, context: true}\n";
    fs::write(machine.home().join("bus-rules.yaml"), rules).unwrap();
    let listen = format!("NO_COLOR=1 {} bus listen r", env!("CARGO_BIN_EXE_angelia"));
    let terminal = Terminal::start(&machine, "80", &listen);
    terminal.wait_for("listening as r");
    send(&machine, &["the build is green"]);
    send(&machine, &["--type", "ask", "why?"]);
    send(&machine, &["--type", "mine", "hello"]);
    let screen = terminal.wait_for("as I like it");
    let lines: Vec<&str> = screen.lines().skip(1).take(3).collect();
    assert!(has_heading(lines[0]) && lines[0].ends_with("ci: the build is green"), "{screen}");
    assert!(has_heading(lines[1]) && lines[1].ends_with("ci: why?"), "{screen}");
    assert_eq!(lines[2], "as I like it: hello");
}

#[test]
fn the_heading_has_colours_where_colours_are_wanted() {
    let machine = BusMachine::without_hermes();
    let _running = machine.start_in_background();
    let listen = format!("{} bus listen r", env!("CARGO_BIN_EXE_angelia"));
    let terminal = Terminal::start(&machine, "40", &listen);
    terminal.wait_for("listening as r");
    send(&machine, &["hello"]);
    let screen = terminal.wait_for("hello");
    assert!(screen.contains("\u{1b}[36m") && screen.contains("\u{1b}[1mci"), "{screen:?}");
}

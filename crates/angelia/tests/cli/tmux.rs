//! A program in a real terminal: a tmux server of its own, whose screen can be read and resized.

use std::{
    fs, mem,
    process::Output,
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

use crate::machine::{ANGELIA, Machine, until};

/// A terminal in which one command runs; the server is ended on drop.
pub(crate) struct TmuxTerminal<'a> {
    machine: &'a Machine,
    socket: String,
}

const ROWS: &str = "24";

impl<'a> TmuxTerminal<'a> {
    /// Runs a shell line in a terminal with so many columns. `$ANGELIA` is the program. The screen
    /// stays after the end of the line.
    pub(crate) fn open(machine: &'a Machine, columns: u32, line: &str) -> Self {
        // Each server has a socket of its own: `kill-server` returns before the server has ended, and
        // the next client would still connect to it. The path of a socket has to be short.
        static OPENED: AtomicU32 = AtomicU32::new(0);
        let name = format!("t{}", OPENED.fetch_add(1, Ordering::Relaxed));
        let socket = machine.place.root().join(name).to_string_lossy().into_owned();
        let terminal = Self { machine, socket };
        let script = machine.place.root().join("terminal.sh");
        // A typed Ctrl-C ends the program, and not the shell that reports its end.
        let begins = "trap : INT\ntmux wait-for begin";
        fs::write(&script, format!("{begins}\n{line}\ncode=$?\necho \"[ended with $code]\"\n"))
            .unwrap();
        terminal.tmux(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            &columns.to_string(),
            "-y",
            ROWS,
            "-e",
            &format!("ANGELIA={ANGELIA}"),
            "/bin/sh",
            &script.to_string_lossy(),
        ]);
        for option in
            [["remain-on-exit", "on"], ["history-limit", "5000"], ["window-size", "manual"]]
        {
            terminal.tmux(&["set-option", "-g", option[0], option[1]]);
        }
        terminal.tmux(&["wait-for", "-S", "begin"]);
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> Output {
        let mut command = self.machine.program("tmux");
        command.env("TERM", "xterm-256color").args(["-S", &self.socket]).args(arguments);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        output
    }

    /// Returns everything that is on the screen and above it, without trailing spaces.
    pub(crate) fn text(&self) -> String {
        let output = self.tmux(&["capture-pane", "-p", "-S", "-"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.trim_end().to_owned()
    }

    /// Returns the text with its colours.
    pub(crate) fn coloured_text(&self) -> String {
        let output = self.tmux(&["capture-pane", "-p", "-e", "-S", "-"]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    #[track_caller]
    pub(crate) fn wait_for(&self, part: &str) -> String {
        let mut text = String::new();
        let mut is_there = || {
            text = self.text();
            text.contains(part)
        };
        let shown = crate::machine::within(crate::machine::DEADLINE, &mut is_there);
        assert!(shown, "{part:?} is not shown:\n{text}");
        text
    }

    /// Waits for the end of the command and returns the screen.
    #[track_caller]
    pub(crate) fn wait_for_end(&self, code: i32) -> String {
        self.wait_for("[ended with ");
        self.wait_for(&format!("[ended with {code}]"))
    }

    pub(crate) fn type_keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Resizes the terminal while the command is stopped, so that it does not draw for the old size just then.
    pub(crate) fn resize(&self, columns: u32) {
        let shell = self.tmux(&["display-message", "-p", "#{pane_pid}"]);
        let shell = String::from_utf8_lossy(&shell.stdout).trim().to_owned();
        let children = fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
        let command = children.split_whitespace().next().and_then(|pid| pid.parse().ok());
        let command = Pid::from_raw(command.unwrap()).unwrap();
        kill_process(command, Signal::STOP).unwrap();
        let mut shown = self.text();
        until("the terminal has shown all that was written", || {
            thread::sleep(Duration::from_millis(50));
            let before = mem::replace(&mut shown, self.text());
            before == shown
        });
        let wanted = columns.to_string();
        self.tmux(&["resize-window", "-x", &wanted, "-y", ROWS]);
        until("the terminal is resized", || {
            let shown = self.tmux(&["display-message", "-p", "#{pane_width}"]);
            String::from_utf8_lossy(&shown.stdout).trim() == wanted
        });
        kill_process(command, Signal::CONT).unwrap();
    }
}

impl Drop for TmuxTerminal<'_> {
    fn drop(&mut self) {
        let mut command = self.machine.program("tmux");
        let _gone_already = command.args(["-S", &self.socket, "kill-server"]).output();
    }
}

//! The watchdogs of a turn: every timeout against the real program and a misbehaving model, through
//! the daemon, which keeps its agents. Measured by the times of the recorded events.

mod background;
mod cost;
mod model;
mod retries;
mod tools;

use std::{cell::RefCell, time::Duration};

use jiff::Timestamp;
use serde_json::Value;

use crate::{
    agent_processes::{agent_pids, command_line},
    checklist::{ClaudeFixture, on_each_version},
    machine::{RunningDaemon, until},
    transcript::Transcript,
};

/// The promised limit from the timeout to the recorded end: half a second for the interrupt and a
/// quarter for the stop ladder, in total under one second.
const MAX_END_DELAY: Duration = Duration::from_secs(1);

/// Extra delay that is tolerated on a busy machine.
const TIMING_TOLERANCE: Duration = Duration::from_secs(3);

/// A daemon whose profile has short timeouts, and one session of it.
pub(crate) struct TimeoutFixture<'a> {
    lab: &'a ClaudeFixture,
    serving: RefCell<Option<RunningDaemon>>,
}

/// A turn that was ended by a timeout.
pub(crate) struct TimedOutTurn {
    pub(crate) turn: Transcript,
    /// The index of the event that reports the timeout.
    timeout_index: usize,
}

/// Runs a test on both versions, with these lines in the profile, and with the program's own retry
/// settings.
pub(crate) fn with_timeouts(lines: &[&str], test: impl Fn(&TimeoutFixture<'_>)) {
    on_each_version(|lab| {
        let impatient = "CLAUDE_CODE_MAX_RETRIES: '1'";
        let patient = "CLAUDE_CODE_MAX_RETRIES: '10'";
        let profile = lab.profile(&[&["permissions: unattended"], lines].concat());
        let profile = profile.replace(impatient, patient);
        lab.machine.configure(&format!("profiles:\n  default:{profile}\n"));
        let serving = lab.machine.serve();
        let serving = RefCell::new(Some(serving));
        let watched = TimeoutFixture { lab, serving };
        test(&watched);
        watched.stop_daemon();
        until("no process is left behind", || agent_pids(&lab.machine).is_empty());
    });
}

impl TimeoutFixture<'_> {
    pub(crate) fn prompt(&self, prompt: &str) -> Transcript {
        self.lab.machine.turn(&["-s", "watched", prompt])
    }

    pub(crate) fn lab(&self) -> &ClaudeFixture {
        self.lab
    }

    /// Stops the daemon; from then on every turn runs in its own process.
    pub(crate) fn stop_daemon(&self) {
        if let Some(serving) = self.serving.take() {
            serving.stop().assert_code(0);
        }
    }

    /// Runs a turn that fails by a timeout, asserts that its process is gone, and then runs a
    /// healthy turn.
    #[track_caller]
    pub(crate) fn assert_times_out(&self, prompt: &str, reason: &str) -> TimedOutTurn {
        let turn = self.prompt(prompt);
        turn.failed("timeout");
        assert_eq!(turn.end()["reason"], reason, "{turn:#?}");
        let rung = TimedOutTurn::from_notice(turn, "timeout");
        self.assert_processes_gone(|_| true);
        self.assert_session_continues();
        rung
    }

    /// Asserts that no agent process is left whose command line matches.
    #[track_caller]
    pub(crate) fn assert_processes_gone(&self, is_meant: impl Fn(&str) -> bool) {
        until("its processes are gone", || {
            !agent_pids(&self.lab.machine).into_iter().any(|pid| is_meant(&command_line(pid)))
        });
    }

    /// Asserts that the session runs its next turn in the same conversation.
    #[track_caller]
    pub(crate) fn assert_session_continues(&self) {
        let next = self.prompt("ECHO:healthy again");
        assert_eq!(next.completed().text(), "healthy again");
    }
}

impl TimedOutTurn {
    /// Takes the first notice with this code as the timeout.
    #[track_caller]
    pub(crate) fn from_notice(turn: Transcript, code: &str) -> Self {
        let is_ring = |event: &Value| event["type"] == "notice" && event["code"] == code;
        let Some(ring) = turn.events.iter().position(is_ring) else {
            panic!("nothing rang: {turn:#?}");
        };
        Self { turn, timeout_index: ring }
    }

    /// Asserts that the timeout counted from the last event before it, as a silence timeout does.
    #[track_caller]
    pub(crate) fn assert_after_silence(&self, clock: Duration) -> &Self {
        self.assert_after(self.timeout_index - 1, clock)
    }

    /// Asserts that the timeout counted from the first event of this type (and code, for a notice).
    #[track_caller]
    pub(crate) fn assert_since(&self, kind: &str, code: Option<&str>, clock: Duration) -> &Self {
        let begins =
            |event: &Value| event["type"] == kind && code.is_none_or(|code| event["code"] == code);
        let Some(begin) = self.turn.events.iter().position(begins) else {
            panic!("no {kind} in {:#?}", self.turn);
        };
        self.assert_after(begin, clock)
    }

    #[track_caller]
    #[expect(clippy::print_stderr, reason = "what was measured is worth seeing")]
    fn assert_after(&self, begin: usize, clock: Duration) -> &Self {
        let at = |index: usize| -> Timestamp {
            let time = self.turn.events[index]["time"].as_str().unwrap();
            time.parse().unwrap()
        };
        let since = |later: usize| Duration::try_from(at(later) - at(begin)).unwrap();
        let (rang, ended) = (since(self.timeout_index), since(self.turn.events.len() - 1));
        eprintln!("clock {clock:?}: rang after {rang:?}, ended after {ended:?}");
        // Events get their timestamps slightly after the moment at which the timeout starts.
        let early = Duration::from_millis(100);
        assert!(
            rang + early >= clock && rang <= clock + TIMING_TOLERANCE,
            "rang after {rang:?}: {:#?}",
            self.turn
        );
        assert!(
            ended <= clock + MAX_END_DELAY + TIMING_TOLERANCE,
            "ended after {ended:?}: {:#?}",
            self.turn
        );
        self
    }
}

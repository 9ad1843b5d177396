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
    agents::{command_line, marked},
    checklist::{Lab, on_both},
    stage::{Serving, until},
    transcript::Transcript,
};

/// The promised limit from the timeout to the recorded end: half a second for the interrupt and a
/// quarter for the stop ladder, in total under one second.
const PROMISE: Duration = Duration::from_secs(1);

/// Extra delay that is tolerated on a busy machine.
const NOISE: Duration = Duration::from_secs(3);

/// A daemon whose profile has short timeouts, and one session of it.
pub(crate) struct Watched<'a> {
    lab: &'a Lab,
    serving: RefCell<Option<Serving>>,
}

/// A turn that was ended by a timeout.
pub(crate) struct Rung {
    pub(crate) turn: Transcript,
    /// The index of the event that reports the timeout.
    ring: usize,
}

/// Runs a test on both versions, with these lines in the profile, and with the program's own retry
/// settings.
pub(crate) fn watched(lines: &[&str], test: impl Fn(&Watched<'_>)) {
    on_both(|lab| {
        let impatient = "CLAUDE_CODE_MAX_RETRIES: '1'";
        let patient = "CLAUDE_CODE_MAX_RETRIES: '10'";
        let profile = lab.profile(&[&["permissions: unattended"], lines].concat());
        let profile = profile.replace(impatient, patient);
        lab.machine.configure(&format!("profiles:\n  default:{profile}\n"));
        let serving = lab.machine.serve();
        let serving = RefCell::new(Some(serving));
        let watched = Watched { lab, serving };
        test(&watched);
        watched.stop_daemon();
        until("no process is left behind", || marked(&lab.machine).is_empty());
    });
}

impl Watched<'_> {
    pub(crate) fn say(&self, prompt: &str) -> Transcript {
        self.lab.machine.turn(&["-s", "watched", prompt])
    }

    pub(crate) fn lab(&self) -> &Lab {
        self.lab
    }

    /// Stops the daemon; from then on every turn runs in its own process.
    pub(crate) fn stop_daemon(&self) {
        if let Some(serving) = self.serving.take() {
            serving.stop().is(0);
        }
    }

    /// Runs a turn that fails by a timeout, asserts that its process is gone, and then runs a
    /// healthy turn.
    #[track_caller]
    pub(crate) fn rings(&self, prompt: &str, reason: &str) -> Rung {
        let turn = self.say(prompt);
        turn.failed("timeout");
        assert_eq!(turn.end()["reason"], reason, "{turn:#?}");
        let rung = Rung::of(turn, "timeout");
        self.is_gone(|_| true);
        self.goes_on();
        rung
    }

    /// Asserts that no agent process is left whose command line matches.
    #[track_caller]
    pub(crate) fn is_gone(&self, is_meant: impl Fn(&str) -> bool) {
        until("its processes are gone", || {
            !marked(&self.lab.machine).into_iter().any(|pid| is_meant(&command_line(pid)))
        });
    }

    /// Asserts that the session runs its next turn in the same conversation.
    #[track_caller]
    pub(crate) fn goes_on(&self) {
        let next = self.say("ECHO:healthy again");
        assert_eq!(next.completed().text(), "healthy again");
    }
}

impl Rung {
    /// Takes the first notice with this code as the timeout.
    #[track_caller]
    pub(crate) fn of(turn: Transcript, code: &str) -> Self {
        let is_ring = |event: &Value| event["type"] == "notice" && event["code"] == code;
        let Some(ring) = turn.events.iter().position(is_ring) else {
            panic!("nothing rang: {turn:#?}");
        };
        Self { turn, ring }
    }

    /// Asserts that the timeout counted from the last event before it, as a silence timeout does.
    #[track_caller]
    pub(crate) fn after_silence(&self, clock: Duration) -> &Self {
        self.after(self.ring - 1, clock)
    }

    /// Asserts that the timeout counted from the first event of this type (and code, for a notice).
    #[track_caller]
    pub(crate) fn since(&self, kind: &str, code: Option<&str>, clock: Duration) -> &Self {
        let begins =
            |event: &Value| event["type"] == kind && code.is_none_or(|code| event["code"] == code);
        let Some(begin) = self.turn.events.iter().position(begins) else {
            panic!("no {kind} in {:#?}", self.turn);
        };
        self.after(begin, clock)
    }

    #[track_caller]
    #[expect(clippy::print_stderr, reason = "what was measured is worth seeing")]
    fn after(&self, begin: usize, clock: Duration) -> &Self {
        let at = |index: usize| -> Timestamp {
            let time = self.turn.events[index]["time"].as_str().unwrap();
            time.parse().unwrap()
        };
        let since = |later: usize| Duration::try_from(at(later) - at(begin)).unwrap();
        let (rang, ended) = (since(self.ring), since(self.turn.events.len() - 1));
        eprintln!("clock {clock:?}: rang after {rang:?}, ended after {ended:?}");
        // Events get their timestamps slightly after the moment at which the timeout starts.
        let early = Duration::from_millis(100);
        assert!(
            rang + early >= clock && rang <= clock + NOISE,
            "rang after {rang:?}: {:#?}",
            self.turn
        );
        assert!(ended <= clock + PROMISE + NOISE, "ended after {ended:?}: {:#?}", self.turn);
        self
    }
}

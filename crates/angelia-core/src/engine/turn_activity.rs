//! The activity of a running turn: its current timeout and its latest words.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::{facade::Engine, quota::time_after, turn_log::TurnLog};
use crate::model::TurnId;

/// Number of characters shown from the end of the answer.
const MAX_CHARS: usize = 160;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnActivity {
    /// `None` while the turn waits for its agent to start, or for a quota.
    pub clock: Option<TurnClock>,
    /// The end of the answer so far, on one line.
    pub last_words: Option<String>,
}

/// A timeout that is running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnClock {
    /// The state that the timeout limits: `streaming`, `running Bash` …
    pub name: String,
    /// The profile setting that sets the timeout.
    pub setting: &'static str,
    pub fires_at: Timestamp,
}

impl Engine {
    /// Returns the current activity of a turn, or `None` if the turn does not run in this process.
    pub fn turn_activity(&self, turn: TurnId) -> Option<TurnActivity> {
        let log = self.shared.find_log(turn).filter(|log| !log.is_finished())?;
        Some(TurnActivity { clock: self.clock_of(&log), last_words: last_words(&log) })
    }

    fn clock_of(&self, log: &TurnLog) -> Option<TurnClock> {
        let (at, timeout) = log.timeout()?;
        let left = at.saturating_duration_since(Instant::now());
        // Round to whole seconds, so that the time does not appear to change while the state is the
        // same.
        let left = Duration::from_secs_f64(left.as_secs_f64().round());
        Some(TurnClock {
            name: timeout.state.to_string(),
            setting: timeout.setting,
            fires_at: time_after(self.shared.clock.now(), left),
        })
    }
}

fn last_words(log: &TurnLog) -> Option<String> {
    // A character has at most four bytes.
    let text = log.newest_text(MAX_CHARS * 4);
    let words: Vec<&str> = text.split_whitespace().collect();
    let line: Vec<char> = words.join(" ").chars().collect();
    let shown: String = line[line.len().saturating_sub(MAX_CHARS)..].iter().collect();
    (!shown.is_empty()).then_some(shown)
}

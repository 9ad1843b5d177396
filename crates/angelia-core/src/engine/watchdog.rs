//! Tracks the state of a turn and computes when its next timeout expires. Pure: it knows events and
//! instants only.

use std::{fmt, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::quota::LONGEST_WAIT;
use crate::{
    model::{Clocks, EventKind, ToolId},
    ports::Activity,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    Starting,
    WaitingForModel,
    Streaming,
    RunningTool(Arc<str>),
    QuietAfterTool,
    AwaitingApproval,
    AwaitingToolResult,
    Retrying,
    Compacting,
    Background,
}

/// A row of the table in `docs/turn-states.md`: a state, its limit, and the effect of the timeout.
#[derive(Clone, Copy, Debug)]
pub struct StateRow {
    pub state: &'static str,
    pub lasts: Lasts,
    pub rings: &'static str,
}

/// How long a state may last.
#[derive(Clone, Copy, Debug)]
pub enum Lasts {
    /// As long as a setting of the profile says.
    Setting { clock: &'static str, default: fn(&Clocks) -> Duration },
    /// Until the quota resets; the turn is tried again after `at_most`.
    UntilReset { at_most: Duration },
}

/// Every state with its timeout; printed in `docs/turn-states.md`.
pub static STATES: &[StateRow] = &[
    StateRow {
        state: "starting",
        lasts: Lasts::Setting {
            clock: "first_event_timeout",
            default: |clocks| clocks.first_event,
        },
        rings: "failed (`timeout`)",
    },
    StateRow {
        state: "waiting for the model",
        lasts: Lasts::Setting {
            clock: "inter_event_silence_timeout",
            default: |clocks| clocks.silence,
        },
        rings: "failed (`timeout`)",
    },
    StateRow {
        state: "streaming",
        lasts: Lasts::Setting {
            clock: "inter_event_silence_timeout",
            default: |clocks| clocks.silence,
        },
        rings: "failed (`timeout`)",
    },
    StateRow {
        state: "running a tool",
        lasts: Lasts::Setting { clock: "tool_timeout", default: |clocks| clocks.tool },
        rings: "failed (`timeout`)",
    },
    StateRow {
        state: "quiet after a tool",
        lasts: Lasts::Setting {
            clock: "post_tool_quiet_timeout",
            default: |clocks| clocks.post_tool_quiet,
        },
        rings: "failed (`timeout`)",
    },
    StateRow {
        state: "awaiting approval",
        lasts: Lasts::Setting { clock: "approval_timeout", default: |clocks| clocks.approval },
        rings: "the approval is declined, the turn goes on",
    },
    StateRow {
        state: "awaiting a tool result",
        lasts: Lasts::Setting {
            clock: "caller_tool_timeout",
            default: |clocks| clocks.caller_tool,
        },
        rings: "failed (`timeout`); the process is released, the history stays",
    },
    StateRow {
        state: "retrying upstream",
        lasts: Lasts::Setting { clock: "retry_timeout", default: |clocks| clocks.retry },
        rings: "failed (`timeout`)",
    },
    StateRow {
        state: "compacting",
        lasts: Lasts::Setting { clock: "compaction_timeout", default: |clocks| clocks.compaction },
        rings: "failed (`timeout`)",
    },
    StateRow {
        state: "background work",
        lasts: Lasts::Setting { clock: "background_grace", default: |clocks| clocks.background },
        rings: "the work is stopped, the answer stands",
    },
    StateRow {
        state: "parked",
        lasts: Lasts::UntilReset { at_most: LONGEST_WAIT },
        rings: "the turn goes on by itself; no process is kept meanwhile",
    },
    StateRow {
        state: "any but awaiting and parked",
        lasts: Lasts::Setting { clock: "timeout", default: |clocks| clocks.timeout },
        rings: "failed (`timeout`)",
    },
];

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Starting => "starting",
            Self::WaitingForModel => "waiting for the model",
            Self::Streaming => "streaming",
            Self::RunningTool(tool) => return write!(f, "running {tool}"),
            Self::QuietAfterTool => "quiet after a tool",
            Self::AwaitingApproval => "awaiting approval",
            Self::AwaitingToolResult => "awaiting a tool result",
            Self::Retrying => "retrying upstream",
            Self::Compacting => "compacting",
            Self::Background => "background work",
        })
    }
}

/// The timeout of a state: expired, or the next to expire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rang {
    pub(super) state: State,
    /// Name of the profile setting.
    pub(super) clock: &'static str,
    pub(super) after: Duration,
}

impl fmt::Display for Rang {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.after.as_secs_f64();
        write!(f, "{} for longer than {} ({seconds} s)", self.state, self.clock)
    }
}

pub(super) struct Watchdog {
    clocks: Clocks,
    state: State,
    /// When the timeout of the current state started.
    since: Instant,
    /// Running tool calls, oldest first.
    tools: Vec<(ToolId, Arc<str>, Instant)>,
    /// When the segment started, moved forward by the time the turn was paused.
    capped_since: Instant,
    /// Start of the current pause: the turn waits for a person or a caller's tool. `paused_for` has
    /// the length of the earlier pauses.
    still_since: Option<Instant>,
    stood: Duration,
    /// When the oldest pending approval was requested.
    oldest_approval: Option<Instant>,
    /// Number of caller's tools whose results are awaited.
    caller_tools: usize,
    /// When the agent first retried to reach its model.
    retrying_since: Option<Instant>,
    /// The last attempt produced a block or a tool call.
    got_through: bool,
}

impl Watchdog {
    pub(super) fn new(clocks: Clocks, now: Instant) -> Self {
        Self {
            clocks,
            state: State::Starting,
            since: now,
            tools: Vec::new(),
            capped_since: now,
            still_since: None,
            stood: Duration::ZERO,
            oldest_approval: None,
            caller_tools: 0,
            retrying_since: None,
            got_through: false,
        }
    }

    #[cfg(test)]
    fn state(&self) -> &State {
        &self.state
    }

    /// Starts another segment of the same turn.
    pub(super) fn restart(&mut self, now: Instant) {
        *self = Self::new(self.clocks.clone(), now);
    }

    pub(super) fn event(&mut self, kind: &EventKind, now: Instant) {
        match kind {
            // An empty block withdraws what was shown.
            EventKind::Block { text, .. } => self.got_through = !text.is_empty(),
            EventKind::ToolCall(_) | EventKind::ToolResult(_) => self.got_through = true,
            _ => {}
        }
        let next = match kind {
            EventKind::Started(_) => State::WaitingForModel,
            EventKind::Delta { .. } | EventKind::Block { .. } | EventKind::Plan(_) => {
                State::Streaming
            }
            EventKind::ToolCall(call) => {
                self.tools.push((call.id.clone(), Arc::clone(&call.name), now));
                State::RunningTool(Arc::clone(&call.name))
            }
            EventKind::ToolResult(result) => {
                self.tools.retain(|(id, ..)| *id != result.id);
                State::QuietAfterTool
            }
            // A sign of life, but no progress: the state stays. Its timeout starts anew, unless it
            // limits the whole state.
            EventKind::Usage(_) | EventKind::Notice(_) | EventKind::Native { .. } => {
                if self.counts_silence() {
                    self.since = now;
                }
                return;
            }
            EventKind::Approval(_) | EventKind::Resolved(_) | EventKind::Finished(_) => return,
        };
        self.enter(next, now);
    }

    pub(super) fn activity(&mut self, activity: Activity, now: Instant) {
        let next = match activity {
            Activity::WaitingForModel => State::WaitingForModel,
            Activity::Retrying => State::Retrying,
            Activity::Compacting => State::Compacting,
            Activity::Background => State::Background,
            Activity::AwaitingToolResult => {
                self.caller_tools += 1;
                State::AwaitingToolResult
            }
        };
        // All retries in a row share one timeout that starts with the first of them. It also goes
        // on when an attempt streamed a part of an answer that was then withdrawn.
        if next == State::Retrying && std::mem::take(&mut self.got_through) {
            self.retrying_since = None;
        }
        if self.state != next || self.counts_silence() {
            self.enter(next, now);
            if self.state == State::Retrying {
                self.since = *self.retrying_since.get_or_insert(now);
            }
        }
    }

    /// Updates the time at which the oldest pending approval was requested.
    pub(super) fn approvals(&mut self, oldest: Option<Instant>, now: Instant) {
        self.oldest_approval = oldest;
        self.enter(State::WaitingForModel, now);
    }

    pub(super) fn tool_result_given(&mut self, now: Instant) {
        self.caller_tools = self.caller_tools.saturating_sub(1);
        self.enter(State::WaitingForModel, now);
    }

    pub(super) const fn awaits_tool_result(&self) -> bool {
        self.caller_tools > 0
    }

    /// Total time the segment was paused; `None` while it is paused.
    pub(super) fn waited(&self) -> Option<Duration> {
        self.still_since.is_none().then_some(self.stood)
    }

    /// Returns the timeout that expires next, and when.
    pub(super) fn next(&self) -> (Instant, Rang) {
        let (clock, after) = self.clock();
        let own = (self.since + after, Rang { state: self.state.clone(), clock, after });
        let after = self.clocks.timeout;
        let cap = Rang { state: self.state.clone(), clock: "timeout", after };
        match self.still_since {
            None if self.capped_since + after < own.0 => (self.capped_since + after, cap),
            _ => own,
        }
    }

    fn clock(&self) -> (&'static str, Duration) {
        let clocks = &self.clocks;
        match &self.state {
            State::Starting => ("first_event_timeout", clocks.first_event),
            State::WaitingForModel | State::Streaming => {
                ("inter_event_silence_timeout", clocks.silence)
            }
            State::RunningTool(_) => ("tool_timeout", clocks.tool),
            State::QuietAfterTool => ("post_tool_quiet_timeout", clocks.post_tool_quiet),
            State::AwaitingApproval => ("approval_timeout", clocks.approval),
            State::AwaitingToolResult => ("caller_tool_timeout", clocks.caller_tool),
            State::Retrying => ("retry_timeout", clocks.retry),
            State::Compacting => ("compaction_timeout", clocks.compaction),
            State::Background => ("background_grace", clocks.background),
        }
    }

    /// Silence timeouts restart with every sign of life; the others limit a whole state.
    fn counts_silence(&self) -> bool {
        matches!(self.state, State::WaitingForModel | State::Streaming | State::QuietAfterTool)
    }

    fn is_awaiting(&self) -> bool {
        matches!(self.state, State::AwaitingApproval | State::AwaitingToolResult)
    }

    fn enter(&mut self, mut next: State, mut since: Instant) {
        let now = since;
        // A pending approval outranks a caller's tool, which outranks a running tool of the agent.
        if let Some(oldest) = self.oldest_approval {
            next = State::AwaitingApproval;
            since = oldest;
        } else if self.caller_tools > 0 {
            next = State::AwaitingToolResult;
        } else if let Some((_, name, started)) = self.tools.first() {
            // While a tool runs, its timeout counts from its start, whatever other events arrive.
            next = State::RunningTool(Arc::clone(name));
            since = *started;
        }
        // The wait keeps its start: neither further calls nor other events extend it.
        if next == self.state && next == State::AwaitingToolResult {
            return;
        }
        self.state = next;
        self.since = since;
        match (self.is_awaiting(), self.still_since) {
            (true, None) => self.still_since = Some(now),
            (false, Some(still)) => {
                self.capped_since += now - still;
                self.stood += now - still;
                self.still_since = None;
                // A tool did not run while it waited for its approval.
                for (_, _, started) in &mut self.tools {
                    *started += now - still.max(*started);
                }
                if let Some((_, _, started)) = self.tools.first() {
                    self.since = *started;
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;

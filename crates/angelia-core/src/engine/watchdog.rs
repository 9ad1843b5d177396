//! Tracks the state of a turn and computes when its next timeout expires. Pure: it only handles
//! events and instants.

use std::{fmt, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::quota::MAX_PARK_WAIT;
use crate::{
    model::{EventKind, ToolId, TurnTimeouts},
    ports::Activity,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WatchdogState {
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
    pub limit: StateLimit,
    pub effect: &'static str,
}

/// How long a state may last.
#[derive(Clone, Copy, Debug)]
pub enum StateLimit {
    /// The value of this profile setting.
    Setting { setting: &'static str, default: fn(&TurnTimeouts) -> Duration },
    /// Until the quota resets; the turn is retried after `at_most`.
    UntilReset { at_most: Duration },
}

/// A state with a timeout: its name, the profile setting, and the value of the setting.
#[derive(Clone, Copy)]
struct TimedState {
    name: &'static str,
    setting: &'static str,
    timeout: fn(&TurnTimeouts) -> Duration,
}

impl TimedState {
    const fn new(
        name: &'static str,
        setting: &'static str,
        timeout: fn(&TurnTimeouts) -> Duration,
    ) -> Self {
        Self { name, setting, timeout }
    }

    const fn row(self, effect: &'static str) -> StateRow {
        let limit = StateLimit::Setting { setting: self.setting, default: self.timeout };
        StateRow { state: self.name, limit, effect }
    }
}

const STARTING: TimedState = TimedState::new("starting", "first_event_timeout", |t| t.first_event);
const WAITING_FOR_MODEL: TimedState =
    TimedState::new("waiting for the model", "inter_event_silence_timeout", |t| t.silence);
const STREAMING: TimedState = TimedState { name: "streaming", ..WAITING_FOR_MODEL };
const RUNNING_TOOL: TimedState = TimedState::new("running a tool", "tool_timeout", |t| t.tool);
const QUIET_AFTER_TOOL: TimedState =
    TimedState::new("quiet after a tool", "post_tool_quiet_timeout", |t| t.post_tool_quiet);
const AWAITING_APPROVAL: TimedState =
    TimedState::new("awaiting approval", "approval_timeout", |t| t.approval);
const AWAITING_TOOL_RESULT: TimedState =
    TimedState::new("awaiting a tool result", "caller_tool_timeout", |t| t.caller_tool);
const RETRYING: TimedState = TimedState::new("retrying upstream", "retry_timeout", |t| t.retry);
const COMPACTING: TimedState =
    TimedState::new("compacting", "compaction_timeout", |t| t.compaction);
const BACKGROUND: TimedState =
    TimedState::new("background work", "background_grace", |t| t.background);
/// The limit on a whole segment.
const SEGMENT: TimedState =
    TimedState::new("any but awaiting and parked", "timeout", |t| t.timeout);

const FAILED: &str = "failed (`timeout`)";

/// All states and their timeouts, as printed in `docs/turn-states.md`.
pub static STATE_TABLE: &[StateRow] = &[
    STARTING.row(FAILED),
    WAITING_FOR_MODEL.row(FAILED),
    STREAMING.row(FAILED),
    RUNNING_TOOL.row(FAILED),
    QUIET_AFTER_TOOL.row(FAILED),
    AWAITING_APPROVAL.row("the approval is declined, and the turn continues"),
    AWAITING_TOOL_RESULT.row("failed (`timeout`); the process is released, and the history stays"),
    RETRYING.row(FAILED),
    COMPACTING.row(FAILED),
    BACKGROUND.row("the work is stopped, and the answer stays"),
    StateRow {
        state: "parked",
        limit: StateLimit::UntilReset { at_most: MAX_PARK_WAIT },
        effect: "the turn continues automatically; until then, it keeps no process",
    },
    SEGMENT.row(FAILED),
];

impl WatchdogState {
    const fn timed(&self) -> TimedState {
        match self {
            Self::Starting => STARTING,
            Self::WaitingForModel => WAITING_FOR_MODEL,
            Self::Streaming => STREAMING,
            Self::RunningTool(_) => RUNNING_TOOL,
            Self::QuietAfterTool => QUIET_AFTER_TOOL,
            Self::AwaitingApproval => AWAITING_APPROVAL,
            Self::AwaitingToolResult => AWAITING_TOOL_RESULT,
            Self::Retrying => RETRYING,
            Self::Compacting => COMPACTING,
            Self::Background => BACKGROUND,
        }
    }
}

impl fmt::Display for WatchdogState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RunningTool(tool) => write!(f, "running {tool}"),
            _ => f.write_str(self.timed().name),
        }
    }
}

/// The timeout of a state, either expired or next to expire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StateTimeout {
    pub(super) state: WatchdogState,
    /// Name of the profile setting.
    pub(super) setting: &'static str,
    pub(super) after: Duration,
}

impl fmt::Display for StateTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.after.as_secs_f64();
        write!(f, "{} for longer than {} ({seconds} s)", self.state, self.setting)
    }
}

pub(super) struct Watchdog {
    timeouts: TurnTimeouts,
    state: WatchdogState,
    /// When the timeout of the current state started.
    since: Instant,
    /// Running tool calls, oldest first.
    tools: Vec<(ToolId, Arc<str>, Instant)>,
    /// When the segment started, shifted by the time that the turn was paused.
    cap_started_at: Instant,
    /// Start of the current pause, while the turn waits for a person or a caller's tool.
    /// `paused_for` is the total of the earlier pauses.
    paused_since: Option<Instant>,
    paused_for: Duration,
    /// When the oldest pending approval was requested.
    oldest_approval: Option<Instant>,
    /// Number of the caller's tools whose results are pending.
    caller_tools: usize,
    /// When the agent first retried to reach its model.
    retrying_since: Option<Instant>,
    /// Whether the last attempt produced a block or a tool call.
    made_progress: bool,
}

impl Watchdog {
    pub(super) fn new(timeouts: TurnTimeouts, now: Instant) -> Self {
        Self {
            timeouts,
            state: WatchdogState::Starting,
            since: now,
            tools: Vec::new(),
            cap_started_at: now,
            paused_since: None,
            paused_for: Duration::ZERO,
            oldest_approval: None,
            caller_tools: 0,
            retrying_since: None,
            made_progress: false,
        }
    }

    #[cfg(test)]
    fn state(&self) -> &WatchdogState {
        &self.state
    }

    /// Starts another segment of the same turn.
    pub(super) fn restart(&mut self, now: Instant) {
        *self = Self::new(self.timeouts.clone(), now);
    }

    pub(super) fn on_event(&mut self, kind: &EventKind, now: Instant) {
        match kind {
            // An empty block withdraws the text that was shown.
            EventKind::Block { text, .. } => self.made_progress = !text.is_empty(),
            EventKind::ToolCall(_) | EventKind::ToolResult(_) => self.made_progress = true,
            _ => {}
        }
        let next = match kind {
            EventKind::Started(_) => WatchdogState::WaitingForModel,
            EventKind::Delta { .. } | EventKind::Block { .. } | EventKind::Plan(_) => {
                WatchdogState::Streaming
            }
            EventKind::ToolCall(call) => {
                self.tools.push((call.id.clone(), Arc::clone(&call.name), now));
                WatchdogState::RunningTool(Arc::clone(&call.name))
            }
            EventKind::ToolResult(result) => {
                self.tools.retain(|(id, ..)| *id != result.id);
                WatchdogState::QuietAfterTool
            }
            // A sign of life, but no progress: the state stays the same. Its timeout restarts,
            // unless it limits the whole state.
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

    pub(super) fn on_activity(&mut self, activity: Activity, now: Instant) {
        let next = match activity {
            Activity::WaitingForModel => WatchdogState::WaitingForModel,
            Activity::Retrying => WatchdogState::Retrying,
            Activity::Compacting => WatchdogState::Compacting,
            Activity::Background => WatchdogState::Background,
            Activity::AwaitingToolResult => {
                self.caller_tools += 1;
                WatchdogState::AwaitingToolResult
            }
        };
        // Consecutive retries share one timeout, which starts with the first retry. It keeps
        // running even if an attempt streamed part of an answer that was then withdrawn.
        if next == WatchdogState::Retrying && std::mem::take(&mut self.made_progress) {
            self.retrying_since = None;
        }
        if self.state != next || self.counts_silence() {
            self.enter(next, now);
            if self.state == WatchdogState::Retrying {
                self.since = *self.retrying_since.get_or_insert(now);
            }
        }
    }

    /// Sets when the oldest pending approval was requested.
    pub(super) fn set_oldest_approval(&mut self, oldest: Option<Instant>, now: Instant) {
        self.oldest_approval = oldest;
        self.enter(WatchdogState::WaitingForModel, now);
    }

    pub(super) fn on_tool_result(&mut self, now: Instant) {
        self.caller_tools = self.caller_tools.saturating_sub(1);
        self.enter(WatchdogState::WaitingForModel, now);
    }

    pub(super) const fn awaits_tool_result(&self) -> bool {
        self.caller_tools > 0
    }

    /// Returns how long the segment was paused in total, or `None` while it is paused.
    pub(super) fn total_pause(&self) -> Option<Duration> {
        self.paused_since.is_none().then_some(self.paused_for)
    }

    /// Returns the timeout that expires next, and when it does.
    pub(super) fn next_timeout(&self) -> (Instant, StateTimeout) {
        let state = self.timeout_in(self.state.timed());
        let segment = self.timeout_in(SEGMENT);
        let state_ends_at = self.since + state.after;
        let segment_ends_at = self.cap_started_at + segment.after;
        if self.paused_since.is_none() && segment_ends_at < state_ends_at {
            (segment_ends_at, segment)
        } else {
            (state_ends_at, state)
        }
    }

    fn timeout_in(&self, limit: TimedState) -> StateTimeout {
        let after = (limit.timeout)(&self.timeouts);
        StateTimeout { state: self.state.clone(), setting: limit.setting, after }
    }

    /// Returns whether the current timeout limits silence: it restarts with every sign of life. The
    /// other timeouts limit a whole state.
    fn counts_silence(&self) -> bool {
        matches!(
            self.state,
            WatchdogState::WaitingForModel
                | WatchdogState::Streaming
                | WatchdogState::QuietAfterTool
        )
    }

    fn is_paused(&self) -> bool {
        matches!(self.state, WatchdogState::AwaitingApproval | WatchdogState::AwaitingToolResult)
    }

    fn enter(&mut self, mut next: WatchdogState, mut since: Instant) {
        let now = since;
        // A pending approval outranks a caller's tool, which outranks a running tool of the agent.
        if let Some(oldest) = self.oldest_approval {
            next = WatchdogState::AwaitingApproval;
            since = oldest;
        } else if self.caller_tools > 0 {
            next = WatchdogState::AwaitingToolResult;
        } else if let Some((_, name, started)) = self.tools.first() {
            // The timeout of a running tool counts from the tool's start, whatever other events
            // arrive.
            next = WatchdogState::RunningTool(Arc::clone(name));
            since = *started;
        }
        // The wait keeps its start time: neither further calls nor other events extend it.
        if next == self.state && next == WatchdogState::AwaitingToolResult {
            return;
        }
        self.state = next;
        self.since = since;
        match (self.is_paused(), self.paused_since) {
            (true, None) => self.paused_since = Some(now),
            (false, Some(paused_at)) => {
                self.cap_started_at += now - paused_at;
                self.paused_for += now - paused_at;
                self.paused_since = None;
                // A tool did not run while it was waiting for its approval.
                for (_, _, started) in &mut self.tools {
                    *started += now - paused_at.max(*started);
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

//! Generates `docs/turn-states.md`, all states of a turn, from the engine's own table.

use angelia_core::{
    engine::{STATE_TABLE, StateLimit, StateRow},
    model::TurnTimeouts,
};

use super::is_current;
use crate::config::{
    setting::SettingsBlock as _,
    types::{Period, Profile},
};

#[test]
fn the_table_of_states_is_current() {
    is_current("docs/turn-states.md", &document());
}

#[test]
fn every_clock_is_a_setting() {
    for row in STATE_TABLE {
        if let StateLimit::Setting { setting: clock, .. } = row.limit {
            assert!(Profile::KEYS.contains(&clock), "{clock}");
        }
    }
}

const HEAD: &str = "\
# Turn states

<!-- Generated from the table in crates/angelia-core/src/engine/watchdog.rs. Do not edit: run
     `UPDATE_DOCS=1 cargo test -p angelia config_docs`. -->

A running turn is always in exactly one state, and every state has a clock of its own, so that an
agent that hangs is noticed soon and one that works is left alone. The clocks are settings
of a [profile](configuration.md#profiles).

When a clock rings, the agent is asked to stop, and if it does not obey, its process is ended. Where
the table says that the turn fails, it does so with the text so far, and says what the agent was
doing, which clock rang, and what to raise if that was normal:

```text
the agent was running Bash for longer than tool_timeout (1800 s)
  hint: if that is normal here, raise `tool_timeout` in the profile
```

The session stays, and its next turn gets a healthy process.
";

const TAIL: &str = "
- The clocks of silence (waiting for the model, streaming, quiet after a tool) begin anew with every
  sign of life. The others count the whole state: every further attempt to reach the model is the same
  retrying, and of several tools the one that has run longest counts.
- `timeout` caps all of it. It stands still while the turn waits for a person or a caller's tool, and
  begins anew when a turn goes on by itself after a budget.
- While the machine sleeps no clock runs.

## Quotas

When the agent's vendor says that a quota is used up and when it resets, the profile named by
`fallback_profile` takes over, if no tool of the turn has started yet: it gets the conversation so far,
and the session stays with it. Otherwise the turn is parked: it keeps its place in the session, needs no
process, survives a restart, and goes on by itself after the reset. It can be interrupted like any other.
`angelia run` waits with it at a terminal (Ctrl-C leaves it parked) or when the reset is at most half
a minute away, and exits with 75 otherwise. Other turns of the profile are not tried for up to 15 minutes;
they are parked, or fail and say when to come back. Over the model APIs a limit is a 429 with
`retry-after`, never a wait.

## Budgets

A clock ends a turn that hangs; a budget ends one that has done enough. When `budget_seconds`,
`budget_tool_count` or `max_cost_usd` is used up, the agent is asked to stop, and the turn ends as
`partial` with the text so far; that is no error. After a budget of time or tools it goes on by itself
first, in the same conversation and with fresh budgets, up to `auto_resume_max_resumes` times, unless
`auto_resume_budget_guard` is off. Viewers see one turn, with a notice each time it goes on.

The cost of a turn is known when an answer of the model is complete. Claude Code is asked for it
after every tool, so a turn ends behind the answer that went over `max_cost_usd`, not within it.
";

/// The text of `docs/turn-states.md`.
fn document() -> String {
    let mut text = HEAD.to_owned();
    text.push_str("\n| state | clock | default | when it rings |\n|---|---|---|---|\n");
    let clocks = TurnTimeouts::default();
    for row in STATE_TABLE {
        text.push_str(&line(row, &clocks));
    }
    text.push_str(TAIL);
    text
}

fn line(row: &StateRow, clocks: &TurnTimeouts) -> String {
    let (clock, lasts) = match row.limit {
        StateLimit::Setting { setting: clock, default } => {
            let default = Period::seconds(default(clocks).as_secs());
            (format!("`{clock}`"), default.to_string())
        }
        StateLimit::UntilReset { at_most } => {
            let at_most = Period::seconds(at_most.as_secs());
            let until = "until the quota resets".to_owned();
            (until, format!("tried again after {at_most} at the latest"))
        }
    };
    let StateRow { state, effect: rings, .. } = row;
    format!("| {state} | {clock} | {lasts} | {rings} |\n")
}

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

A running turn is always in exactly one state, and every state has its own timeout, so that Angelia
soon notices an agent that hangs and leaves one that works alone. The timeouts are settings of a
[profile](configuration.md#profiles).

When a timeout expires, Angelia asks the agent to stop, and ends its process if it does not. Where the
table says that the turn fails, the turn keeps the text so far, and the error says what the agent was
doing, which timeout expired, and which setting to raise if that was normal:

```text
the agent was running Bash for longer than tool_timeout (1800 s)
  hint: if that is normal here, raise `tool_timeout` in the profile
```

The session stays usable, and its next turn gets a healthy process.
";

const TAIL: &str = "
- The timeouts for silence (waiting for the model, streaming, quiet after a tool) start again with every
  sign of life. The others cover the whole state: several attempts to reach the model count as one
  retry, and if several tools run, the one that has run longest counts.
- `timeout` limits the turn as a whole. It is paused while the turn waits for a person or a caller's
  tool, and starts again when a turn is resumed automatically after a budget.
- All timeouts are paused while the machine sleeps.

## Quotas

When the agent's vendor reports that a quota is used up and when it resets, the profile named by
`fallback_profile` takes over, if no tool of the turn has started yet: it gets the conversation so far,
and the session stays with that profile. Otherwise the turn is parked: it keeps its place in the session,
needs no process, survives a restart, and continues automatically after the reset. You can interrupt it
like any other turn. `angelia run` waits for a parked turn at a terminal (Ctrl-C leaves it parked) or if
the reset is at most half a minute away, and exits with 75 otherwise. For up to 15 minutes, other turns of
the profile are not tried; they are parked, or fail and say when to try again. Over the model APIs a limit
is a 429 with `retry-after`, never a wait.

## Budgets

A timeout ends a turn that hangs; a budget ends a turn that has done enough. When `budget_seconds`,
`budget_tool_count` or `max_cost_usd` is used up, Angelia asks the agent to stop, and the turn ends as
`partial` with the text so far, which is not an error. After a budget of time or tools, Angelia first
resumes the turn automatically, in the same conversation and with fresh budgets, up to
`auto_resume_max_resumes` times, unless `auto_resume_budget_guard` is off. Viewers see one turn, with a
notice each time it is resumed.

The cost of a turn is known when an answer of the model is complete. Angelia asks Claude Code for the cost
after every tool, so a turn ends after the answer that exceeded `max_cost_usd`, not in the middle of it.
";

/// The text of `docs/turn-states.md`.
fn document() -> String {
    let mut text = HEAD.to_owned();
    text.push_str("\n| state | timeout | default | when it expires |\n|---|---|---|---|\n");
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

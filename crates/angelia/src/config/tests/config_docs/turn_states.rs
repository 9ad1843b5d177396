//! `docs/turn-states.md`: every state of a turn, from the engine's own table.

use angelia_core::{
    engine::{STATES, StateRow},
    model::Clocks,
};

use super::is_current;
use crate::config::{
    setting::Block as _,
    types::{Period, Profile},
};

#[test]
fn the_table_of_states_is_current() {
    is_current("docs/turn-states.md", &document());
}

/// Only the tools of a caller have no setting yet.
#[test]
fn every_clock_but_one_is_a_setting() {
    let missing: Vec<&str> = STATES
        .iter()
        .map(|row| row.clock)
        .filter(|clock| !is_setting(clock))
        .collect();
    assert_eq!(missing, ["caller_tool_timeout"]);
}

const HEAD: &str = "\
# Turn states

<!-- Generated from the table in crates/angelia-core/src/engine/watchdog.rs. Do not edit: run
     `UPDATE_DOCS=1 cargo test -p angelia config_docs`. -->

A running turn is always in exactly one state, and every state has a clock of its own, so that an
agent that hangs is noticed soon and one that honestly works is left alone. The clocks are settings
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
- `timeout` caps all of it. It stands still while somebody else is awaited, and begins anew when a turn
  goes on by itself after a budget.
- While the machine sleeps no clock runs.

## Budgets

A clock ends what hangs; a budget ends what is enough. When `budget_seconds`, `budget_tool_count` or
`max_cost_usd` is used up, the agent is asked to stop, and the turn ends as `partial` with the text so
far; that is no error. After a budget of time or tools it goes on by itself first, in the same
conversation and with fresh budgets, up to `auto_resume_max_resumes` times, unless
`auto_resume_budget_guard` is off. Viewers see one turn, with a notice each time it goes on.
";

/// The text of `docs/turn-states.md`.
fn document() -> String {
    let mut text = HEAD.to_owned();
    text.push_str("\n| state | clock | default | when it rings |\n|---|---|---|---|\n");
    let clocks = Clocks::default();
    for row in STATES {
        text.push_str(&line(row, &clocks));
    }
    text.push_str(TAIL);
    text
}

fn line(row: &StateRow, clocks: &Clocks) -> String {
    let default = Period::seconds((row.default)(clocks).as_secs());
    let fixed = if is_setting(row.clock) {
        ""
    } else {
        " (fixed in this version)"
    };
    let StateRow {
        state,
        clock,
        rings,
        ..
    } = row;
    format!("| {state} | `{clock}`{fixed} | {default} | {rings} |\n")
}

fn is_setting(clock: &str) -> bool {
    Profile::KEYS.contains(&clock)
}

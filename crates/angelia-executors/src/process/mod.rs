//! Child processes: how they are started, watched, stopped, and found again when they got away.
//!
//! ```text
//!  spawn ──► Child ──► caller's protocol interrupt ─┐
//!            │ stdout: the caller's                 │        terminate
//!            │ stderr: drained into a ring          ▼
//!            │                             close stdin ─── grace ──┐
//!            │                             SIGTERM to the group ───┤   stdout and stderr are
//!            │                             SIGKILL to the group ───┤   drained all the while
//!            │                                                     ▼
//!            │                        exited (a zombie: its pid and group id stay ours)
//!            │                                                     │
//!            │                             wait for end of output, at most `leak`
//!            │                             sweep its mark: SIGTERM ─ grace ─ SIGKILL
//!            │                             SIGKILL to the group, collect the zombie ──► Ended
//!            └─ dropped: SIGKILL to the group and to everything with its mark, at once
//! ```
//!
//! Nothing here ever signals a pid it merely remembers. The child itself is signalled only while
//! it is uncollected; everybody else through a handle that was taken *before* the mark was read.
//!
//! - [`mark`]: `ANGELIA_AGENT=<home>:<owner>:<agent>`, carried by everything an agent starts.
//! - [`bound`]: which session the agent with a mark works for.
//! - [`environment`]: the allow-list. Pure.
//! - [`mod@spawn`]: a launch becomes a child, or an error that says what to do.
//! - [`child`]: the child, its pipes and its group.
//! - [`stderr`]: its last words.
//! - [`mod@terminate`]: the ladder above.
//! - [`sweep`]: what was left behind, at close and at the next start.
//! - [`released`]: a daemon that an agent started becomes nobody's child.
//! - [`detached`]: a daemon that outlives the command that starts it.
//! - [`mod@run_to_end`]: one short command, for probes; [`commands`]: those of the owner's rules.
//! - `os/`: what differs by system: process table, marks, handles. Linux uses `/proc` and pidfds.
//!   macOS shows no environments, so there a ledger of pids and start times stands in for the
//!   marks; that file is untested on a real macOS.

pub mod bound;
pub mod child;
pub mod commands;
pub mod detached;
pub mod environment;
pub mod mark;
mod os;
pub mod released;
pub mod run_to_end;
pub mod spawn;
pub mod stderr;
pub mod sweep;
pub mod terminate;

pub use child::Child;
pub use commands::ShellCommands;
pub use mark::{AgentId, HomeId, Mark, OwnerId};
pub use os::StartTime;
pub use run_to_end::{run_to_end, run_with_input};
pub use spawn::{Launch, SpawnError, spawn};
pub use terminate::{Ended, Ladder, Rung, terminate};

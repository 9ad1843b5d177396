//! Child processes: starting, watching and stopping them, and finding the ones left behind.
//!
//! ```text
//!  spawn ──► Child ──► caller's protocol interrupt ─┐
//!            │ stdout: read by the caller           │        terminate
//!            │ stderr: drained into a tail buffer   ▼
//!            │                             close stdin ─── grace ──┐
//!            │                             SIGTERM to the group ───┤   stdout and stderr are
//!            │                             SIGKILL to the group ───┤   drained all the while
//!            │                                                     ▼
//!            │                        exited (a zombie: its pid and group id stay ours)
//!            │                                                     │
//!            │                             wait for end of output, at most `output_drain`
//!            │                             sweep its mark: SIGTERM ─ grace ─ SIGKILL
//!            │                             SIGKILL to the group, reap the zombie ─► Termination
//!            └─ dropped: SIGKILL to the group and to everything with its mark, at once
//! ```
//!
//! No code here signals a remembered pid. The child itself is signalled only until it is reaped;
//! every other process is signalled through a handle that was opened *before* its mark was read.
//!
//! - [`mark`]: `ANGELIA_AGENT=<home>:<owner>:<agent>`, carried by everything an agent starts.
//! - [`session_binding`]: the session for which the agent with a mark works.
//! - [`environment`]: the child's environment, built from an allow-list. Pure.
//! - [`confinement`]: limits the files that a child may open; `landlock_rules`: the kernel's rules
//!   for it.
//! - [`mod@spawn`]: starts a child, or returns an error with advice on what to do.
//! - [`child`]: the child, its pipes and its group.
//! - `merged_output`: stdout and stderr of a child as one stream.
//! - [`stderr`]: the end of the child's stderr.
//! - [`mod@terminate`]: the stop sequence above.
//! - [`sweep`]: ends processes that were left behind, at close and at the next start.
//! - [`owner_watch`]: a process that ends the agents of an owner that was killed;
//!   [`hidden_subcommand`]: starts it.
//! - [`marked_parent`]: a parent that keeps the mark above a command that we start for an agent.
//! - [`release`]: re-executes a daemon: one that an agent started, so that no sweep takes it for a part
//!   of that agent, and one that restarts.
//! - [`foreground`]: starts a program that takes over the terminal for a while.
//! - [`detached`]: starts a daemon that outlives the command that starts it.
//! - [`agent_trees`]: the agents of this process and the memory that they use.
//! - [`mod@run_to_end`]: runs one short command, for probes; [`commands`]: runs the commands of the
//!   owner's rules; `running_program`: a program of the owner that runs beside us.
//! - [`system_tool`]: runs a tool of the system, such as `systemctl`.
//! - `os/`: the parts that differ by system: process table, marks, handles. Linux uses `/proc` and
//!   pidfds. macOS shows no environments, so there a ledger of pids and start times replaces the
//!   marks; that file is untested on a real macOS.

pub mod agent_trees;
pub mod child;
pub mod commands;
pub mod confinement;
pub mod detached;
pub mod environment;
pub mod foreground;
pub mod hidden_subcommand;
#[cfg(target_os = "linux")]
mod landlock_rules;
pub mod mark;
pub mod marked_parent;
pub(crate) mod merged_output;
mod os;
pub mod owner_watch;
pub mod release;
pub mod run_to_end;
mod running_program;
pub mod session_binding;
pub mod spawn;
pub mod stderr;
pub mod sweep;
pub mod system_tool;
pub mod terminate;

pub use child::Child;
pub use commands::ShellCommands;
pub use mark::{AgentId, HomeId, OwnerId, ProcessMark};
pub use os::{ProcessHandle, StartTime};
pub use run_to_end::{run_to_end, run_with_input};
pub use spawn::{ProcessLaunch, SpawnError, spawn, spawn_heard};
pub use terminate::{StopStage, StopTimeouts, Termination, terminate};

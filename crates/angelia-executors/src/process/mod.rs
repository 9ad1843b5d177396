//! Child processes: starts, watches and stops them, and finds the ones left behind.
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
//! No code here signals a remembered pid. The child itself is signalled only until it is reaped.
//! Every other process is signalled through a handle that was opened *before* its mark was read.
//!
//! - [`mark`]: `ANGELIA_AGENT=<home>:<owner>:<agent>`, carried by everything an agent starts.
//! - [`session_binding`]: which session the agent with a given mark works for.
//! - [`environment`]: the child's environment, built from an allow-list. Pure.
//! - [`confinement`]: restricts which files a child may open; `landlock_rules`: the kernel rules.
//! - [`mod@spawn`]: starts a child, or returns an error that says what to do.
//! - [`child`]: the child, its pipes and its group.
//! - `merged_output`: a child's stdout and stderr as one stream.
//! - [`stderr`]: the tail of a child's stderr.
//! - [`mod@terminate`]: the stop sequence above.
//! - [`sweep`]: ends processes that were left behind, at close and at the next start.
//! - [`owner_watch`]: a process that ends the agents of an owner that was killed;
//!   [`hidden_subcommand`]: runs it.
//! - [`marked_parent`]: a parent that keeps the mark above a command that we start for an agent.
//! - [`release`]: re-executes a daemon, either to detach it from the agent that started it, so that
//!   no sweep ends it, or to restart it.
//! - [`foreground`]: starts a program that takes over the terminal for a while.
//! - [`detached`]: starts a daemon that outlives the command that starts it.
//! - [`agent_trees`]: the agents of this process and the memory that they use.
//! - [`mod@run_to_end`]: runs one short command, for probes; [`commands`]: runs the commands of the
//!   owner's rules; `running_program`: one of the owner's programs that runs alongside us.
//! - [`system_tool`]: runs a system tool, such as `systemctl`.
//! - `os/`: the parts that depend on the system: process table, marks, handles. Linux uses `/proc`
//!   and pidfds. macOS shows no environments, so a ledger of pids and start times replaces the
//!   marks there; that code is untested on a real macOS.

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

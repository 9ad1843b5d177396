//! `bus-rules.yaml`, and what is done about a message that has arrived.
//!
//! - [`file`](mod@file): text → rules, with the line of what is wrong.
//! - [`LiveRules`]: the rules in force; edits count from the next message on.
//! - [`Reactor`]: one message, as the rules say; [`words`]: how it is put.
//! - [`Launcher`]: commands that nobody waits for; [`Hooks`]: programs that see every message.
//! - [`EndpointHints`]: what an endpoint of ours is called.

pub mod file;
mod hooks;
mod launcher;
mod live;
mod names;
mod react;
mod wording;

pub use hooks::{HookList, Hooks};
pub use launcher::{Launcher, LauncherLimits};
pub use live::{LiveRules, Report};
pub use react::{EndpointHints, Left, Reactor, Screen, rules_paths};
pub use wording::{Purpose, words};

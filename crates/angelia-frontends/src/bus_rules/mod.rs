//! Applies `bus-rules.yaml` to incoming messages.
//!
//! - [`file`](mod@file): parses the rules; errors name their line.
//! - [`LiveRules`]: the rules in force; an edit applies from the next message on.
//! - [`RuleRunner`]: applies the rules to one message; [`render_message`]: formats it.
//! - [`Launcher`]: runs commands in the background; [`Hooks`]: programs that get every message.
//! - [`check_trusted`]: refuses rules and hooks that another user could have written.
//! - [`EndpointHints`]: chooses the name of our own endpoint.

pub mod file;
mod hooks;
mod launcher;
mod live_rules;
mod name_list;
mod render;
mod rule_runner;
mod trusted_file;

pub use hooks::{HookList, Hooks};
pub use launcher::{Launcher, LauncherLimits};
pub use live_rules::{LiveRules, RulesReport};
pub use render::{FormatPurpose, render_message};
pub use rule_runner::{EndpointHints, PendingActions, RuleRunner, Screen, rules_paths};
pub use trusted_file::{UntrustedFile, check_trusted};

//! Decides what happens to a bus message on arrival. Pure: files, programs and terminals are
//! elsewhere.
//!
//! - [`RuleInput`]: a message as rules see it; every message has one.
//! - [`Rules`], [`Rule`], [`RuleDecision`]: which rule matches a message, and its actions.
//! - [`MessageFormat`], [`Template`]: how a message is rendered; its own text is never expanded.
//! - [`Roles`]: display names for short keys.
//! - [`strip_terminal_codes`]: text without terminal control sequences.

mod plain;
mod roles;
mod rule;
mod seen;
mod template;

#[cfg(test)]
mod tests;

pub use plain::plain;
pub use roles::Roles;
pub use rule::{Decision, Format, Match, NamePattern, Rule, Rules, ToAgent};
pub use seen::Seen;
pub use template::{Ink, Template};

//! Decides what happens to a bus message on arrival. Pure: files, programs and terminals are
//! handled elsewhere.
//!
//! - [`RuleInput`]: a message in the form that rules work on. Every message can be converted to it.
//! - [`Rules`], [`Rule`], [`RuleDecision`]: the rule that matches a message, and its actions.
//! - [`MessageFormat`], [`Template`]: how a message is rendered; its own text is never expanded.
//! - [`Roles`]: display names for short keys.
//! - [`strip_terminal_codes`]: text without terminal control sequences.

mod roles;
mod rule;
mod rule_input;
mod template;
mod terminal_codes;

#[cfg(test)]
mod tests;

pub use roles::Roles;
pub use rule::{
    AgentAction, MessageFormat, NamePattern, Rule, RuleConditions, RuleDecision, Rules,
};
pub use rule_input::RuleInput;
pub use template::{ColourMode, Template};
pub use terminal_codes::strip_terminal_codes;

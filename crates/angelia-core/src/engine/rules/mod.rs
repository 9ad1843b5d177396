//! What happens to a message when it arrives. Pure: files, programs and terminals are elsewhere.
//!
//! - [`Seen`]: a message as rules see it; any message can be seen.
//! - [`Rules`], [`Rule`], [`Decision`]: which rule a message meets, and what that asks for.
//! - [`Format`], [`Template`]: how it is put into words; its own text is never expanded.
//! - [`Roles`]: who is called what.
//! - [`plain`]: text without what a terminal would obey.

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

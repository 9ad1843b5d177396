//! The user's own `config.toml` of the program: what we write into it, and take away again.
//!
//! - [`Wish`], [`Plan`]: what shall be there, and what becomes of it.
//! - [`enabled`], [`disabled`]: text in, text out. Pure.
//! - `layout`: where things lie in a text; `block`: which of its lines are ours.
//! - `server`, `value`: a definition of ours in the words and the spelling of the program.
//! - [`plugins`]: what is installed there.
//! - [`file`]: the file itself, replaced at once.

mod block;
mod enable;
pub mod file;
mod layout;
pub mod plugins;
mod server;
mod value;

pub use block::disabled;
pub use enable::{OwnTools, Part, Plan, State, Wish, enabled};

/// A text that is not what it should be, by no fault of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct Broken {
    pub line: usize,
    pub column: usize,
    pub message: String,
}

#[cfg(test)]
mod tests;

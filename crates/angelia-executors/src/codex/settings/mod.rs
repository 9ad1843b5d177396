//! Edits the user's own `config.toml` of Codex: adds Angelia's settings, and removes them again.
//!
//! - [`DesiredConfig`], [`ConfigEdit`]: the settings to write, and the resulting edit.
//! - [`with_angelia_config`], [`without_angelia_config`]: text in, text out. Pure.
//! - `layout`: positions of tables and values in a text; `block`: which of its lines are Angelia's.
//! - `mcp_server`, `toml_value`: an MCP server as a table in Codex's form, and JSON as TOML.
//! - [`plugins`]: finds the installed plugins.
//! - [`config_file`]: the file itself, replaced atomically.

mod block;
mod enable;
pub mod file;
mod layout;
pub mod plugins;
mod server;
mod value;

pub use block::disabled;
pub use enable::{OwnTools, Part, Plan, State, Wish, enabled};

/// The user's `config.toml` is not valid TOML, or would not be after the edit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct Broken {
    pub line: usize,
    pub column: usize,
    pub message: String,
}

#[cfg(test)]
mod tests;

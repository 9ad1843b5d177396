//! Edits the user's own `config.toml` for Codex: adds Angelia's settings, and removes them again.
//!
//! - [`DesiredConfig`], [`ConfigEdit`]: the settings to write, and the resulting edit.
//! - [`with_angelia_config`], [`without_angelia_config`]: text in, text out. Pure.
//! - [`provider`]: the model provider of `angelia setup codex`, and its profile. Pure.
//! - `layout`: the positions of tables and values in a text; `block`: finds Angelia's lines.
//! - `mcp_server`, `toml_value`: an MCP server as a table in Codex's format, and JSON as TOML.
//! - [`plugins`]: finds the installed plugins.

mod block;
mod edit;
mod layout;
mod mcp_server;
pub mod plugins;
pub mod provider;
mod toml_value;

pub use block::without_angelia_config;
pub use edit::{
    ConfigEdit, ConfigPart, DesiredConfig, OwnServerLaunch, PartState, with_angelia_config,
};

/// The user's `config.toml` is not valid TOML, or would not be after the edit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct ConfigSyntaxError {
    pub line: usize,
    pub column: usize,
    pub message: String,
}

#[cfg(test)]
mod tests;

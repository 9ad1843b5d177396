//! Decides what an agent may do (`docs/design/0013-permission-authority.md`). Pure: the engine has
//! the paths resolved and the stored rules read, and gets a decision from data.
//!
//! - `authority.rs`: the decision, from levels, patterns, grants and protected paths.
//! - `access.rs`: the paths that a request touches, as real paths.
//! - `protected.rs`: the table of protected paths.
//! - `private_files.rs`: the part of it that searches leave out.
//! - `pattern.rs`: which tools, paths and texts a pattern matches.
//! - `command_rules.rs`: which commands patterns allow and deny.
//! - `guarded.rs`: options that let a well-known command do more than its name says.
//! - `command_paths.rs`: the paths that a command names.
//! - `shell`: parses scripts.

mod access;
mod authority;
mod command_paths;
mod command_rules;
mod guarded;
mod pattern;
mod private_files;
mod protected;
mod shell;

#[cfg(test)]
mod own_file_tests;
#[cfg(test)]
mod tests;

pub use access::{AccessPlan, ResolvedRequest};
pub use authority::{AccessCheck, Authority, ProtectedTouch};
pub use private_files::PrivateFiles;
pub use protected::CHAT_FILES;

//! Patches in the form that GPT models write (`*** Begin Patch` … `*** End Patch`). Pure.
//!
//! - [`parse`]: parses a text into changes to files.
//! - [`apply`]: applies a change to the text of a file.

pub mod apply;
pub mod parse;

pub use apply::{HunkError, apply_hunks};
pub use parse::{FilePatch, Hunk, HunkLine, PatchError, parse_patch};

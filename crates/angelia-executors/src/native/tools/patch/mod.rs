//! Patches in the form that GPT models write (`*** Begin Patch` … `*** End Patch`). Pure.
//!
//! - [`parse`]: the text to changes of files.
//! - [`apply`]: a change to the text of a file.

pub mod apply;
pub mod parse;

pub use apply::{HunkError, apply_hunks};
pub use parse::{FilePatch, Hunk, HunkLine, PatchError, parse_patch};

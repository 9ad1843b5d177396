//! Repairs what a model got wrong in a tool call, without guessing: a string is never changed, what
//! may have been cut is refused, and nothing runs as an empty object in place of what was meant.
//!
//! - [`repair`]: the arguments as a JSON object.
//! - `near_object`: the parser behind it, which accepts what models write and writes JSON.
//! - [`schema_fit`]: the arguments against the schema of the tool.
//! - [`names`]: the tool that a name means.

pub mod names;
mod near_object;
pub mod repair;
pub mod schema_fit;

pub use names::{UnknownTool, find_tool};
pub use repair::{ArgumentsError, RepairKind, RepairedArguments, repair_arguments};
pub use schema_fit::{SchemaMismatch, fit_to_schema};

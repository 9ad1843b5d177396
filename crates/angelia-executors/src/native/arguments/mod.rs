//! Repairs mistakes in a model's tool calls without guessing: a string is never changed, arguments
//! that may have been cut off are refused, and broken arguments are never replaced with an empty
//! object.
//!
//! - [`repair`]: turns the arguments into a JSON object.
//! - `near_object`: the parser for that, which accepts what models write and outputs JSON.
//! - [`schema_fit`]: checks the arguments against the tool's schema.
//! - [`names`]: finds the tool that a name refers to.

pub mod names;
mod near_object;
pub mod repair;
pub mod schema_fit;

pub use names::{UnknownTool, find_tool};
pub use repair::{ArgumentsError, RepairKind, RepairedArguments, repair_arguments};
pub use schema_fit::{SchemaMismatch, fit_to_schema};

//! JSON of callers whose JSON library is not strict. Python writes lone surrogates and `NaN`;
//! others write a byte order mark or bytes that are not UTF-8. Defects with an obvious meaning are
//! repaired; the others are described, with the path of their field.
//!
//! - [`repair`]: replaces invalid characters; for valid text it costs only a search for two short
//!   strings.
//! - [`defect`]: finds the reason why JSON cannot be parsed; called only after parsing has failed.

pub mod defect;
pub mod repair;

pub use defect::{JsonDefect, find_defect};
pub use repair::repair;

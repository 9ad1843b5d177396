//! JSON from callers whose JSON library is not strict. Python writes lone surrogates and `NaN`;
//! others write a byte order mark or invalid UTF-8. Defects with an obvious meaning are repaired;
//! the rest are described, with the path of their field.
//!
//! - [`repair`]: replaces invalid characters. Valid text costs only a UTF-8 check and a search for
//!   two short strings.
//! - [`defect`]: explains why JSON cannot be parsed. Called only after parsing has failed.

pub mod defect;
pub mod repair;

pub use defect::{JsonDefect, find_defect};
pub use repair::repair;

//! JSON of callers whose JSON library is not strict. Python writes lone surrogates and `NaN`, others
//! write a byte order mark or bytes that are not UTF-8. What has a plain meaning is repaired; what
//! has none is described, with the path of the field that it stands in.
//!
//! - [`repair`]: replaces what is no character; costs a search for two short strings if nothing is.
//! - [`defect`]: finds out why JSON cannot be parsed; called only after that has failed.

pub mod defect;
pub mod repair;

pub use defect::{JsonDefect, find_defect};
pub use repair::repair;

//! What the benchmarks share: what they are told, a private home for one comparison, samples and the goals they must
//! reach, and what a process costs.

mod options;
mod place;
pub mod processor;
pub mod report;

pub use self::{options::Options, place::Place};

//! What the benchmarks share: a private home for one comparison, samples and the goals they must
//! reach, and what a process costs.

mod place;
pub mod processor;
pub mod report;

pub use self::place::Place;

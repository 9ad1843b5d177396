//! Shared support for the benchmarks: command-line options, a private home for one comparison, the
//! measured process with its processor time and memory, and samples with the goals they must reach.

mod options;
mod place;
pub mod processor;
pub mod report;
mod running;

pub use self::{
    options::Options,
    place::Place,
    running::{Running, ours},
};

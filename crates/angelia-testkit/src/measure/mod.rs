//! What the benchmarks share: what they are told, a private home for one comparison, the program that
//! is measured and what it costs, samples and the goals they must reach.

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

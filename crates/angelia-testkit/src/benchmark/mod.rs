//! Shared support for the benchmarks: command-line options, a private home for one comparison, the
//! measured process with its processor time and memory, and samples with the goals they must reach.

mod bench_home;
mod measured_process;
mod options;
pub mod process_usage;
pub mod report;

pub use self::{
    bench_home::BenchHome,
    measured_process::{MeasuredProcess, angelia_command},
    options::BenchOptions,
};

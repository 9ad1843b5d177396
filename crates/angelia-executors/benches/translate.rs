//! Measures the cost of translating in instructions and allocations.
//!
//! Needs valgrind and `cargo install gungraun-runner` in the version of `Cargo.lock`; then
//! `cargo bench -p angelia-executors --bench translate`. For times, use `--bench translate_time`.

mod recorded;

use std::hint::black_box;

use angelia_core::ports::AgentEvent;
use angelia_executors::claude::translate::StreamTranslator;
use gungraun::{Dhat, LibraryBenchmarkConfig, library_benchmark, library_benchmark_group, main};

use recorded::{LINES, RESULT, SKIPPED, TEXT_DELTA, TOOL_CALL, translator};

/// Returns a translator in the middle of a message, and a buffer for the events it emits.
fn ready(line: &'static str) -> (StreamTranslator, Vec<AgentEvent>, &'static str) {
    let (mut translator, mut out) = (translator(), Vec::with_capacity(4 * LINES));
    // The first delta opens the block; do that before the measurement.
    translator.translate_line(TEXT_DELTA.as_bytes(), &mut out);
    out.clear();
    (translator, out, line)
}

#[library_benchmark]
#[bench::text_delta(ready(TEXT_DELTA))]
#[bench::skipped(ready(SKIPPED))]
#[bench::tool_call(ready(TOOL_CALL))]
#[bench::result(ready(RESULT))]
fn a_hundred_lines(
    (mut translator, mut out, line): (StreamTranslator, Vec<AgentEvent>, &'static str),
) -> (StreamTranslator, Vec<AgentEvent>) {
    for _ in 0..LINES {
        black_box(translator.translate_line(black_box(line.as_bytes()), &mut out));
    }
    (translator, out)
}

library_benchmark_group!(name = translate; benchmarks = a_hundred_lines);

main!(
    config = LibraryBenchmarkConfig::default().tool(Dhat::default());
    library_benchmark_groups = translate
);

//! Measures the speed of translating on this machine:
//! `cargo bench -p angelia-executors --bench translate_time`.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]
#![expect(clippy::cast_precision_loss, reason = "nanoseconds need no 53 bits")]

mod recorded;

use std::{hint::black_box, time::Instant};

use recorded::{LINES, RESULT, SKIPPED, TEXT_DELTA, TOOL_CALL, translator};

const ROUNDS: usize = 15;
const BATCHES: usize = 2_000;

fn main() {
    for (name, line) in [
        ("text delta", TEXT_DELTA),
        ("skipped line", SKIPPED),
        ("tool call", TOOL_CALL),
        ("result", RESULT),
    ] {
        let mut times: Vec<f64> = (0..ROUNDS).map(|_| measure(line)).collect();
        times.sort_by(f64::total_cmp);
        let (median, best) = (times[ROUNDS / 2], times[0]);
        println!("{name:<14} {median:7.0} ns median of {ROUNDS}, {best:7.0} ns best");
    }
}

/// Returns the nanoseconds per line, with the emitted events removed in batches as in an agent.
fn measure(line: &str) -> f64 {
    let mut translator = translator();
    let mut out = Vec::with_capacity(4 * LINES);
    let begun = Instant::now();
    for _ in 0..BATCHES {
        for _ in 0..LINES {
            black_box(translator.translate_line(black_box(line.as_bytes()), &mut out));
        }
        out.clear();
    }
    begun.elapsed().as_nanos() as f64 / (BATCHES * LINES) as f64
}

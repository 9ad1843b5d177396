//! Measures the framer's speed on this machine: `cargo bench -p angelia-wire --bench throughput`.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]
#![expect(clippy::cast_precision_loss, reason = "gigabytes per second need no 53 bits")]

use std::hint::black_box;
use std::time::Instant;

use angelia_wire::limits::{MAX_FRAME_BYTES, READ_BYTES};
use angelia_wire::ndjson::{Frame, Framer};
use bytes::BufMut;

const STREAM_BYTES: usize = 200_000_000;
const ROUNDS: usize = 7;

fn main() {
    for (name, length, limit) in [
        ("650-byte lines", 650, MAX_FRAME_BYTES),
        ("650-byte lines, skipped", 650, 100),
        ("60-byte lines", 60, MAX_FRAME_BYTES),
        ("1 MB lines", 1_000_000, MAX_FRAME_BYTES),
    ] {
        let line = [vec![b'x'; length - 1], b"\n".to_vec()].concat();
        let stream = line.repeat(STREAM_BYTES / length);
        let mut rates: Vec<f64> = (0..ROUNDS).map(|_| measure(&stream, limit)).collect();
        rates.sort_by(f64::total_cmp);
        let (median, best) = (rates[ROUNDS / 2], rates[ROUNDS - 1]);
        println!("{name:<24} {median:6.2} GB/s median of {ROUNDS}, {best:6.2} best");
    }
}

/// Returns the gigabytes per second from memory through read-sized copies to borrowed lines.
fn measure(stream: &[u8], limit: usize) -> f64 {
    let mut framer = Framer::new(limit);
    let mut lines = 0_usize;
    let begun = Instant::now();
    for read in stream.chunks(READ_BYTES) {
        framer.buffer().put_slice(read);
        while let Some(frame) = framer.next() {
            lines += usize::from(matches!(black_box(frame), Frame::Line(_)));
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    black_box(lines);
    stream.len() as f64 / seconds / 1e9
}

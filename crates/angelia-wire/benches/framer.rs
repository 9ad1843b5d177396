//! Measures the cost of framing in instructions and allocations.
//!
//! Needs valgrind and `cargo install gungraun-runner` in the version of `Cargo.lock`; then
//! `cargo bench -p angelia-wire --bench framer`.

use std::hint::black_box;

use angelia_wire::limits::MAX_FRAME_BYTES;
use angelia_wire::ndjson::{Frame, Framer};
use bytes::BufMut;
use gungraun::{Dhat, LibraryBenchmarkConfig, library_benchmark, library_benchmark_group, main};

/// The bytes of one read. Small, because valgrind counts a large copy as one instruction per byte,
/// which would hide the framer's own cost.
const READ_BYTES: usize = 1024;

/// Returns 1 MiB of lines as long as an agent's text deltas, and a framer that has already read
/// some.
fn framer_and_stream(length: usize, limit: usize) -> (Framer, Vec<u8>) {
    let line = [vec![b'x'; length - 1], b"\n".to_vec()].concat();
    let stream = line.repeat(1024 * 1024 / length);
    let mut framer = Framer::new(limit);
    frame_stream(&mut framer, &stream);
    (framer, stream)
}

fn frame_stream(framer: &mut Framer, stream: &[u8]) -> usize {
    let mut bytes = 0;
    for read in stream.chunks(READ_BYTES) {
        framer.buffer().put_slice(read);
        while let Some(frame) = framer.next() {
            bytes += match frame {
                Frame::Line(line) | Frame::Partial(line) => line.len(),
                Frame::TooLong { head, .. } => head.len(),
            };
        }
    }
    bytes
}

#[library_benchmark]
#[bench::lines(framer_and_stream(650, MAX_FRAME_BYTES))]
#[bench::lines_skipped(framer_and_stream(650, 100))]
#[bench::long_lines(framer_and_stream(300_000, MAX_FRAME_BYTES))]
fn one_mebibyte((mut framer, stream): (Framer, Vec<u8>)) -> usize {
    black_box(frame_stream(&mut framer, black_box(&stream)))
}

library_benchmark_group!(name = framer; benchmarks = one_mebibyte);

main!(
    config = LibraryBenchmarkConfig::default().tool(Dhat::default());
    library_benchmark_groups = framer
);

//! Invariants of the decoders for any bytes split anywhere, shared by the property tests and the
//! fuzz targets.
//!
//! Each decoder is compared with a reference that sees the whole stream at once and is written for
//! readability, not for speed.

pub(crate) mod framer;
pub(crate) mod frames;
pub(crate) mod sse;

/// Splits `stream` into chunks of `sizes`, repeated cyclically; one chunk if there are no sizes.
pub(crate) fn split_cyclic<'a>(
    stream: &'a [u8],
    sizes: &'a [usize],
) -> impl Iterator<Item = &'a [u8]> {
    let mut sizes = sizes.iter().copied().cycle();
    let mut rest = stream;
    std::iter::from_fn(move || {
        let size = sizes.next().unwrap_or(rest.len()).clamp(1, rest.len().max(1));
        let (piece, after) = rest.split_at_checked(size)?;
        rest = after;
        Some(piece)
    })
}

/// Parses a fuzzer's bytes as a case: a limit, three chunk sizes, a stream.
pub(crate) fn parse_case(data: &[u8]) -> Option<(usize, [usize; 3], &[u8])> {
    let (&[limit, a, b, c], stream) = data.split_first_chunk()?;
    Some((usize::from(limit), [a, b, c].map(usize::from), stream))
}

//! What must hold for any bytes and any cuts, shared by the property tests and the fuzz targets.
//!
//! Each decoder is compared with a reference that sees the whole stream at once and is written to
//! be read, not to be fast.

pub(crate) mod framer;
pub(crate) mod frames;
pub(crate) mod sse;

/// Yields the pieces that `sizes`, taken in a circle, cut `stream` into; all of it if there are none.
pub(crate) fn pieces<'a>(stream: &'a [u8], sizes: &'a [usize]) -> impl Iterator<Item = &'a [u8]> {
    let mut sizes = sizes.iter().copied().cycle();
    let mut rest = stream;
    std::iter::from_fn(move || {
        let size = sizes.next().unwrap_or(rest.len()).clamp(1, rest.len().max(1));
        let (piece, after) = rest.split_at_checked(size)?;
        rest = after;
        Some(piece)
    })
}

/// Reads a fuzzer's bytes as a case: a limit, three sizes of pieces, a stream.
pub(crate) fn case(data: &[u8]) -> Option<(usize, [usize; 3], &[u8])> {
    let (&[limit, a, b, c], stream) = data.split_first_chunk()?;
    Some((usize::from(limit), [a, b, c].map(usize::from), stream))
}

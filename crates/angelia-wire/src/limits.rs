//! Limits on the memory that a peer can make us hold, and on the size of a single read.

/// The longest line or event that is kept; longer ones are skipped and reported.
///
/// Generous, because agents send images and whole files in one line.
pub const MAX_FRAME_BYTES: usize = 64 * 1024 * 1024;

/// How much of an oversized line is kept to identify it in the report.
pub const HEAD_BYTES: usize = 256;

/// Room offered for one read: the capacity of a pipe on Linux.
pub const READ_BYTES: usize = 64 * 1024;

/// The largest buffer kept between lines; a larger one is freed after the long line that needed it.
pub const MAX_IDLE_BUFFER_BYTES: usize = 4 * READ_BYTES;

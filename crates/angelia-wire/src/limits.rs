//! Limits the memory that a peer can make us hold, and the bytes that are read at a time.

/// The longest line or event that is kept; a longer one is skipped and reported.
///
/// Generous, because agents send images and whole files in one line.
pub const MAX_FRAME_BYTES: usize = 64 * 1024 * 1024;

/// The length of the beginning that is kept of a line that is too long, to identify it in a report.
pub const HEAD_BYTES: usize = 256;

/// Room offered for one read: the capacity of a pipe on Linux.
pub const READ_BYTES: usize = 64 * 1024;

/// The largest buffer kept between lines; a larger one is freed after the long line that needed it.
pub const MAX_IDLE_BUFFER_BYTES: usize = 4 * READ_BYTES;

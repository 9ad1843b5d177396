//! How much a peer can make us hold in memory, and how much we take at a time.

/// The longest line or event that is kept; a longer one is skipped and reported.
///
/// Agents send images and whole files in one line, so this is generous.
pub const MAX_FRAME: usize = 64 * 1024 * 1024;

/// How much of a line that is too long is kept, to say in a report what it was.
pub const HEAD: usize = 256;

/// Room offered for one read: what a pipe holds on Linux.
pub const READ: usize = 64 * 1024;

/// The largest buffer kept between lines; one that a giant line made larger is given back.
pub const KEEP: usize = 4 * READ;

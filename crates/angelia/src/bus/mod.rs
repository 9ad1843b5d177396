//! The message bus of this home: inside `angelia serve`, or alone.
//!
//! - [`open`]: the log, the socket, the pid files.
//! - [`alone`]: `angelia bus run`.
//! - [`pid_file`]: one daemon at a time, and its number.
//! - [`line`]: how commands speak to a bus that runs.

pub(crate) mod alone;
pub(crate) mod line;
pub(crate) mod open;
pub(crate) mod pid_file;

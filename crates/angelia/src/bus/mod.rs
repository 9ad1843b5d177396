//! The message bus of this home: inside `angelia serve`, or in a process of its own.
//!
//! - [`open`]: opens the log, the socket and the pid files.
//! - [`standalone`]: `angelia bus run`.
//! - [`pid_file`]: allows one daemon at a time, and tells its pid.
//! - [`client`]: the connection of commands to a running bus.

pub(crate) mod client;
pub(crate) mod open;
pub(crate) mod pid_file;
pub(crate) mod standalone;

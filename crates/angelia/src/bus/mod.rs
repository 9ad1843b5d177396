//! The message bus of this home, inside `angelia serve` or in a separate process.
//!
//! - [`open`]: opens the log, the sockets and the pid files.
//! - [`sockets`]: the addresses of the bus; [`hermes_socket`]: the socket for hermes-bus clients.
//! - [`standalone`]: `angelia bus run`; [`takeover`]: `serve` takes over from it.
//! - [`process`]: finds, proves and ends the process that serves the bus.
//! - [`pid_file`]: ensures that only one daemon runs, and holds its pid.
//! - [`token_file`]: the token that proves the name of an endpoint.
//! - [`client`]: the connection of commands to a running bus.

pub(crate) mod client;
pub(crate) mod hermes_socket;
pub(crate) mod open;
pub(crate) mod pid_file;
pub(crate) mod process;
pub(crate) mod sockets;
pub(crate) mod standalone;
pub(crate) mod takeover;
pub(crate) mod token_file;

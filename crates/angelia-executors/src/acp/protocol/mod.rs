//! The JSON of both directions.
//!
//! - [`incoming`]: messages of agents during a turn, parsed leniently because agents deviate from
//!   the protocol.
//! - [`handshake`]: their answers to `initialize` and to the requests that open a conversation.
//! - [`outgoing`]: our messages.

pub mod handshake;
pub mod incoming;
pub mod outgoing;

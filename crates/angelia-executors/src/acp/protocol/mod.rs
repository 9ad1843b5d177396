//! The JSON of both directions.
//!
//! - [`incoming`]: messages from agents during a turn, parsed leniently because agents deviate from
//!   the protocol.
//! - [`handshake`]: agents' answers to `initialize` and to requests that open a conversation.
//! - [`outgoing`]: our messages.

pub mod handshake;
pub mod incoming;
pub mod outgoing;

//! What the listeners share: the process at the other end of a Unix socket, and failures to accept a
//! connection.

mod accept_errors;
mod peer;

pub(crate) use accept_errors::AcceptErrors;
pub use peer::{AGENT_MARK, Peer, inherited_mark};

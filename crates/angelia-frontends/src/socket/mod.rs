//! Identifies the process at the other end of a Unix socket.

mod peer;

pub use peer::{AGENT_MARK, Peer, inherited_mark};

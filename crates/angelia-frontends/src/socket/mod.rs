//! Unix sockets: who is at the other end.

mod peer;

pub use peer::{AGENT_MARK, Peer, own_mark};

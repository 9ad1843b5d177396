//! Shared code of the listeners: identifies the process at the other end of a local connection, and
//! handles failed `accept` calls.
//!
//! - [`LocalCaller`]: the result: the owner, an agent, or neither.
//! - `ancestry`: searches a process and its ancestors for the marks of agents.
//! - [`Peer`]: the process at the other end of a Unix socket; [`TcpPeer`]: of a TCP connection.
//! - [`AgentSessions`]: finds the session that an agent's mark belongs to.
//! - `accept_errors`: failed `accept` calls.

mod accept_errors;
mod agent_sessions;
mod ancestry;
mod caller;
mod peer;
mod tcp_peer;
mod tcp_table;

pub(crate) use accept_errors::AcceptErrors;
pub use agent_sessions::AgentSessions;
pub use caller::LocalCaller;
pub use peer::Peer;
pub use tcp_peer::TcpPeer;

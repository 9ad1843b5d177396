//! The process behind a local connection. Agents run as the owner's user, so a user id or a token
//! alone does not tell a person from an agent.

use std::sync::Arc;

use super::ancestry;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalCaller {
    /// A process of the owner that no agent started.
    Owner,
    /// A process with marks of agents on itself or its ancestors, nearest first.
    Agent(Arc<[String]>),
    /// A process on this machine that has exited or is hidden from us. It has the rights of an
    /// agent without a session.
    Unidentified,
    /// A process on another machine or of another user. Only its token identifies it.
    Remote,
}

impl LocalCaller {
    /// Identifies this process. `own_mark` is its own variable, which is the only evidence on
    /// systems that do not show the environments of processes.
    pub fn this_process(own_mark: Option<&str>) -> Self {
        ancestry::caller_of_this_process(own_mark)
    }
}

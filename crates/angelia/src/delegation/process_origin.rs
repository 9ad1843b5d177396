//! Determines whether the owner or an agent started this process. An agent's process carries a mark
//! in its environment, as do the processes that it starts; a binding file names the session that
//! belongs to the mark. If neither this process nor its ancestors have a mark, the owner started
//! it.

use angelia_core::model::SessionId;
use angelia_executors::process::{ProcessMark, session_binding};
use angelia_frontends::{mcp::ToolCallError, socket::LocalCaller};

use crate::assemble::App;

/// Who started this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProcessOrigin {
    Owner,
    Agent(ProcessMark),
    /// An agent that cannot be identified, so it may not act for any session.
    UnknownAgent,
}

impl ProcessOrigin {
    /// Looks for marks on this process and its ancestors. An agent may remove the mark from the
    /// environment of a process that it starts, but its own process still carries it.
    pub(crate) fn detect(app: &App) -> Self {
        match LocalCaller::this_process(app.environment.own_mark()) {
            LocalCaller::Owner => Self::Owner,
            LocalCaller::Unidentified | LocalCaller::Remote => Self::UnknownAgent,
            LocalCaller::Agent(marks) => match marks.first().map(|mark| mark.parse()) {
                Some(Ok(mark)) if Self::is_of_home(&mark, app) => Self::Agent(mark),
                _ => Self::UnknownAgent,
            },
        }
    }

    fn is_of_home(mark: &ProcessMark, app: &App) -> bool {
        mark.home.as_str() == app.home.id()
    }

    /// Returns the session that the agent currently works for, or `None` for the owner.
    pub(crate) fn session(&self, app: &App) -> Result<Option<SessionId>, ToolCallError> {
        let unclear = || {
            ToolCallError::new("cannot tell which session is asking")
                .with_hint("an agent's process can ask only while a session uses it")
        };
        match self {
            Self::Owner => Ok(None),
            Self::UnknownAgent => Err(unclear()),
            Self::Agent(mark) => {
                let session = session_binding::read_session(&app.home.bindings_dir(), mark);
                session.map(Some).ok_or_else(unclear)
            }
        }
    }
}

//! Who asks. An agent's process carries its mark, and so does whatever it starts; which session it
//! works for is written beside the mark. Without a mark anywhere above us, it is the owner.

use angelia_core::model::SessionId;
use angelia_executors::process::{Mark, bound, mark};
use angelia_frontends::{mcp::Refused, socket::own_mark};

use crate::assemble::App;

/// Who started this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Starter {
    Owner,
    Agent(Mark),
    /// An agent, and we cannot tell which: it may do nothing in anybody's name.
    Unclear,
}

impl Starter {
    /// An agent that takes the mark from the environment still has ancestors that carry it.
    pub(crate) fn find(app: &App) -> Self {
        let own = app.environment.non_empty(mark::VARIABLE);
        let own = own.map(|mark| mark.to_string_lossy().into_owned());
        let own = own.filter(|mark| mark != mark::RELEASED);
        let Some(found) = own.or_else(own_mark) else {
            return Self::Owner;
        };
        match found.parse::<Mark>() {
            Ok(mark) if mark.home.as_str() == app.home.id() => Self::Agent(mark),
            _ => Self::Unclear,
        }
    }

    /// The session that the agent works for now.
    pub(crate) fn session(&self, app: &App) -> Result<Option<SessionId>, Refused> {
        let unclear = || {
            Refused::new("it cannot be told which session asks")
                .with_hint("an agent's process asks only while its session uses it")
        };
        match self {
            Self::Owner => Ok(None),
            Self::Unclear => Err(unclear()),
            Self::Agent(mark) => {
                let session = bound::session_of(&app.home.bindings(), mark);
                session.map(Some).ok_or_else(unclear)
            }
        }
    }
}

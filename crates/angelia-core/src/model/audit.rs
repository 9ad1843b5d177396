//! The audit log: decisions, changes, deletions and exposures, each with its actor and time.

use std::{fmt, str::FromStr, sync::Arc};

use jiff::Timestamp;

/// One row of the audit log. Rows are only added, never changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    pub at: Timestamp,
    pub actor: AuditActor,
    pub action: AuditAction,
    /// What was acted on and how it changed, for people to read. Contains no secrets.
    pub subject: Arc<str>,
}

/// An entry as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRecord {
    /// Consecutive numbers, starting at 1.
    pub number: u64,
    pub entry: AuditEntry,
}

/// Who acted. Written as `terminal`, `browser`, `chat:NAME`, `key:NAME` or `agent:NAME`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AuditActor {
    /// A process of the owner: a command, or the daemon acting for the owner.
    Terminal,
    /// A client with the owner's token.
    Browser,
    ChatUser(Arc<str>),
    Key(Arc<str>),
    Agent(Arc<str>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AuditAction {
    /// An approval was decided.
    Decision,
    /// A key was created or revoked.
    Key,
    /// A permission rule was added or removed.
    Rule,
    /// The configuration of Angelia was changed, or that of an agent by Angelia.
    Configuration,
    Deletion,
    Login,
    /// Something became accessible to other people or programs.
    Exposure,
    /// A schedule was added, paused, resumed or removed.
    Schedule,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is not part of an audit")]
pub struct UnknownAuditWord;

impl AuditAction {
    pub const ALL: [Self; 8] = [
        Self::Decision,
        Self::Key,
        Self::Rule,
        Self::Configuration,
        Self::Deletion,
        Self::Login,
        Self::Exposure,
        Self::Schedule,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Decision => "decision",
            Self::Key => "key",
            Self::Rule => "rule",
            Self::Configuration => "configuration",
            Self::Deletion => "deletion",
            Self::Login => "login",
            Self::Exposure => "exposure",
            Self::Schedule => "schedule",
        }
    }
}

impl FromStr for AuditAction {
    type Err = UnknownAuditWord;

    fn from_str(word: &str) -> Result<Self, UnknownAuditWord> {
        Self::ALL.into_iter().find(|action| action.as_str() == word).ok_or(UnknownAuditWord)
    }
}

impl fmt::Display for AuditActor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Terminal => f.write_str("terminal"),
            Self::Browser => f.write_str("browser"),
            Self::ChatUser(name) => write!(f, "chat:{name}"),
            Self::Key(name) => write!(f, "key:{name}"),
            Self::Agent(name) => write!(f, "agent:{name}"),
        }
    }
}

impl FromStr for AuditActor {
    type Err = UnknownAuditWord;

    fn from_str(text: &str) -> Result<Self, UnknownAuditWord> {
        let Some((kind, name)) = text.split_once(':') else {
            return match text {
                "terminal" => Ok(Self::Terminal),
                "browser" => Ok(Self::Browser),
                _ => Err(UnknownAuditWord),
            };
        };
        let name = name.into();
        match kind {
            "chat" => Ok(Self::ChatUser(name)),
            "key" => Ok(Self::Key(name)),
            "agent" => Ok(Self::Agent(name)),
            _ => Err(UnknownAuditWord),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for action in AuditAction::ALL {
            assert_eq!(action.as_str().parse(), Ok(action));
        }
        let name = || Arc::<str>::from("a:b c");
        for actor in [
            AuditActor::Terminal,
            AuditActor::Browser,
            AuditActor::ChatUser(name()),
            AuditActor::Key(name()),
            AuditActor::Agent(name()),
        ] {
            assert_eq!(actor.to_string().parse(), Ok(actor));
        }
        assert_eq!("nobody".parse::<AuditActor>(), Err(UnknownAuditWord));
    }
}

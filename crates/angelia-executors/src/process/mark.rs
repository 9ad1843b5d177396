//! The mark: an environment variable by which a sweep finds every process of an agent.
//!
//! Every process that the agent starts inherits `ANGELIA_AGENT=<home id>:<owner id>:<agent id>`,
//! even a tool's grandchild in a session of its own. The kernel still shows the variable after all
//! processes in between have exited.

use std::{fmt, str::FromStr};

/// The variable that carries the mark.
pub const MARK_VARIABLE: &str = "ANGELIA_AGENT";

/// The value of the variable in a process (a daemon) that must outlive the agent that happened to
/// start it. A sweep skips such a process and its descendants. Removing the variable would not be
/// enough: the parent may still be an agent's shell, whose descendants are swept.
pub const RELEASED_MARK: &str = "released";

/// The prefix of the agent id in the mark of a hook or a rule's command. These are the owner's
/// programs, so a search for an agent's process ignores their marks.
pub const COMMAND_PREFIX: &str = "command-";

const LONGEST_ID: usize = 64;

/// Why a string is not a valid mark or part of a mark.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MarkError {
    #[error("`{0}` cannot be part of a process mark; use 1 to 64 letters, digits, `-`, `_` or `.`")]
    Id(String),
    #[error("`{0}` is not a process mark; it should read `<home id>:<owner id>:<agent id>`")]
    Shape(String),
}

/// Declares the type of one part of the mark: a validated string without the separator.
macro_rules! id {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Box<str>);

        impl $name {
            pub fn new(id: &str) -> Result<Self, MarkError> {
                let fits = (1..=LONGEST_ID).contains(&id.len())
                    && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
                if fits { Ok(Self(id.into())) } else { Err(MarkError::Id(id.to_owned())) }
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id! {
    /// Identifies one `$ANGELIA_HOME`. A home never touches the processes of another home.
    HomeId
}
id! {
    /// Identifies one run of an angelia process. Every start has a new id, so a dead owner's id
    /// never becomes alive again.
    OwnerId
}
id! {
    /// Identifies one agent process of an owner.
    AgentId
}

/// Identifies the home, the owner and the agent that a process belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ProcessMark {
    pub home: HomeId,
    pub owner: OwnerId,
    pub agent: AgentId,
}

impl ProcessMark {
    /// Returns the variable's name and value, for environments that are not inherited, such as an
    /// MCP server's `env`.
    pub fn env_variable(&self) -> (&'static str, String) {
        (MARK_VARIABLE, self.to_string())
    }
}

impl fmt::Display for ProcessMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.home, self.owner, self.agent)
    }
}

impl FromStr for ProcessMark {
    type Err = MarkError;

    fn from_str(text: &str) -> Result<Self, MarkError> {
        let mut parts = text.split(':');
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(home), Some(owner), Some(agent), None) => Ok(Self {
                home: HomeId::new(home)?,
                owner: OwnerId::new(owner)?,
                agent: AgentId::new(agent)?,
            }),
            _ => Err(MarkError::Shape(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        let mark: ProcessMark = "home-1:0199_a.b:agent-7".parse().unwrap();
        assert_eq!(mark.owner.as_str(), "0199_a.b");
        assert_eq!(mark.to_string().parse(), Ok(mark.clone()));
        assert_eq!(mark.env_variable(), ("ANGELIA_AGENT", "home-1:0199_a.b:agent-7".to_owned()));
    }

    #[test]
    fn what_would_be_ambiguous_is_refused() {
        let long = "x".repeat(65);
        for text in ["", "a", "a:b", "a:b:c:d", "a::c", ":b:c", "a:b:", "a:b c:d", RELEASED_MARK] {
            assert!(text.parse::<ProcessMark>().is_err(), "{text:?}");
        }
        for id in ["", "a:b", "a b", "a\n", "é", "a=b", "a/b", long.as_str()] {
            assert!(AgentId::new(id).is_err(), "{id:?}");
        }
    }
}

//! Grants: permissions that a person gave for a session or permanently.

use std::{fmt, path::PathBuf, sync::Arc};

use jiff::Timestamp;
use uuid::Uuid;

use super::ToolPattern;

/// What a grant permits. A person sees this text before granting it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum GrantRule {
    /// The same call again: the same tool, and everything it touches.
    Exact { tool: Arc<str>, subject: Arc<str> },
    /// Every call that the pattern covers.
    Pattern(ToolPattern),
}

impl fmt::Display for GrantRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The `*` is a literal character here, unlike in a pattern.
            Self::Exact { tool, subject } if subject.contains('*') => {
                write!(f, "exactly {tool}({subject})")
            }
            Self::Exact { tool, subject } => write!(f, "{tool}({subject})"),
            Self::Pattern(pattern) => pattern.fmt(f),
        }
    }
}

/// A grant for every session of a profile in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRule {
    pub id: Uuid,
    pub profile: Arc<str>,
    pub cwd: PathBuf,
    pub rule: GrantRule,
    pub created_at: Timestamp,
    /// The person or client that granted it.
    pub by: Arc<str>,
}

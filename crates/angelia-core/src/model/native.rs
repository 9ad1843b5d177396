//! The settings of a session on the built-in loop. Agents that are programs leave them at their defaults.

use std::{path::PathBuf, sync::Arc};

use super::SessionId;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeSettings {
    /// The models to try, in this order, when the session's own model cannot answer, as `PROVIDER/MODEL`.
    pub fallback: Vec<Arc<str>>,
    /// Maximum number of requests in a turn. One more request then asks for an answer without tools.
    pub max_iterations: u32,
    /// Maximum number of tokens in one answer; `None` for the model's own limit.
    pub max_output_tokens: Option<u64>,
    /// `None` for the model's own default.
    pub reasoning: Option<ReasoningEffort>,
    pub sandbox: SandboxMode,
    /// Paths that sandboxed commands may read, besides the system and the working directory.
    pub sandbox_read: Vec<PathBuf>,
    /// Paths that sandboxed commands may write, besides the working directory.
    pub sandbox_write: Vec<PathBuf>,
    /// Whether sandboxed commands may use TCP.
    pub network: bool,
    pub memory: MemoryUse,
    /// The session that this one reviews. Such a session sends the same prefix, and can use only memory and
    /// skills.
    pub reviews: Option<SessionId>,
    pub compaction: CompactionSettings,
}

impl Default for NativeSettings {
    fn default() -> Self {
        Self {
            fallback: Vec::new(),
            max_iterations: 90,
            max_output_tokens: None,
            reasoning: None,
            sandbox: SandboxMode::default(),
            sandbox_read: Vec::new(),
            sandbox_write: Vec::new(),
            network: false,
            memory: MemoryUse::Off,
            reviews: None,
            compaction: CompactionSettings::default(),
        }
    }
}

/// Whether agents remember anything from session to session. Later variants allow more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemoryUse {
    #[default]
    Off,
    /// Only the owner's own sessions add notes.
    FromOwner,
    /// Others may add notes too: callers with a key, people in chats, bus messages.
    FromAny,
}

impl MemoryUse {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::FromOwner => "owner",
            Self::FromAny => "any",
        }
    }
}

/// When a conversation is shortened, and which part of it stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CompactionSettings {
    /// How full the usable part of the context window may become, in thousandths.
    pub at_permille: u16,
    /// Number of messages at the beginning that stay unchanged.
    pub protect_first_n: u32,
    pub on_summary_failure: SummaryFailurePolicy,
}

impl Default for CompactionSettings {
    fn default() -> Self {
        Self {
            at_permille: 850,
            protect_first_n: 3,
            on_summary_failure: SummaryFailurePolicy::default(),
        }
    }
}

/// What happens to a conversation that cannot be summarised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SummaryFailurePolicy {
    /// The conversation stays unchanged.
    #[default]
    Abort,
    /// The messages that the summary would have replaced are dropped.
    Truncate,
}

impl SummaryFailurePolicy {
    pub const ALL: [Self; 2] = [Self::Abort, Self::Truncate];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Abort => "abort",
            Self::Truncate => "truncate",
        }
    }
}

/// How much the model should think.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReasoningEffort {
    Off,
    Low,
    Medium,
    High,
    Max,
}

impl ReasoningEffort {
    pub const ALL: [Self; 5] = [Self::Off, Self::Low, Self::Medium, Self::High, Self::Max];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Max => "max",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|effort| effort.as_str() == text)
    }
}

/// The mechanism that restricts the commands of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SandboxMode {
    /// Landlock; where it is unavailable, a person is asked about every command.
    #[default]
    Auto,
    /// Landlock; where it is unavailable, no command runs.
    Landlock,
    /// Commands run with all of the owner's rights.
    Off,
}

impl SandboxMode {
    pub const ALL: [Self; 3] = [Self::Auto, Self::Landlock, Self::Off];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Landlock => "landlock",
            Self::Off => "off",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        for effort in ReasoningEffort::ALL {
            assert_eq!(ReasoningEffort::parse(effort.as_str()), Some(effort));
        }
        for mode in SandboxMode::ALL {
            assert_eq!(SandboxMode::parse(mode.as_str()), Some(mode));
        }
        assert_eq!((ReasoningEffort::parse("xhigh"), SandboxMode::parse("on")), (None, None));
    }
}

//! The settings of a session on our own loop. Agents that are programs leave them at their defaults.

use std::{path::PathBuf, sync::Arc};

use super::SessionId;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeSettings {
    /// The models that are asked when the session's own cannot answer, as `PROVIDER/MODEL`, in this
    /// order.
    pub fallback: Vec<Arc<str>>,
    /// The number of requests of a turn; then one more asks for an answer without tools.
    pub max_iterations: u32,
    /// Tokens of one answer; `None`: the model's own limit.
    pub max_output_tokens: Option<u64>,
    /// `None`: the model's own default.
    pub reasoning: Option<ReasoningEffort>,
    pub sandbox: SandboxMode,
    /// Paths that commands in the sandbox may read besides the system and the working directory.
    pub sandbox_read: Vec<PathBuf>,
    /// Paths that commands in the sandbox may write besides the working directory.
    pub sandbox_write: Vec<PathBuf>,
    /// Commands in the sandbox may use TCP.
    pub network: bool,
    pub memory: MemoryUse,
    /// The session that this one reviews: it sends the same prefix, and only memory and skills can be used.
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

/// Whether agents remember something from session to session. The later, the more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemoryUse {
    #[default]
    Off,
    /// Notes come from the owner's own sessions.
    FromOwner,
    /// Notes come also from others: callers with a key, people in chats, messages of the bus.
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

/// When a conversation is shortened, and what of it stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CompactionSettings {
    /// How full the usable part of the window may become, in thousandths.
    pub at_permille: u16,
    /// How many messages at the beginning stay as they are.
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
    /// It stays as it is.
    #[default]
    Abort,
    /// What the summary would have replaced is left out.
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

/// The amount of thinking that the model should do.
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

/// The mechanism that limits the commands of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SandboxMode {
    /// Landlock, or a person is asked about every command.
    #[default]
    Auto,
    /// Landlock, or nothing runs.
    Landlock,
    /// Commands run with all rights of the owner.
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

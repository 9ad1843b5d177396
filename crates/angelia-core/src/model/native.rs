//! The settings of a session on our own loop. Agents that are programs leave them at their defaults.

use std::path::PathBuf;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeSettings {
    /// The number of requests of a turn; then one more asks for an answer without tools.
    pub max_iterations: u32,
    /// Tokens of one answer; `None`: what the model can write.
    pub max_output_tokens: Option<u64>,
    /// `None`: the model's own default.
    pub reasoning: Option<ReasoningEffort>,
    pub sandbox: SandboxMode,
    /// What commands in the sandbox may read besides the system and the working directory.
    pub sandbox_read: Vec<PathBuf>,
    /// What commands in the sandbox may write besides the working directory.
    pub sandbox_write: Vec<PathBuf>,
    /// Commands in the sandbox may use TCP.
    pub network: bool,
}

impl Default for NativeSettings {
    fn default() -> Self {
        Self {
            max_iterations: 90,
            max_output_tokens: None,
            reasoning: None,
            sandbox: SandboxMode::default(),
            sandbox_read: Vec::new(),
            sandbox_write: Vec::new(),
            network: false,
        }
    }
}

/// How much a model should think.
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

/// What limits the commands that a model runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SandboxMode {
    /// Landlock, or a person is asked about every command.
    #[default]
    Auto,
    /// Landlock, or nothing runs.
    Landlock,
    /// Commands run as the owner's own would.
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

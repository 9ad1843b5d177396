//! Settings whose value is one of a few fixed words.

use angelia_core::model;

use crate::config::setting::{Setting, ValueCursor};

/// Declares enums by their words. Alternative spellings follow the first.
macro_rules! choice_enums {
    ($( $(#[$meta:meta])* $name:ident { $( $variant:ident = $word:literal $(| $alias:literal)* ),+ $(,)? } )+) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, schemars::JsonSchema)]
            #[schemars(inline)]
            pub(crate) enum $name {
                $( #[serde(rename = $word)] $variant, )+
            }

            impl $name {
                pub(crate) const WORDS: &'static [&'static str] = &[$( $word, )+];
            }

            impl Setting for $name {
                fn expects() -> String {
                    Self::WORDS.join(" | ")
                }

                fn read(place: &ValueCursor<'_>) -> Option<Self> {
                    match place.text().unwrap_or_default() {
                        $( $word $(| $alias)* => Some(Self::$variant), )+
                        _ => place.mismatch(&Self::expects()),
                    }
                }
            }
        )+
    };
}

choice_enums! {
    /// A kind of agent, or `auto`.
    ExecutorName {
        Auto = "auto",
        Claude = "claude",
        Codex = "codex",
        Acp = "acp",
        Native = "native",
        Parrot = "parrot",
    }

    Mode { Agent = "agent", Model = "model" }

    /// Tools that follow YAML 1.1 turn `on` and `off` into booleans; both spellings are accepted.
    Trust { Auto = "auto", On = "on" | "true", Off = "off" | "false" }

    /// Whether the bus is also offered on Hermes' socket.
    HermesSocket { Auto = "auto", On = "on" | "true", Off = "off" | "false" }

    /// Whether a person who looks elsewhere is notified.
    DesktopNotifications { Auto = "auto", On = "on" | "true", Off = "off" | "false" }

    /// What happens to a conversation that cannot be summarised.
    SummaryFailure { Abort = "abort", Truncate = "truncate" }

    /// Whose signature a webhook carries.
    SchemeName { Angelia = "angelia", GitHub = "github", Slack = "slack", Stripe = "stripe" }

    /// How a message is handled while a turn of its chat runs.
    BusyChoice { Steer = "steer", Queue = "queue", Interrupt = "interrupt" }

    Permission { Ask = "ask", Edit = "edit", Unattended = "unattended" }

    Billing { Any = "any", Subscription = "subscription", ApiKey = "api_key" }

    /// The amount of thinking that a model should do.
    Reasoning { Off = "off" | "false", Low = "low", Medium = "medium", High = "high", Max = "max" }

    /// The sandbox of a model's commands.
    SandboxChoice { Auto = "auto", Landlock = "landlock", Off = "off" | "false" }

    /// An API of models.
    ApiName { Messages = "messages", Chat = "chat", Responses = "responses" }

    /// The choice among several keys.
    RotationName {
        FillFirst = "fill_first",
        RoundRobin = "round_robin",
        LeastUsed = "least_used",
    }

    /// The part of its own reasoning that a server wants back.
    EchoName {
        None = "none",
        Signature = "signature",
        Encrypted = "encrypted",
        ReasoningContent = "reasoning_content",
        ReasoningDetails = "reasoning_details",
    }

    /// The name of the limit of output.
    MaxTokensName { MaxTokens = "max_tokens", MaxCompletionTokens = "max_completion_tokens" }
}

impl ExecutorName {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Acp => "acp",
            Self::Native => "native",
            Self::Parrot => "parrot",
        }
    }

    /// Returns the executor with this name, if a model id can refer to it: `auto` is not an executor, and
    /// `acp` needs a command line.
    pub(crate) fn from_name(word: &str) -> Option<Self> {
        let all = [Self::Claude, Self::Codex, Self::Native, Self::Parrot];
        all.into_iter().find(|one| one.as_str() == word)
    }

    /// Returns the executors that this setting allows, the preferred one first. The last one of `auto` needs
    /// nothing installed; `native`, as part of `auto`, also needs a model.
    pub(crate) const fn candidates(self) -> &'static [Self] {
        match self {
            Self::Auto => &[Self::Claude, Self::Codex, Self::Native, Self::Parrot],
            Self::Claude => &[Self::Claude],
            Self::Codex => &[Self::Codex],
            Self::Acp => &[Self::Acp],
            Self::Native => &[Self::Native],
            Self::Parrot => &[Self::Parrot],
        }
    }
}

impl From<Mode> for model::Mode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Agent => Self::Agent,
            Mode::Model => Self::Model,
        }
    }
}

impl From<model::Mode> for Mode {
    fn from(mode: model::Mode) -> Self {
        match mode {
            model::Mode::Agent => Self::Agent,
            model::Mode::Model => Self::Model,
        }
    }
}

impl From<Permission> for model::PermissionLevel {
    fn from(permission: Permission) -> Self {
        match permission {
            Permission::Ask => Self::Ask,
            Permission::Edit => Self::Edit,
            Permission::Unattended => Self::Unattended,
        }
    }
}

impl From<Billing> for model::Billing {
    fn from(billing: Billing) -> Self {
        match billing {
            Billing::Any => Self::Any,
            Billing::Subscription => Self::Subscription,
            Billing::ApiKey => Self::ApiKey,
        }
    }
}

impl From<Reasoning> for model::ReasoningEffort {
    fn from(reasoning: Reasoning) -> Self {
        match reasoning {
            Reasoning::Off => Self::Off,
            Reasoning::Low => Self::Low,
            Reasoning::Medium => Self::Medium,
            Reasoning::High => Self::High,
            Reasoning::Max => Self::Max,
        }
    }
}

impl From<SandboxChoice> for model::SandboxMode {
    fn from(sandbox: SandboxChoice) -> Self {
        match sandbox {
            SandboxChoice::Auto => Self::Auto,
            SandboxChoice::Landlock => Self::Landlock,
            SandboxChoice::Off => Self::Off,
        }
    }
}

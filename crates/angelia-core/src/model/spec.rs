//! The launch specification: everything that determines how an agent is started. It is stored with
//! the session, so that a resumed conversation never silently loses a flag, and hashed into the
//! [`LaunchFingerprint`](super::LaunchFingerprint), so that a process is reused only where it fits.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use super::{
    Budgets, HistoryMessage, NativeSettings, Permissions, RawJson, ReviewPlan, TurnId, TurnTimeouts,
};

#[derive(Clone, Debug)]
pub struct SessionSpec {
    pub profile: Arc<str>,
    pub executor: Arc<str>,
    pub mode: Mode,
    /// `None` for the agent's own default; the first turn reports it, and from then on it is fixed.
    /// On the built-in loop, `PROVIDER/MODEL`.
    pub model: Option<Arc<str>>,
    pub cwd: PathBuf,
    /// Whether to use the project's hooks, MCP servers and instructions in `cwd`.
    pub trust: bool,
    pub system: SystemPrompt,
    /// A conversation from another agent or client, with which the agent starts.
    pub history: Vec<HistoryMessage>,
    /// The last of the session's own turns that `history` also covers: the session was relaunched
    /// after it.
    pub history_until: Option<TurnId>,
    pub caller_tools: Vec<CallerTool>,
    pub output_schema: Option<RawJson>,
    pub permissions: Permissions,
    pub tools: ToolSet,
    /// By name, in the same form as `mcp_servers` in the configuration.
    pub mcp_servers: BTreeMap<Arc<str>, RawJson>,
    /// Set in the child process, even if its environment is otherwise scrubbed.
    pub env: BTreeMap<Arc<str>, Arc<str>>,
    /// Names of variables passed on from our environment; a trailing `*` is allowed.
    pub env_pass: Vec<Arc<str>>,
    pub binary: Option<PathBuf>,
    /// The whole command line, for agents without a dedicated binary.
    pub command: Vec<Arc<str>>,
    pub billing: Billing,
    /// Whether to keep text that changes daily out of the system prompt, so that the prompt stays
    /// cached.
    pub stable_prompt: bool,
    /// Whether to continue the agent's own conversation from turn to turn, even after its process
    /// has exited. If off, every turn starts a new process.
    pub resume: bool,
    /// Number of processes with this specification to start in advance.
    pub warm: u32,
    pub timeouts: TurnTimeouts,
    pub budgets: Budgets,
    pub native: NativeSettings,
    /// `None` if the session is not reviewed.
    pub review: Option<ReviewPlan>,
    /// The specification that takes over when the quota is exhausted.
    pub fallback: Option<Box<SessionSpec>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The agent's own tools act on this machine.
    Agent,
    /// The agent's own tools are off; only the caller's tools exist.
    Model,
}

impl Mode {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Model => "model",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SystemPrompt {
    /// The agent's own prompt.
    Default,
    /// The agent's own prompt, followed by this text.
    Append(Arc<str>),
    /// Only this text.
    Replace(Arc<str>),
}

/// A tool that the caller runs, not the agent.
#[derive(Clone, Debug)]
pub struct CallerTool {
    pub name: Arc<str>,
    pub description: Arc<str>,
    pub input_schema: RawJson,
}

/// Selects the agent's own tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolSet {
    Default,
    All,
    None,
    List(Vec<Arc<str>>),
}

/// The account that may pay for a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Billing {
    Any,
    Subscription,
    ApiKey,
}

impl Billing {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Subscription => "subscription",
            Self::ApiKey => "api_key",
        }
    }
}

impl SessionSpec {
    /// Returns a minimal specification: everything off, no history.
    pub fn new(executor: impl Into<Arc<str>>, cwd: impl Into<PathBuf>) -> Self {
        Self {
            profile: "default".into(),
            executor: executor.into(),
            mode: Mode::Agent,
            model: None,
            cwd: cwd.into(),
            trust: false,
            system: SystemPrompt::Default,
            history: Vec::new(),
            history_until: None,
            caller_tools: Vec::new(),
            output_schema: None,
            permissions: Permissions {
                level: super::PermissionLevel::Ask,
                allowed: Vec::new(),
                disallowed: Vec::new(),
            },
            tools: ToolSet::Default,
            mcp_servers: BTreeMap::new(),
            env: BTreeMap::new(),
            env_pass: Vec::new(),
            binary: None,
            command: Vec::new(),
            billing: Billing::Any,
            stable_prompt: true,
            resume: true,
            warm: 0,
            timeouts: TurnTimeouts::default(),
            budgets: Budgets::default(),
            native: NativeSettings::default(),
            review: None,
            fallback: None,
        }
    }
}

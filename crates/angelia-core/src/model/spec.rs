//! The launch specification: everything that decides how an agent is started. It is persisted with
//! the session, so that a resumed conversation never silently loses a flag, and hashed into the
//! [`LaunchFingerprint`](super::LaunchFingerprint), so that a process is reused only where it fits.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use super::{Budgets, Clocks, Message, Permissions, RawJson, TurnId};

#[derive(Clone, Debug)]
pub struct SessionSpec {
    pub profile: Arc<str>,
    pub executor: Arc<str>,
    pub mode: Mode,
    /// `None`: the agent's own default, resolved by its first turn and then fixed.
    pub model: Option<Arc<str>>,
    pub cwd: PathBuf,
    /// Project hooks, project MCP servers and project instructions of `cwd` are honoured.
    pub trust: bool,
    pub system: SystemPrompt,
    /// A conversation that happened elsewhere and is carried into this one.
    pub history: Vec<Message>,
    /// The turns of the session up to this one are in `history` too: it was launched anew since.
    pub history_until: Option<TurnId>,
    pub caller_tools: Vec<CallerTool>,
    pub output_schema: Option<RawJson>,
    pub permissions: Permissions,
    pub tools: ToolSet,
    /// By name, in the shape `mcp_servers` has in the configuration.
    pub mcp_servers: BTreeMap<Arc<str>, RawJson>,
    /// Set in the child; wins over the scrub.
    pub env: BTreeMap<Arc<str>, Arc<str>>,
    /// Names let through from our own environment, `*` at the end allowed.
    pub env_pass: Vec<Arc<str>>,
    pub binary: Option<PathBuf>,
    /// The whole command line of an agent that has no binary of its own name.
    pub command: Vec<Arc<str>>,
    pub billing: Billing,
    /// Keep what changes from day to day out of the system prompt, for the sake of the cache.
    pub stable_prompt: bool,
    /// Continue the agent's own conversation from one turn to the next, also after its process
    /// has gone; off: every process starts anew.
    pub resume: bool,
    /// How many processes of this shape are kept started and waiting.
    pub warm: u32,
    pub clocks: Clocks,
    pub budgets: Budgets,
    /// What takes over when a quota is used up.
    pub fallback: Option<Box<SessionSpec>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The agent's own tools act on this machine.
    Agent,
    /// They are off; only the caller's tools exist.
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
    /// The agent's own.
    Default,
    /// The agent's own, then this.
    Append(Arc<str>),
    /// Only this.
    Replace(Arc<str>),
}

/// A tool that the caller, not the agent, runs.
#[derive(Clone, Debug)]
pub struct CallerTool {
    pub name: Arc<str>,
    pub description: Arc<str>,
    pub input_schema: RawJson,
}

/// Which of the agent's own tools exist at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolSet {
    Default,
    All,
    None,
    List(Vec<Arc<str>>),
}

/// Who may pay for a turn.
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
    /// A plain specification to start from: everything off, nothing carried.
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
            clocks: Clocks::default(),
            budgets: Budgets::default(),
            fallback: None,
        }
    }
}
